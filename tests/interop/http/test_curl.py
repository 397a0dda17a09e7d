"""curl, over HTTP/1.1 and over HTTP/2 with prior knowledge, against a node, also after kill -9."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.interop.http.curl import CURL, Curl
from tests.interop.node import Node

pytestmark = [pytest.mark.interop, pytest.mark.skipif(CURL is None, reason="curl is not installed")]

EVENT = ["-H", "ce-specversion: 1.0", "-H", "ce-source: /curl", "-H", "ce-type: com.example.curl"]


def test_produce_receive_acknowledge(curl: Curl) -> None:
    topic = f"orders-{curl.tag}"
    fields = ["-H", "mq-key: k1", "-H", "mq-tag: eu", "-H", 'mq-properties: {"colour":"red"}', "-H", "Content-Type: text/plain"]
    status, _, body = curl(f"/v1/topics/{topic}/messages", *fields, content=b"\x00hello\xff")
    assert status == 201
    placed = json.loads(body)
    (message,) = curl.receive(topic)
    assert base64.b64decode(str(message["body"])) == b"\x00hello\xff"
    assert (message["id"], message["queue"], message["offset"]) == (placed["id"], placed["queue"], placed["offset"])
    assert (message["key"], message["tag"], message["properties"]) == ("k1", "eu", {"colour": "red"})
    receipt = str(message["receipt"])
    assert [result["ok"] for result in curl.settle("ack", topic, [receipt])] == [True]
    assert curl.receive(topic, "max=32&wait_ms=300") == []


def test_nack_gives_back_and_extend_keeps(curl: Curl) -> None:
    topic = f"again-{curl.tag}"
    assert curl(f"/v1/topics/{topic}/messages", content=b"once more")[0] == 201
    (first,) = curl.receive(topic)
    assert curl.settle("nack", topic, [str(first["receipt"])])[0]["ok"] is True
    (second,) = curl.receive(topic)
    assert (second["id"], first["attempt"], second["attempt"]) == (first["id"], 1, 2)
    extended = curl.settle("extend", topic, [str(second["receipt"])], invisible_ms=30_000)[0]
    assert extended["ok"] is True
    assert curl.receive(topic, "wait_ms=200") == []
    assert curl.settle("ack", topic, [str(extended["next"])])[0]["ok"] is True


def test_bare_body(curl: Curl) -> None:
    topic = f"bare-{curl.tag}"
    curl(f"/v1/topics/{topic}/messages", "-H", "Content-Type: text/plain", content=b"just this")
    target = f"/v1/groups/g/topics/{topic}:receive?wait_ms=5000"
    status, fields, body = curl(target, "-X", "POST", "-H", "Accept: application/octet-stream")
    assert (status, body, fields["content-type"]) == (200, b"just this", "text/plain")
    assert curl.settle("ack", topic, [fields["mq-receipt"]])


def test_batch_and_pull(curl: Curl) -> None:
    topic = f"batch-{curl.tag}"
    items = b"".join(json.dumps({"text": f"m{at}", "messageGroup": "one"}).encode() + b"\n" for at in range(10))
    status, _, body = curl(f"/v1/topics/{topic}/messages:batch", "-H", "Content-Type: application/x-ndjson", content=items)
    assert status == 200
    queue = json.loads(body)["results"][0]["queue"]
    _, _, body = curl(f"/v1/topics/{topic}/queues/{queue}?offset=3&max=4")
    page = json.loads(body)
    assert [base64.b64decode(message["body"]) for message in page["messages"]] == [b"m3", b"m4", b"m5", b"m6"]
    assert (page["next"], page["max"]) == (7, 10)
    bounds = json.loads(curl(f"/v1/topics/{topic}/queues")[2])["queues"]
    assert {"queue": queue, "min": 0, "max": 10} in bounds


def test_cloud_events_in_three_modes(curl: Curl) -> None:
    topic = f"events-{curl.tag}"
    json_type = "Content-Type: application/json"
    assert curl(f"/ce/{topic}", *EVENT, "-H", "ce-id: b%201", "-H", json_type, content=b'{"mode": "binary"}')[0] == 204
    envelope = {"specversion": "1.0", "id": "s 1", "source": "/curl", "type": "t", "data": {"mode": "structured"}}
    structured = "Content-Type: application/cloudevents+json; charset=utf-8"
    assert curl(f"/ce/{topic}", "-H", structured, content=json.dumps(envelope).encode())[0] == 204
    batch = json.dumps([{**envelope, "id": f"a{at}"} for at in range(3)] + [{}]).encode()
    status, _, body = curl(f"/ce/{topic}", "-H", "Content-Type: application/cloudevents-batch+json", content=batch)
    assert (status, [result["status"] for result in json.loads(body)["results"]]) == (207, [200, 200, 200, 400])
    found: dict[str, object] = {}
    while len(found) < 5:
        for message in curl.receive(topic):
            attributes = message["attributes"]
            assert isinstance(attributes, dict)
            found[attributes["id"]] = json.loads(base64.b64decode(str(message["body"])))
    assert found == {"b 1": {"mode": "binary"}, "s 1": {"mode": "structured"}} | {
        f"a{at}": {"mode": "structured"} for at in range(3)
    }


def test_latest_value(curl: Curl) -> None:
    path = f"rooms-{curl.tag}/kitchen/temp"
    assert curl(f"/v1/latest/{path}")[0] == 404
    for value in (b"20.5", b"21.0"):
        assert curl(f"/v1/topics/{path}/messages", "-H", "mq-retain: true", content=value)[0] == 201
    status, fields, body = curl(f"/v1/latest/{path}")
    assert (status, body, fields["mq-path"]) == (200, b"21.0", path)
    status, fields, _ = curl(f"/v1/latest/{path}", "-I", "-o", "/dev/null")
    assert (status, fields["content-length"]) == (200, "4")
    assert curl(f"/v1/latest/{path}", "-X", "DELETE")[0] == 204
    assert curl(f"/v1/latest/{path}")[0] == 404


def test_large_and_compressed_bodies(curl: Curl) -> None:
    """curl asks with Expect: 100-continue for large bodies, and sends chunks when it does not know the length."""
    topic = f"large-{curl.tag}"
    large = bytes(range(256)) * 16_384
    assert curl(f"/v1/topics/{topic}/messages", "-H", "Expect: 100-continue", content=large)[0] == 201
    assert curl(f"/v1/topics/{topic}/messages", "-H", "Content-Encoding: gzip", content=gzip.compress(large))[0] == 201
    if curl.version == "--http1.1":
        assert curl(f"/v1/topics/{topic}/messages", "-H", "Transfer-Encoding: chunked", content=large)[0] == 201
    seen = 0
    while messages := curl.receive(topic, "max=1&wait_ms=1000"):
        assert base64.b64decode(str(messages[0]["body"])) == large
        seen += 1
    assert seen == (3 if curl.version == "--http1.1" else 2)
    status, _, body = curl(f"/v1/topics/{topic}/messages", content=large + b"x")
    assert (status, json.loads(body)["limit"]) == (413, 4_194_304)


def test_a_delayed_message_comes_at_its_time_and_not_before(curl: Curl) -> None:
    topic = f"later-{curl.tag}"
    began = time.monotonic()
    assert curl(f"/v1/topics/{topic}/messages?delay_ms=1200", content=b"late")[0] == 201
    (message,) = curl.receive(topic)
    assert time.monotonic() - began >= 1.2
    assert base64.b64decode(str(message["body"])) == b"late"


def test_order_within_a_message_group(curl: Curl) -> None:
    topic = f"ordered-{curl.tag}"
    for at in range(6):
        assert curl(f"/v1/topics/{topic}/messages", "-H", "mq-message-group: g", content=b"%d" % at)[0] == 201
    seen = []
    while messages := curl.receive(topic, "max=2&ordered=true&wait_ms=500"):
        assert curl.receive(topic, "max=2&ordered=true") == []
        seen += [base64.b64decode(str(message["body"])) for message in messages]
        curl.settle("ack", topic, [str(message["receipt"]) for message in messages])
    assert seen == [b"%d" % at for at in range(6)]


def test_refusals(curl: Curl) -> None:
    assert curl("/nothing")[0] == 404
    status, fields, _ = curl("/v1/topics", "-X", "PUT", content=b"x")
    assert (status, fields["allow"]) == (405, "GET, HEAD, OPTIONS")
    status, _, body = curl("/ce/t", *EVENT, content=b"x")
    assert (status, json.loads(body)["attribute"]) == (400, "id")
    assert curl("/ce/a/../../etc/passwd", "--path-as-is", *EVENT, "-H", "ce-id: 1", content=b"x")[0] == 400
    assert curl("/v1/topics/absent-topic")[0] == 404
    assert curl("/ce/t", "-X", "OPTIONS", "-H", "WebHook-Request-Origin: a.example")[1]["webhook-allowed-origin"] == "a.example"


def test_a_waiting_receive_is_woken(curl: Curl) -> None:
    topic = f"wake-{curl.tag}"
    curl(f"/v1/topics/{topic}/messages", content=b"first")
    assert len(curl.receive(topic)) == 1
    port = curl.node.port("http")
    target = f"http://127.0.0.1:{port}/v1/groups/g-{curl.tag}/topics/{topic}:receive?wait_ms=15000"
    with subprocess.Popen(
        ["curl", "-sS", "--max-time", "20", curl.version, "-X", "POST", target], stdout=subprocess.PIPE
    ) as waiting:
        assert curl(f"/v1/topics/{topic}/messages", content=b"second")[0] == 201
        out, _ = waiting.communicate(timeout=10)
    assert base64.b64decode(json.loads(out)["messages"][0]["body"]) == b"second"


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        curl = Curl(node, "--http1.1")
        for at in range(20):
            assert curl("/ce/kept", *EVENT, "-H", f"ce-id: {at}", content=b"event %d" % at)[0] == 204
        assert curl("/v1/topics/kept/x/messages", "-H", "mq-retain: true", content=b"value")[0] == 201
        acknowledged = curl.receive("kept", "max=5&wait_ms=1000&invisible_ms=1000")
        assert all(result["ok"] for result in curl.settle("ack", "kept", [str(message["receipt"]) for message in acknowledged]))
        node.kill()
        node.start()
        assert curl("/v1/latest/kept/x")[2] == b"value"
        bodies = []
        while messages := curl.receive("kept", "max=32&wait_ms=2000"):
            bodies += [base64.b64decode(str(message["body"])) for message in messages]
        done = [base64.b64decode(str(message["body"])) for message in acknowledged]
        assert sorted(bodies + done) == sorted([b"event %d" % at for at in range(20)] + [b"value"])
