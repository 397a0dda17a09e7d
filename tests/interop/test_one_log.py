"""Six protocols send to one topic, and every kind of consumer gets all six messages, before and after a kill -9."""

from __future__ import annotations

import asyncio
import base64
import json
import queue
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import aiocoap
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from gateway.client.client import Client
from tests.interop.node import ROOT, Node
from tests.stored_records import stored_bodies

TOPIC = "sensors"
SENT = {"mqtt", "coap", "cloudevents", "http", "remoting", "grpc"}
ANSWER_S = 20.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("one")) as running:
        yield running


@pytest.fixture(scope="module")
def heard(node: Node) -> set[str]:
    """Send one message over each protocol. Returns what an MQTT subscriber to `sensors/#` received meanwhile."""
    messages: queue.Queue[bytes] = queue.Queue()
    ready: queue.Queue[bool] = queue.Queue()
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.on_message = lambda _client, _data, message: messages.put(bytes(message.payload))
    client.on_connect = lambda client, *_: client.subscribe(f"{TOPIC}/#", 1)
    client.on_subscribe = lambda *_: ready.put(True)
    client.connect("127.0.0.1", node.port("mqtt"))
    client.loop_start()
    ready.get(timeout=ANSWER_S)
    client.publish(f"{TOPIC}/room1/temp", b"mqtt", qos=1).wait_for_publish(ANSWER_S)
    asyncio.run(by_coap(node))
    by_http(
        node, f"/ce/{TOPIC}/alarm", b"cloudevents", {"ce-id": "1", "ce-source": "/t", "ce-type": "t", "ce-specversion": "1.0"}
    )
    by_http(node, f"/v1/topics/{TOPIC}/messages", b"http", {})
    with Client(f"127.0.0.1:{node.port('nameserver')}") as remoting:
        remoting.send(TOPIC, b"remoting")
    by_sdk(node)
    found: set[str] = set()
    while len(found) < len(SENT):
        found.add(messages.get(timeout=ANSWER_S).decode())
    client.disconnect()
    client.loop_stop()
    return found


async def by_coap(node: Node) -> None:
    context = await aiocoap.Context.create_client_context()
    uri = f"coap://127.0.0.1:{node.port('coap')}/mq/{TOPIC}/room2/temp"
    answer = await context.request(aiocoap.Message(code=aiocoap.POST, uri=uri, payload=b"coap")).response
    await context.shutdown()
    assert answer.code.is_successful()


def by_http(node: Node, path: str, body: bytes, headers: dict[str, str]) -> bytes:
    url = f"http://127.0.0.1:{node.port('http')}{path}"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers, method="POST"), timeout=ANSWER_S) as answer:
        return bytes(answer.read())


def by_sdk(node: Node) -> None:
    """Send with the official gRPC SDK in a process of its own."""
    program = (
        "import sys\nfrom rocketmq import ClientConfiguration, Credentials, Message, Producer\n"
        f"producer = Producer(ClientConfiguration(sys.argv[1], Credentials()), ('{TOPIC}',))\n"
        f"producer.startup()\nmessage = Message()\nmessage.topic = '{TOPIC}'\nmessage.body = b'grpc'\n"
        "producer.send(message)\nproducer.shutdown()\n"
    )
    endpoint = f"127.0.0.1:{node.port('grpc')}"
    subprocess.run([sys.executable, "-c", program, endpoint], cwd=ROOT, timeout=60, check=True, capture_output=True)


def received(node: Node, group: str) -> set[str]:
    """Receive and acknowledge all messages of `group` over HTTP. Returns their bodies."""
    found: set[str] = set()
    end = time.monotonic() + ANSWER_S
    while time.monotonic() < end and len(found) < len(SENT):
        answer = by_http(node, f"/v1/groups/{group}/topics/{TOPIC}:receive?max=32&wait_ms=1000&invisible_ms=30000", b"", {})
        if answer:
            messages = json.loads(answer)["messages"]
            found |= {base64.b64decode(message["body"]).decode() for message in messages}
            receipts = json.dumps({"receipts": [message["receipt"] for message in messages]}).encode()
            by_http(node, f"/v1/groups/{group}/topics/{TOPIC}:ack", receipts, {"Content-Type": "application/json"})
    return found


def read_back(node: Node) -> set[str]:
    """All bodies of the topic, by a remoting client's pulls."""
    with Client(f"127.0.0.1:{node.port('nameserver')}") as client:
        return {body.decode() for body in stored_bodies(client, TOPIC)}


def test_a_live_mqtt_subscriber_hears_all_protocols(heard: set[str]) -> None:
    assert heard == SENT


def test_a_group_over_http_receives_all_protocols(node: Node, heard: set[str]) -> None:
    assert received(node, "http-group") == SENT


def test_a_remoting_client_reads_all_protocols_before_and_after_kill_nine(node: Node, heard: set[str]) -> None:
    assert read_back(node) == SENT
    node.kill()
    node.start()
    assert read_back(node) == SENT
    assert received(node, "later-group") == SENT
    assert received_nothing(node, "http-group")


def received_nothing(node: Node, group: str) -> bool:
    """Whether the group receives no message again that was acknowledged before the kill."""
    return by_http(node, f"/v1/groups/{group}/topics/{TOPIC}:receive?max=32&wait_ms=300&invisible_ms=30000", b"", {}) == b""


def test_origins_are_told_to_those_who_ask(node: Node, heard: set[str]) -> None:
    answer = by_http(node, f"/v1/groups/paths/topics/{TOPIC}:receive?max=32&wait_ms=1000&invisible_ms=30000", b"", {})
    paths = {base64.b64decode(one["body"]).decode(): one["path"] for one in json.loads(answer)["messages"]}
    assert paths["mqtt"] == f"{TOPIC}/room1/temp"
    assert paths["coap"] == f"{TOPIC}/room2/temp"
    assert paths["remoting"] == TOPIC
