"""Repeated sends of real clients are stored once, over kill -9: HTTP, uploads, CloudEvents, MQTT 5, the Java SDK."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.interop.http.curl import CURL, VERSIONS
from tests.interop.http_api import request
from tests.interop.mqtt.paho_client import PahoClient
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient

pytestmark = pytest.mark.interop
RECORDS = 2_000
JSON = {"content-type": "application/json"}
EVENT = {
    "ce-specversion": "1.0", "ce-id": "7", "ce-source": "/s", "ce-type": "t", "prefer": "return=representation", **JSON
}  # fmt: skip


def count(node: Node, topic: str) -> int:
    """Messages that the topic has had."""
    _, body = request(node, "GET", f"/v1/topics/{topic}/queues")
    return sum(queue["max"] for queue in json.loads(body)["queues"])


def publish(node: Node, qos: int, body: bytes) -> int:
    """Publish with a key; the reason code of the answer."""
    client = PahoClient(node, "sender")
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = [("idempotency-key", f"m{qos}")]
    reason = client.publish("once-mqtt", body, qos, properties=properties)
    client.leave()
    return reason


def test_http_events_and_mqtt(node: Node) -> None:
    assert request(node, "PUT", "/v1/topics/once-events", b'{"attributes": {"deduplication": "event"}}', **JSON)[0] == 204
    key = {"idempotency-key": '"k1"', **JSON}
    first = request(node, "POST", "/v1/topics/once-http/messages", b'{"a": 1}', **key)
    event = request(node, "POST", "/ce/once-events", b'{"a": 1}', **EVENT)
    assert (first[0], event[0]) == (201, 200)
    assert [publish(node, qos, b"x") for qos in (1, 2)] == [0, 0]
    for killed in (False, True):
        if killed:
            node.kill()
            node.start()
        assert request(node, "POST", "/v1/topics/once-http/messages", b'{"a": 1}', **key) == first
        assert request(node, "POST", "/v1/topics/once-http/messages", b'{"a": 2}', **key)[0] == 422
        assert request(node, "POST", "/ce/once-events", b'{"a": 1}', **EVENT) == event
        assert [publish(node, qos, b"x") for qos in (1, 2)] == [0, 0]
        assert publish(node, 1, b"other") == 0x83
    assert [count(node, topic) for topic in ("once-http", "once-events", "once-mqtt")] == [1, 1, 2]


@pytest.mark.skipif(CURL is None, reason="curl is not installed")
@pytest.mark.parametrize("version", VERSIONS)
def test_records_of_an_upload(node: Node, version: str, tmp_path: Path) -> None:
    """An upload by curl that the node does not survive, and the same file again: as many messages as records."""
    topic = f"once-upload{VERSIONS.index(version)}"
    request(node, "PUT", f"/v1/topics/{topic}", b"{}", **JSON)
    file = tmp_path / "records"
    file.write_text("".join(json.dumps({"text": f"m{at}", "idempotencyKey": f"k{at}"}) + "\n" for at in range(RECORDS)))
    url = f"http://127.0.0.1:{node.port('http')}/v1/topics/{topic}/messages:stream"
    command = ["curl", "-sSN", version, "--max-time", "100", "-X", "POST", "-T", str(file)]
    command += ["-H", "Content-Type: application/x-ndjson", url]

    def upload(*options: str, dies: bool = False) -> dict[int, dict[str, object]]:
        with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
            if dies:
                limit = time.monotonic() + 60
                while count(node, topic) < RECORDS // 10 and time.monotonic() < limit:
                    time.sleep(0.05)
                node.kill()
            said, _ = running.communicate()
        found = [json.loads(one) for one in said.split(b"\n") if one.endswith(b"}")]
        return {one.pop("seq"): one for one in found if "offset" in one}

    before = upload("--limit-rate", "20K", dies=True)
    node.start()
    stored = count(node, topic)
    assert RECORDS // 10 <= stored < RECORDS, "some of them"
    after = upload()
    again = upload()
    assert len(before) > 0
    assert len(after) == RECORDS
    assert after == again
    assert {at: after[at] for at in before} == before, "what was said before the kill is said again"
    assert count(node, topic) == RECORDS


def test_the_java_sdk_sends_a_message_again(java: JavaClient, node: Node) -> None:
    assert request(node, "PUT", "/v1/topics/Java-clients-once", b'{"attributes": {"deduplication": "id"}}', **JSON)[0] == 204
    java.scenario("once", f"127.0.0.1:{node.port('nameserver')}")
    assert count(node, "Java-clients-once") == 2
