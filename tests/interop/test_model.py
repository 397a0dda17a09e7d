"""One message in every protocol, with unmodified clients: paho, the Python SDK, and Java's two clients (docs/model.md)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from protocols.cloudevents.instant import rfc3339, rfc3339_ms
from tests.interop.grpc.java import compiled
from tests.interop.grpc.setup import make_topic
from tests.interop.http_api import body_of, call, receive, request
from tests.interop.mqtt.paho_client import PahoClient
from tests.interop.node import Node
from tests.interop.remoting.java import build
from tests.patience import until

pytestmark = pytest.mark.interop
SCRIPT = Path(__file__).parent / "grpc" / "python_model.py"
CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SDK_CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
EVENT = {
    "specversion": "1.0", "id": "e1", "source": "/curl", "type": "com.example.made", "subject": "größe", "comexample": "x y",
    "traceparent": CONTEXT, "tracestate": "a=b",
}  # fmt: skip
RUN_S = 120


def user_properties(message: paho.MQTTMessage) -> dict[str, str]:
    """The user properties of a message."""
    return dict(getattr(message.properties, "UserProperty", []))


def post_event(node: Node, path: str, **more: str) -> None:
    text = json.dumps({**EVENT, **more, "datacontenttype": "application/json", "data": {"a": 1}}).encode()
    assert request(node, "POST", f"/ce/{path}", text, content_type="application/cloudevents+json")[0] == 204


def test_an_event_by_http_and_a_traced_message_reach_everybody_whole(tmp_path: Path) -> None:
    with Node(tmp_path / "node") as node:
        make_topic(node, "model", "NORMAL")
        five, three = PahoClient(node, "five", "model/#"), PahoClient(node, "three", "model/#", version=paho.MQTTv311)
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
        five.leave()
        three.leave()


@pytest.fixture(params=["remoting", "gRPC"])
def echo(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, list[str]]:
    """(the port, the beginning of the command line) of a Java client that tells what it receives and sends it again."""
    if request.param == "remoting":
        return "nameserver", build(tmp_path).command("Echoing")
    return "grpc", [*compiled(tmp_path), "GrpcEchoing"]


def seen_by_java(output: str) -> dict[str, tuple[str, str, dict[str, str]]]:
    """Body -> (tag, keys, user properties) of each message that the Java client has told."""
    found: dict[str, tuple[str, str, dict[str, str]]] = {}
    properties: dict[str, str] = {}
    for line in output.splitlines():
        kind, *about = line.split("\t")
        if kind == "property":
            properties[about[0]] = about[1]
        elif kind == "message":
            found[about[0]] = (about[1], about[2], properties)
            properties = {}
    return found


def read_queues(node: Node, topic: str) -> list[dict[str, Any]]:
    """What a reader by offset gets of a topic of one queue."""
    found: list[dict[str, Any]] = json.loads(request(node, "GET", f"/v1/topics/{topic}/queues/0")[1])["messages"]
    return found


def test_java_gets_and_gives_all_of_a_message(echo: tuple[str, list[str]], tmp_path: Path) -> None:
    """MQTT and HTTP in, Java out; Java in, MQTT and HTTP out. An expired message does not reach it."""
    port, command = echo
    with Node(tmp_path / "node") as node:
        for topic in ("model", "again"):
            put = request(node, "PUT", f"/v1/topics/{topic}", b'{"queues": 1}', content_type="application/json")
            assert put[0] < 300, put
        back = PahoClient(node, "back", "again/#")
        now_ms = time.time_ns() // 1_000_000
        expires = rfc3339(now_ms + 600_000)
        call(node, "/v1/topics/model/messages?ttl_ms=1500", b"brief")
        post_event(node, "model", expirytime=expires)
        sender = PahoClient(node, "sender")
        about = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        about.ContentType = "text/csv"
        about.MessageExpiryInterval = 600
        about.UserProperty = [("traceparent", SDK_CONTEXT), ("tracestate", "a=b,c=d"), ("colour", "red"), ("mq-key", "k1 k2")]
        sender.publish("model", b"1;2", retain=True, properties=about)
        sender.leave()
        until(lambda: b"brief" not in [body_of(one) for one in read_queues(node, "model")], 20)

        done = subprocess.run(
            [*command, f"127.0.0.1:{node.port(port)}", "model", "again", "2"],
            capture_output=True, text=True, timeout=RUN_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        seen = seen_by_java(done.stdout)
        assert set(seen) == {'{"a": 1}', "1;2"}
        tag, keys, found = seen['{"a": 1}']
        wanted = {f"CE_{name}": value for name, value in EVENT.items()}
        wanted |= {"CE_datacontenttype": "application/json", "CE_expirytime": expires, "mq-expires-at": expires}
        wanted |= {"traceparent": CONTEXT, "tracestate": "a=b"}
        assert (tag, keys, found) == ("com.example.made", "e1", wanted)
        _, keys, found = seen["1;2"]
        left_ms = rfc3339_ms(found.pop("mq-expires-at").encode()) - now_ms
        assert 600_000 <= left_ms <= 600_000 + RUN_S * 1_000
        assert keys == "k1 k2"
        assert found == {
            "mq-content-type": "text/csv", "traceparent": SDK_CONTEXT, "tracestate": "a=b,c=d", "colour": "red",
            "mqttRetain": "true",
        }  # fmt: skip

        heard = {message.payload: message for message in (back.next(), back.next())}
        event, other = heard[b'{"a": 1}'], heard[b"1;2"]
        assert user_properties(event) == {**EVENT, "expirytime": expires}
        assert vars(event.properties)["ContentType"] == "application/json"
        pairs = user_properties(other)
        assert pairs.pop("mq-tag", "MQTT_COMMON") == "MQTT_COMMON"
        assert pairs == {"traceparent": SDK_CONTEXT, "tracestate": "a=b,c=d", "colour": "red", "mq-key": "k1 k2"}
        assert vars(other.properties)["ContentType"] == "text/csv"
        for message in (event, other):
            assert 600 - RUN_S <= vars(message.properties)["MessageExpiryInterval"] <= 600
        back.leave()
        late = PahoClient(node, "late", "again/#", version=paho.MQTTv311)
        kept = late.next()
        assert (kept.payload, kept.retain) == (b"1;2", True), "Java sent it with mqttRetain"
        late.leave()
        told = {body_of(one): one for one in read_queues(node, "again")}
        assert told[b'{"a": 1}']["attributes"] == {**EVENT, "datacontenttype": "application/json", "expirytime": expires}
        assert (told[b"1;2"]["contentType"], told[b"1;2"]["key"]) == ("text/csv", "k1 k2")
        assert told[b'{"a": 1}']["expiresAt"] == expires
        assert rfc3339_ms(told[b"1;2"]["expiresAt"].encode()) == now_ms + left_ms


def test_an_event_by_paho_is_that_of_http(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        make_topic(node, "model", "NORMAL")
        sender = PahoClient(node, "sender")
        about = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        about.ContentType = "application/json"
        about.UserProperty = list(EVENT.items())
        sender.publish("model", b'{"a": 1}', properties=about)
        sender.leave()
        (message,) = receive(node, "g", "model", wait_ms=5_000)
        assert message["attributes"] == {**EVENT, "datacontenttype": "application/json"}
        assert (message["key"], message["tag"], message["contentType"]) == ("e1", "com.example.made", "application/json")
