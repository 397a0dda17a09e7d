"""One peer of HTTP, HTTP/2 or WebSocket floods the node in one segment; the neighbours are answered all the same."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest
from hpack import Encoder

from domain.limits import SECOND_NS
from gateway.runtime.compiled import in_use
from protocols.host_shares import REQUESTS_BYTES_MAX
from tests.neighbours.node import ACCEPTS_PER_TURN, SharedNode
from tests.neighbours.socket import PeerStream
from tests.protocols.http2.peer import EMPTY_SETTINGS, PREFACE, frame

UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\nsec-websocket-protocol: mqtt\r\n\r\n"
)
MANY = 1_000
HELLO = PREFACE + EMPTY_SETTINGS + b"\x00\x00\x00\x04\x01\x00\x00\x00\x00"


@pytest.fixture
def node() -> Iterator[SharedNode]:
    with SharedNode() as made:
        yield made


def post(path: str, body: bytes, *fields: str) -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: n", *fields, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(head).encode() + body


def heads(count: int, *fields: tuple[str, str], flags: int = 0x5) -> bytes:
    encoder = Encoder()
    pairs = [(":method", "GET"), (":scheme", "http"), (":authority", "n"), (":path", "/nothing"), *fields]
    return b"".join([frame(1, flags, 2 * at + 1, encoder.encode(pairs)) for at in range(count)])


FLOODS = {
    "requests": b"GET / HTTP/1.1\r\nHost: n\r\n\r\n" * 9_000,
    "messages": post("/v1/topics/flood/messages", b"x") * 3_000,
    "empty lines": b"\r\n" * 100_000,
    "chunks": b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: n\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 50_000,
    "fields": b"GET / HTTP/1.1\r\nHost: n\r\n" + b"a:b\r\n" * 50_000,
    "streams": HELLO + heads(3_000),
    "rapid resets": HELLO + b"".join([heads(1) + frame(3, 0, 1, b"\0\0\0\x08")]) + frame(3, 0, 1, b"\0\0\0\x08") * 10_000,
    "settings": HELLO + frame(4, 0, 0, b"\0\x04\0\x01\0\0" * 20) * 900,
    "pings": HELLO + frame(6, 0, 0, bytes(8)) * 10_000,
    "continuations": HELLO + frame(1, 0x1, 1, b"\x82") + frame(9, 0, 1, b"") * 20_000,
    "empty data": HELLO + heads(1, flags=0x4) + frame(0, 0, 1) * 20_000,
    "one-byte data": HELLO + heads(1, ("content-length", "20000"), flags=0x4) + frame(0, 0, 1, b"x") * 20_000,
    "windows": HELLO + frame(8, 0, 0, b"\0\0\0\x01") * 10_000,
    "websocket pings": UPGRADE + b"\x89\x80\0\0\0\0" * 40_000,
    "websocket bytes": UPGRADE + b"\x82\x81\0\0\0\0\x10" * 30_000,
    "websocket handshake": UPGRADE[:-2] + b"a: b\r\n" * 40_000,
}


@pytest.mark.parametrize("flood", FLOODS)
def test_one_peer_sends_as_much_as_it_can(node: SharedNode, flood: str) -> None:
    peer = node.connect("http")
    peer.send(FLOODS[flood])
    node.run(25).check()


@pytest.mark.parametrize("flood", ["requests", "streams", "pings", "websocket pings"])
def test_one_peer_sends_and_does_not_read(node: SharedNode, flood: str) -> None:
    peer = node.connect("http")
    peer.reads = False
    peer.send(FLOODS[flood])
    node.run(25).check()


AT_ONCE = {
    "requests": b"GET / HTTP/1.1\r\nHost: n\r\n\r\n",
    "messages": post("/v1/topics/flood/messages", b"x"),
    "long polls": post("/v1/groups/g/topics/flood:receive?wait_ms=5000", b""),
    "half heads": b"GET / HTTP/1.1\r\nHost: n\r\n",
    "streams": HELLO + heads(1),
    "websocket handshakes": UPGRADE,
}

EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
CE_BATCH = ("/ce/flood", "application/cloudevents-batch+json")
BATCH = ("/v1/topics/flood/messages:batch", "application/json")
NESTED = json.dumps(EVENT)[:-1].encode() + b',"data":[' + b"[]," * 500_000 + b"0]}"
INFLATED = {
    "events": (*CE_BATCH, json.dumps([{**EVENT, **{f"a{at}": "v" for at in range(90)}}] * 120).encode()),
    "no events": (*CE_BATCH, b"[" + b"[]," * 1_000_000 + b"0]"),
    "nested data": ("/ce/flood", "application/cloudevents+json", NESTED),
    "no messages": (*BATCH, b"[" + b"[]," * 2_000_000 + b"0]"),
    "a nested message": (*BATCH, b'[{"text":"x","properties":[' + b"[]," * 60_000 + b"0]}]"),
    "messages": (*BATCH, json.dumps([{"text": "x", "properties": {f"a{at}": "v" for at in range(20)}}] * 512).encode()),
    "empty lines": (BATCH[0], "application/x-ndjson", b"\n" * 6_000_000),
    "zeros": ("/v1/topics/flood/messages", "application/octet-stream", bytes(4 << 20)),
}  # fmt: skip
"""Path, media type, and what a small body becomes when it is decompressed."""


@pytest.mark.parametrize("shape", INFLATED)
def test_small_requests_become_large_ones(node: SharedNode, shape: str) -> None:
    path, media_type, body = INFLATED[shape]
    node.connect("http").send(AT_ONCE["messages"])
    node.run(20)
    packed = post(path, gzip.compress(body), f"Content-Type: {media_type}", "Content-Encoding: gzip")
    peers = [node.connect("http") for _ in range(4)]
    for peer in peers:
        peer.send(packed)
    for _ in range(60):
        node.run(20).check()
        if all(peer.taken for peer in peers):
            return
    raise AssertionError("not all are answered")


@pytest.mark.parametrize("connections", [1, 40])
def test_requests_that_never_end_hold_a_bounded_number_of_bytes(node: SharedNode, connections: int) -> None:
    """Each holds what it has sent until its deadline."""
    peers = [node.connect("http") for _ in range(connections)]
    for peer in peers:
        peer.send(post(CE_BATCH[0], bytes(4_000_000), f"Content-Type: {CE_BATCH[1]}")[:-1])
    node.run(60).check()
    assert node.parts.uploads.bytes_held <= REQUESTS_BYTES_MAX // 2
    node.idle(140)
    assert all(peer.closed for peer in peers)
    assert node.parts.uploads.bytes_held == 0


def many(node: SharedNode, data: bytes) -> list[PeerStream]:
    """MANY connections of one peer, each of which sends `data` in the same turn; run until the node has handled all."""
    peers = [node.connect("http") for _ in range(MANY)]
    node.run(2 * MANY // ACCEPTS_PER_TURN)
    for peer in peers:
        peer.send(data)
    answered = data not in (b"", AT_ONCE["long polls"], AT_ONCE["half heads"])
    for _ in range(20):
        node.run(20).check()
        if not answered or all(peer.taken for peer in peers):
            return peers
    raise AssertionError("not all are answered")


@pytest.mark.parametrize("kind", AT_ONCE)
def test_many_connections_of_one_peer_ask_at_once(node: SharedNode, kind: str) -> None:
    peers = many(node, AT_ONCE[kind])
    for peer in peers:
        peer.hang_up(reset=True)
    node.run(20).check()


LATER = {
    "silent": (b"", 10, 0),
    "half heads": (AT_ONCE["half heads"], 10, 1),
    "long polls": (AT_ONCE["long polls"], 66, 1),
    "streams": (HELLO + heads(1), 80, 250),
    "websocket handshakes": (UPGRADE, 10, 163),
}
"""What each connection sends, seconds until the node has ended it, and the bytes that it has been sent by then."""


@pytest.mark.parametrize("kind", LATER)
def test_deadlines_of_many_connections_pass_at_once(node: SharedNode, kind: str) -> None:
    data, seconds, size = LATER[kind]
    peers = many(node, data)
    for _ in range(seconds // 5 + 1):
        node.clock.advance(5 * SECOND_NS)
        node.run(2).check()
    for _ in range(20):
        node.run(20).check()
        if all(peer.ended for peer in peers):
            break
        if not in_use():  # two turns are not enough for a thousand answers then: the last ones come later, and end later
            node.clock.advance(5 * SECOND_NS)
    assert all(peer.ended for peer in peers)
    assert min(peer.taken for peer in peers) >= size
