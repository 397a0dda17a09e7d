"""One message in every protocol, with unmodified clients: an event by HTTP, and a traced message of an SDK (docs/model.md)."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import urllib.request
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.interop.grpc.setup import make_topic
from tests.interop.node import Node

pytestmark = pytest.mark.interop
SCRIPT = Path(__file__).parent / "grpc" / "python_model.py"
CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SDK_CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
EVENT = {
    "specversion": "1.0", "id": "e1", "source": "/curl", "type": "com.example.made", "subject": "größe", "comexample": "x y",
    "traceparent": CONTEXT, "tracestate": "a=b",
}  # fmt: skip
RUN_S = 120


class Listener:
    """A paho client of MQTT 5 or 3.1.1 that listens to everything below the topic."""

    def __init__(self, node: Node, version: int) -> None:
        self.heard: queue.Queue[paho.MQTTMessage] = queue.Queue()
        ready: queue.Queue[object] = queue.Queue()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, f"listener-{version}", protocol=version)  # type: ignore[arg-type]
        self.client.on_message = lambda *about: self.heard.put(about[-1])
        self.client.on_subscribe = lambda *about: ready.put(about)
        self.client.connect("127.0.0.1", node.port("mqtt"))
        self.client.loop_start()
        self.client.subscribe("model/#", 1)
        ready.get(timeout=20)

    def next(self) -> paho.MQTTMessage:
        return self.heard.get(timeout=30)

    def stop(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def user_properties(message: paho.MQTTMessage) -> dict[str, str]:
    """The user properties of a message."""
    return dict(getattr(message.properties, "UserProperty", []))


def post_event(node: Node, path: str) -> None:
    text = json.dumps({**EVENT, "datacontenttype": "application/json", "data": {"a": 1}}).encode()
    fields = {"Content-Type": "application/cloudevents+json"}
    asked = urllib.request.Request(f"http://127.0.0.1:{node.port('http')}/ce/{path}", text, fields, method="POST")
    with urllib.request.urlopen(asked, timeout=20) as answer:
        assert answer.status == 204


def test_an_event_by_http_and_a_traced_message_reach_everybody_whole(tmp_path: Path) -> None:
    with Node(tmp_path / "node") as node:
        make_topic(node, "model", "NORMAL")
        five, three = Listener(node, paho.MQTTv5), Listener(node, paho.MQTTv311)
        post_event(node, "model")
        names = (f"127.0.0.1:{node.port('grpc')}", "model", "model-group")
        done = subprocess.run(
            [sys.executable, str(SCRIPT), *names], capture_output=True, text=True, timeout=RUN_S, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout + done.stderr
        told = json.loads(done.stdout.splitlines()[-1])
        wanted = {f"CE_{name}": value for name, value in EVENT.items()}
        wanted |= {"CE_datacontenttype": "application/json", "traceparent": CONTEXT, "tracestate": "a=b"}
        assert told == {"body": '{"a": 1}', "tag": "com.example.made", "keys": ["e1"], "properties": wanted}

        event, traced = five.next(), five.next()
        assert (event.payload, user_properties(event)) == (b'{"a": 1}', EVENT)
        assert vars(event.properties)["ContentType"] == "application/json"
        assert traced.payload == b"traced"
        assert user_properties(traced) == {"traceparent": SDK_CONTEXT, "tracestate": "a=b", "mq-tag": "A", "mq-key": "k1"}
        assert json.loads(three.next().payload) == {**EVENT, "datacontenttype": "application/json", "data": {"a": 1}}
        five.stop()
        three.stop()


def test_an_event_by_paho_is_that_of_http(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        make_topic(node, "model", "NORMAL")
        sender = paho.Client(CallbackAPIVersion.VERSION2, "sender", protocol=paho.MQTTv5)
        sender.connect("127.0.0.1", node.port("mqtt"))
        sender.loop_start()
        about = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        about.ContentType = "application/json"
        about.UserProperty = list(EVENT.items())
        sender.publish("model", b'{"a": 1}', 1, properties=about).wait_for_publish(20)
        sender.disconnect()
        sender.loop_stop()
        url = f"http://127.0.0.1:{node.port('http')}/v1/groups/g/topics/model:receive?wait_ms=5000"
        with urllib.request.urlopen(urllib.request.Request(url, b"", method="POST"), timeout=20) as answer:
            (message,) = json.load(answer)["messages"]
        assert message["attributes"] == {**EVENT, "datacontenttype": "application/json"}
        assert (message["key"], message["tag"], message["contentType"]) == ("e1", "com.example.made", "application/json")
