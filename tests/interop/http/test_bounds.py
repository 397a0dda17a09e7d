"""What one peer may make the node do, seen by curl, h2load and aiohttp: refusals have a reason, and everybody is answered."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import subprocess

import aiohttp
import pytest

from protocols.http.handlers.batch import MESSAGES_MAX
from tests.interop.http.curl import CURL, Curl
from tests.interop.node import Node

pytestmark = [pytest.mark.interop, pytest.mark.skipif(CURL is None, reason="curl is not installed")]

AS_JSON = ("-H", "Content-Type: application/json")
AS_BATCH = ("-H", "Content-Type: application/cloudevents-batch+json")
PACKED = ("-H", "Content-Encoding: gzip")
BATCH = "/v1/topics/bounds/messages:batch"
SEND = "/v1/topics/bounds/messages"
EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def code(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, str]:
    return answer[0], json.loads(answer[2])["code"]


def test_batches_of_messages(curl: Curl) -> None:
    def batch(count: int) -> bytes:
        return json.dumps([{"text": "x"}] * count).encode()

    status, _, body = curl(BATCH, *AS_JSON, content=batch(MESSAGES_MAX))
    assert (status, len(json.loads(body)["results"])) == (200, MESSAGES_MAX)
    assert code(curl(BATCH, *AS_JSON, content=batch(MESSAGES_MAX + 1))) == (400, "message-illegal")
    nested = gzip.compress(b"[" + b"[]," * 2_000_000 + b"0]")
    assert code(curl(BATCH, *AS_JSON, *PACKED, content=nested)) == (400, "message-illegal")
    large = json.dumps([{"text": "é" * 100_000, "key": "k"}] * 8, ensure_ascii=False).encode()
    assert curl(BATCH, *AS_JSON, content=large)[0] == 200


def test_a_settlement_has_a_bounded_size(curl: Curl) -> None:
    content = json.dumps({"receipts": ["x" * 300] * 1_000}).encode()
    assert code(curl("/v1/groups/g/topics/bounds:ack", content=content)) == (413, "message-too-large")


def test_events_with_too_many_attributes_are_refused_one_by_one(curl: Curl) -> None:
    wide = {**EVENT, **{f"a{at}": "v" for at in range(990)}}
    status, _, body = curl("/ce/bounds", *AS_BATCH, *PACKED, content=gzip.compress(json.dumps([wide, EVENT] * 40).encode()))
    assert status == 207
    assert [result["status"] for result in json.loads(body)["results"]] == [413, 200] * 40


def test_what_early_answers_refuse(curl: Curl) -> None:
    event = ("-H", "ce-specversion: 1.0", "-H", "ce-source: /s", "-H", "ce-type: t", "-H", "Prefer: respond-async")
    assert curl("/ce/bounds", *event, content=b"x")[0] == 400
    assert curl("/ce/bounds", *event, "-H", "ce-id: 1", content=b"x")[0] == 202


def test_names_and_pages_of_others(curl: Curl) -> None:
    assert code(curl(SEND, "-H", "Host: evil.example", content=b"x")) == (421, "host-unknown")
    assert code(curl(SEND, "-H", "Origin: https://evil.example", content=b"x")) == (403, "origin-refused")
    form = ("-A", "Mozilla/5.0", "-H", "Content-Type: application/x-www-form-urlencoded")
    assert code(curl(SEND, *form, content=b"x")) == (403, "origin-refused")
    assert "access-control-allow-origin" not in curl("/v1/topics", "-H", "Origin: https://evil.example")[1]


def test_a_long_path_is_refused(curl: Curl) -> None:
    assert curl(f"/v1/topics/{'x' * 5_000}/messages", content=b"x")[0] == 400
    assert curl(f"/v1/topics/{'x' * 40_000}/messages", content=b"x")[0] in (414, 431)


def test_a_frame_above_the_limit_is_closed_with_1009_and_counted(node: Node) -> None:
    async def close_frame() -> aiohttp.WSMessage:
        url = f"ws://127.0.0.1:{node.port('websocket')}/mqtt"
        async with aiohttp.ClientSession() as session, session.ws_connect(url, protocols=("mqtt",)) as socket:
            # The head of a frame of 1 GiB: aiohttp writes whole frames only.
            socket._writer.transport.write(b"\x82\xff" + (1 << 30).to_bytes(8, "big") + bytes(4))
            return await socket.receive()

    frame = asyncio.run(asyncio.wait_for(close_frame(), 30))
    assert (frame.type, frame.data) == (aiohttp.WSMsgType.CLOSE, 1009), frame
    counted = 'headgate_refusals_total{protocol="websocket",reason="message-too-large"} 1.0'
    assert counted in node.admin("/metrics").split("\n")


@pytest.mark.skipif(shutil.which("h2load") is None, reason="h2load (nghttp2-client) is not installed")
@pytest.mark.parametrize("version", [["--h1"], []])
def test_a_thousand_connections_of_one_host_are_all_answered(node: Node, version: list[str]) -> None:
    target = f"http://127.0.0.1:{node.port('http')}/v1/topics"
    command = ["h2load", *version, "-n", "1000", "-c", "1000", "-m", "1", target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "status codes: 1000 2xx" in done.stdout, done.stdout
