"""The CloudEvents SDK over aiohttp, and nghttp's load generator, against a node."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import aiohttp
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from tests.interop.node import Node

pytestmark = pytest.mark.interop


def event(identity: str, content_type: str, data: dict[str, object] | str | bytes) -> CloudEvent:
    """An event of the SDK."""
    attributes = {
        "specversion": "1.0",
        "id": identity,
        "source": "/sdk",
        "type": "com.example.sdk",
        "subject": 'a "b" 100% é 😀',
        "datacontenttype": content_type,
        "comexampleext": "x y",
    }
    return CloudEvent(attributes, data)


EVENTS = [
    event("json", "application/json", {"größe": [1, 2, {"a": None}]}),
    event("text", "text/plain", "hello ünd"),
    event("bytes", "application/octet-stream", bytes(range(256))),
]


async def round_trip(base: str, topic: str, structured: bool) -> None:
    """Post each event, and receive it as the same event; then read all of them as a batch by offset."""
    async with aiohttp.ClientSession(base) as session:
        for one in EVENTS:
            message = (to_structured if structured else to_binary)(one, JSONFormat())
            async with session.post(f"/ce/{topic}", data=message.body, headers=message.headers) as answer:
                assert answer.status == 204
        found = {}
        for _ in EVENTS:
            target = f"/v1/groups/sdk/topics/{topic}:receive"
            accept = {"Accept": "application/octet-stream"}
            async with session.post(target, params={"wait_ms": "5000"}, headers=accept) as answer:
                assert answer.status == 200
                headers = {name.lower(): value for name, value in answer.headers.items()}
                read = from_http(HTTPMessage(headers, await answer.read()), JSONFormat(), CloudEvent)
                found[read.get_id()] = read
                settled = {"receipts": [answer.headers["mq-receipt"]]}
            async with session.post(f"/v1/groups/sdk/topics/{topic}:ack", json=settled) as answer:
                assert (await answer.json())["results"][0]["ok"] is True
        for one in EVENTS:
            back = found[one.get_id()]
            assert back.get_subject() == one.get_subject()
            assert back.get_extension("comexampleext") == "x y"
            given, got = one.get_data(), back.get_data()
            assert (got.decode() if isinstance(got, bytes) and isinstance(given, str) else got) == given
        batches = []
        for queue in range(8):
            target = f"/v1/topics/{topic}/queues/{queue}"
            async with session.get(target, headers={"Accept": "application/cloudevents-batch+json"}) as answer:
                batches += await answer.json(content_type="application/cloudevents-batch+json")
        assert sorted(one["id"] for one in batches) == ["bytes", "json", "text"]


@pytest.mark.parametrize("structured", [False, True])
def test_the_sdk_over_aiohttp(node: Node, structured: bool) -> None:
    base = f"http://127.0.0.1:{node.port('http')}"
    asyncio.run(asyncio.wait_for(round_trip(base, f"sdk-{structured}", structured), 30))


@pytest.mark.skipif(shutil.which("h2load") is None, reason="h2load (nghttp2-client) is not installed")
@pytest.mark.parametrize("version", [["--h1"], []])
def test_many_requests_at_once(node: Node, version: list[str], tmp_path: Path) -> None:
    """h2load, 8 connections with 10 requests in flight (one at a time each on HTTP/1.1): every one is stored."""
    body = tmp_path / "body"
    body.write_bytes(b"x" * 1_024)
    topic = "load-h1" if version else "load-h2"
    fields = ["-H", "ce-specversion:1.0", "-H", "ce-id:1", "-H", "ce-source:/load", "-H", "ce-type:t", "-d", str(body)]
    target = f"http://127.0.0.1:{node.port('http')}/ce/{topic}"
    done = subprocess.run(
        ["h2load", *version, "-n", "2000", "-c", "8", "-m", "1" if version else "10", *fields, target],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert re.search(r"status codes: 2000 2xx", done.stdout), done.stdout


@pytest.mark.skipif(shutil.which("nghttp") is None, reason="nghttp (nghttp2-client) is not installed")
@pytest.mark.parametrize(("option", "status"), [("--padding=64", 201), ("--continuation", 431)])
def test_nghttp(node: Node, option: str, status: int, tmp_path: Path) -> None:
    """Padded frames, and a head of 24 KiB in several frames, which exceeds the bound."""
    body = tmp_path / "body"
    body.write_bytes(b"from nghttp")
    target = f"http://127.0.0.1:{node.port('http')}/v1/topics/nghttp/messages"
    done = subprocess.run(
        ["nghttp", "-v", "-d", str(body), option, target], capture_output=True, text=True, timeout=20, check=True
    )
    assert f":status: {status}" in done.stdout
