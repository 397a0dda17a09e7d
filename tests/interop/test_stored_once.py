"""Repeated sends of real clients are stored once, before and after kill -9: HTTP, CloudEvents, MQTT 5, the Java SDK."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient

pytestmark = pytest.mark.interop
EVENT = {"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/s", "ce-type": "t", "prefer": "return=representation"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("once")) as running:
        yield running


def post(node: Node, method: str, path: str, body: bytes, fields: dict[str, str]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", node.port("http"), timeout=20)
    connection.request(method, path, body, {"content-type": "application/json", **fields})
    answer = connection.getresponse()
    return answer.status, answer.read()


def count(node: Node, topic: str) -> int:
    """Messages that the topic has had."""
    _, body = post(node, "GET", f"/v1/topics/{topic}/queues", b"", {})
    return sum(queue["max"] for queue in json.loads(body)["queues"])


def publish(node: Node, qos: int, body: bytes) -> int:
    """Publish with a key; the reason code of the answer."""
    reasons: list[int] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.on_publish = lambda _client, _data, _mid, reason, _properties: reasons.append(reason.value)
    client.connect("127.0.0.1", node.port("mqtt"))
    client.loop_start()
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = [("idempotency-key", f"m{qos}")]
    client.publish("once-mqtt", body, qos=qos, properties=properties).wait_for_publish(20)
    client.disconnect()
    client.loop_stop()
    return reasons[0]


def test_http_events_and_mqtt(node: Node) -> None:
    assert post(node, "PUT", "/v1/topics/once-events", b'{"attributes": {"deduplication": "event"}}', {})[0] == 204
    key = {"idempotency-key": '"k1"'}
    first = post(node, "POST", "/v1/topics/once-http/messages", b'{"a": 1}', key)
    event = post(node, "POST", "/ce/once-events", b'{"a": 1}', EVENT)
    assert (first[0], event[0]) == (201, 200)
    assert [publish(node, qos, b"x") for qos in (1, 2)] == [0, 0]
    for killed in (False, True):
        if killed:
            node.kill()
            node.start()
        assert post(node, "POST", "/v1/topics/once-http/messages", b'{"a": 1}', key) == first
        assert post(node, "POST", "/v1/topics/once-http/messages", b'{"a": 2}', key)[0] == 422
        assert post(node, "POST", "/ce/once-events", b'{"a": 1}', EVENT) == event
        assert [publish(node, qos, b"x") for qos in (1, 2)] == [0, 0]
        assert publish(node, 1, b"other") == 0x83
    assert [count(node, topic) for topic in ("once-http", "once-events", "once-mqtt")] == [1, 1, 2]


def test_the_java_sdk_sends_a_message_again(java: JavaClient, node: Node) -> None:
    assert post(node, "PUT", "/v1/topics/JavaOnce", b'{"attributes": {"deduplication": "id"}}', {})[0] == 204
    java.scenario("once", f"127.0.0.1:{node.port('nameserver')}", "JavaOnce")
    assert count(node, "JavaOnce") == 2
