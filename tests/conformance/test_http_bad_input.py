"""Requests of HTTP that are refused, a row each: the same status, code and counted word in both versions, on every engine.

Bytes that the framing of one version forbids are in `tests/protocols/http/http1/test_reader.py` and
`tests/protocols/http2/test_abuse.py`.
"""

from __future__ import annotations

import gzip
from typing import NamedTuple

import pytest

from protocols.http.request import HEAD_BYTES_MAX, TARGET_BYTES_MAX
from tests.protocols.http.streams.visit import FRAME_BYTES, VERSIONS, Visit, furnished

SEND = "/v1/topics/T/messages"
MIB = 1024 * 1024


class Row(NamedTuple):
    """One request; `content` None: it has begun and does not end."""

    name: str
    method: str
    target: str
    fields: dict[str, str]
    content: bytes | None
    status: int
    code: str


ROWS = [
    Row("a path that nothing is at", "GET", "/nothing", {}, b"", 404, "path-unknown"),
    Row("the same, with content", "POST", "/nothing", {}, b"x", 404, "path-unknown"),
    Row("the same, which goes on", "POST", "/nothing", {"Expect": "100-continue"}, None, 404, "path-unknown"),
    Row("a method that the path has not", "DELETE", SEND, {}, b"", 405, "method-not-allowed"),
    Row("a level that climbs", "POST", "/v1/topics/..%2f..%2fetc/messages", {}, b"x", 400, "topic-illegal"),
    Row("an escape that is none", "POST", "/v1/topics/%zz/messages", {}, b"x", 400, "argument-illegal"),
    Row("a long target", "GET", "/" + "x" * TARGET_BYTES_MAX, {}, b"", 414, "target-too-long"),
    Row("a long head", "GET", "/v1/topics", {"x": "x" * HEAD_BYTES_MAX}, b"", 431, "head-too-large"),
    Row("another expectation", "POST", SEND, {"Expect": "magic"}, b"x", 417, "expectation-failed"),
    Row("another coding", "POST", SEND, {"Content-Encoding": "br"}, b"x", 415, "media-type"),
    Row("a coding that is not so", "POST", SEND, {"Content-Encoding": "gzip"}, b"x", 400, "message-illegal"),
    Row("a bomb", "POST", SEND, {"Content-Encoding": "gzip"}, gzip.compress(bytes(8 * MIB)), 413, "message-too-large"),
    Row("content where none is", "GET", "/v1/topics", {}, b"x", 413, "message-too-large"),
    Row("a page of another site", "POST", SEND, {"Origin": "http://evil.example"}, b"x", 403, "origin-refused"),
    Row("no JSON", "POST", f"{SEND}:batch", {"Content-Type": "application/json"}, b"[{", 400, "message-illegal"),
    Row("deep JSON", "POST", f"{SEND}:batch", {"Content-Type": "application/json"}, b"[" * 9_000, 400, "message-illegal"),
    Row("a large batch that is none", "POST", f"{SEND}:batch", {"Content-Type": "application/json"}, b"[" + b"1," * 40_000,
        400, "message-illegal"),
    Row("an event without attributes", "POST", "/ce/T", {"ce-specversion": "1.0"}, b"x", 400, "message-illegal"),
    Row("another version of events", "POST", "/ce/T", {"ce-specversion": "9"}, b"x", 400, "message-illegal"),
    Row("a stream of something else", "POST", f"{SEND}:stream", {"Content-Type": "text/csv"}, None, 415, "media-type"),
    Row("a stream that is compressed", "POST", f"{SEND}:stream",
        {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}, None, 415, "media-type"),
]  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_bad_request_is_refused_alike(version: str, row: Row) -> None:
    visit = Visit(furnished(), version)
    large = row.content if row.content is not None and len(row.content) > FRAME_BYTES else b""
    reply = visit.ask(row.method, row.target, row.fields, None if large else row.content)
    if large:
        reply.upload(large, True)
    assert (reply.status, reply.json()["code"]) == (row.status, row.code)
    assert visit.refused == [row.code]
    if visit.version == "2":
        assert visit.lost == ""
        assert visit.ask("GET", "/v1/topics").status == 200, "other streams go on"


@pytest.mark.parametrize("version", VERSIONS)
def test_content_above_the_limit_is_refused_as_it_arrives(version: str) -> None:
    visit = Visit(furnished(), version)
    reply = visit.ask("POST", SEND, {}, None)
    for _ in range(4 * MIB // FRAME_BYTES + 1):
        if not visit.refused:
            reply.upload(bytes(FRAME_BYTES))
    assert (reply.status, reply.json()["code"]) == (413, "message-too-large")
    assert visit.refused == ["message-too-large"]


@pytest.mark.parametrize("version", VERSIONS)
def test_content_that_does_not_arrive_is_given_up(version: str) -> None:
    visit = Visit(furnished(), version)
    reply = visit.ask("POST", SEND, {}, None)
    visit.run(9_900)
    assert visit.refused == []
    visit.run(200)
    assert (reply.status, reply.json()["code"]) == (408, "request-timeout")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_incomplete_request_is_refused_when_the_node_stops(version: str) -> None:
    visit = Visit(furnished(), version)
    reply = visit.ask("POST", SEND, {}, None)
    visit.server.drain(visit.bench.clock.monotonic_ns())
    assert (reply.status, reply.json()["code"]) == (503, "draining")
    visit.run(1_000)
    assert visit.server.closed
