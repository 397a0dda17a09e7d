"""Requests that must be refused: request smuggling, oversized heads, false lengths (RFC 9112, sections 2 to 7 and 11)."""

from __future__ import annotations

import gzip
import itertools
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.command import Disconnected, Send
from protocols.http.http1.chunks import CHUNKS_PER_CALL_MAX
from protocols.http.http1.reader import REQUESTS_PER_TURN_MAX
from tests.protocols.http.stage import EVENT, EVENT_FIELDS, Client, request
from tests.protocols.taken import last

HEAD = b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

SMUGGLING = {
    "both lengths": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both lengths, other order": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "the same length twice": HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "length list": HEAD + b"Content-Length: 5, 5\r\n\r\nhello",
    "signed length": HEAD + b"Content-Length: +5\r\n\r\nhello",
    "negative length": HEAD + b"Content-Length: -5\r\n\r\nhello",
    "hexadecimal length": HEAD + b"Content-Length: 0x5\r\n\r\nhello",
    "empty length": HEAD + b"Content-Length:\r\n\r\nhello",
    "line folding": HEAD + b"X: a\r\n b\r\n\r\n",
    "bare LF after the request line": b"GET / HTTP/1.1\nHost: x\r\n\r\n",
    "bare LF after a field": b"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n",
    "bare LF at the end of the head": b"GET / HTTP/1.1\r\nHost: x\r\n\n",
    "bare CR in a value": b"GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n",
    "NUL in a value": HEAD + b"X: a\x00b\r\n\r\n",
    "NUL in a name": HEAD + b"X\x00: a\r\n\r\n",
    "control in a value": HEAD + b"X: a\x07b\r\n\r\n",
    "space before the colon": HEAD + b"X : a\r\n\r\n",
    "name without a colon": HEAD + b"nonsense\r\n\r\n",
    "empty name": HEAD + b": a\r\n\r\n",
    "bad chunk size": CHUNKED + b"zz\r\n\r\n",
    "negative chunk size": CHUNKED + b"-1\r\n\r\n",
    "chunk size overflow": CHUNKED + b"fffffffffffffffff\r\n",
    "chunk without CRLF": CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
    "chunk with bare LF": CHUNKED + b"3\nabc\n0\n\n",
    "obfuscated chunked": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked not last": HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "two transfer codings": HEAD + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "no host": b"GET /v1/topics HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /v1/topics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "unknown version": b"GET /v1/topics HTTP/1.2\r\nHost: x\r\n\r\n",
    "version 2 in text": b"GET /v1/topics HTTP/2.0\r\nHost: x\r\n\r\n",
    "version 0.9": b"GET /v1/topics\r\n\r\n",
    "unknown method": b"FROB / HTTP/1.1\r\nHost: x\r\n\r\n",
    "control in the target": b"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
    "connect": b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00",
}


@pytest.mark.parametrize("shape", SMUGGLING)
def test_smuggling_shapes_are_refused_and_the_connection_ends(shape: str) -> None:
    """Neither the request nor the bytes after it become a command."""
    client = Client().send(SMUGGLING[shape] + EVENT)
    assert not [command for command in client.commands if isinstance(command, Send)]
    (answer,) = client.answers()
    assert answer.status in (400, 405, 501, 505)
    assert answer.field("connection") == "close"
    assert client.connection.closed
    assert isinstance(client.commands[-1], Disconnected)


@pytest.mark.parametrize("shape", SMUGGLING)
def test_smuggling_shapes_are_refused_byte_by_byte(shape: str) -> None:
    client = Client()
    for at in range(len(SMUGGLING[shape])):
        client.send(SMUGGLING[shape][at : at + 1])
    assert not [command for command in client.commands if isinstance(command, Send)]
    assert len(client.answers()) == 1


def test_a_head_above_its_bound_is_431() -> None:
    """16 KiB: in one part, in many small fields, and in one endless field."""
    whole = Client().send(HEAD + b"X: " + b"a" * 17_000 + b"\r\n\r\n")
    many = Client().send(HEAD + b"X: y\r\n" * 3_000)
    endless = Client().send(HEAD)
    for _ in range(20):
        endless.send(b"X" * 1_024)
    for client in (whole, many, endless):
        assert [answer.status for answer in client.answers()] == [431]
    assert Client().ask("GET", "/v1/nothing", {"X": "a" * 15_000}).status == 404


def test_content_length_above_the_bound_is_413_before_the_body() -> None:
    client = Client().send(HEAD + b"Content-Length: 4194305\r\n\r\n")
    (answer,) = client.answers()
    assert (answer.status, answer.json()["limit"], answer.field("connection")) == (413, 4_194_304, "close")
    assert client.connection.closed, "the pump drops what the peer still sends"
    client.send(b"x" * 100_000, 1)
    assert len(client.answers()) == 1


def test_a_length_beyond_all_numbers_is_413() -> None:
    assert Client().send(HEAD + b"Content-Length: " + b"9" * 19 + b"\r\n\r\n").answers()[0].status == 413


def test_chunked_content_is_bounded_at_the_limit() -> None:
    client = Client().send(CHUNKED)
    chunk = b"%x\r\n" % 0x80000 + b"x" * 0x80000 + b"\r\n"
    for _ in range(10):
        client.send(chunk)
    assert [answer.status for answer in client.answers()] == [413]
    assert not [command for command in client.commands if isinstance(command, Send)]


@pytest.mark.parametrize("size", [b"400001", b"8000000000000000", b"ffffffffffffffff", b"8000000000000000\r\n"])
def test_a_chunk_above_the_limit_is_413_before_its_bytes(size: bytes) -> None:
    client = Client().send(CHUNKED + size)
    assert [answer.status for answer in client.answers()] == [413]
    assert client.connection.closed


@pytest.mark.parametrize("line", [b"g", b"1 ", b"1x", b"1\n", b"1\rx", b"0x5", b"00000000000000001", b"", b"1;\x00"])
def test_a_size_line_that_cannot_become_legal_is_refused_at_once(line: bytes) -> None:
    client = Client().send(CHUNKED + line)
    refused = line not in (b"", b"1 ")
    assert [answer.status for answer in client.answers()] == [400] * refused
    assert client.connection.closed is refused


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.data())
@settings(max_examples=200, deadline=None)
def test_chunks_give_the_same_body_however_they_are_split(chunks: list[bytes], data: st.DataObject) -> None:
    pieces = b"".join(b"%X;ext=1\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    whole = CHUNKED + pieces + b"0\r\nTrailer: dropped\r\n\r\n" + EVENT
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    client = Client()
    for start, end in itertools.pairwise([0, *cuts, len(whole)]):
        if start < end:
            client.send(whole[start:end])
    assert [answer.status for answer in client.answers()] == [201, 204]
    first = last(client.commands, Send, 0)
    assert first.messages[0].body == b"".join(chunks)


def test_one_segment_of_many_requests_is_handled_over_turns() -> None:
    """9,000 requests fit into one read of a socket: other connections have their turns in between."""
    client = Client()
    client.take(client.connection.receive(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 9_000, 0))
    turns = 1
    assert len(client.answers()) == REQUESTS_PER_TURN_MAX
    while client.connection.deadline() == 0:
        assert not client.connection.reading
        before = len(client.answers())
        client.take(client.connection.expire(0))
        turns += 1
        assert len(client.answers()) - before <= REQUESTS_PER_TURN_MAX
        if turns > 5:
            break
    assert turns > 5


def test_requests_that_wait_for_later_turns_are_handled_before_the_end_of_the_stream() -> None:
    """The connection says that they wait, so that a socket which is closed meanwhile does not end it."""
    client = Client()
    client.take(client.connection.receive(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3 * REQUESTS_PER_TURN_MAX, 0))
    client.take(client.connection.receive(b"", 0))
    assert client.connection.unhandled
    while client.connection.deadline() == 0:
        client.take(client.connection.expire(0))
    assert len(client.answers()) == 3 * REQUESTS_PER_TURN_MAX
    assert (client.connection.unhandled, client.connection.closed) == (False, True)


def test_one_segment_of_many_chunks_is_decoded_over_turns() -> None:
    client = Client()
    client.take(client.connection.receive(CHUNKED + b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n", 0))
    turns = 1
    while client.connection.deadline() == 0:
        assert not client.connection.reading
        client.take(client.connection.expire(0))
        turns += 1
    assert turns >= 2 * 5_000 // CHUNKS_PER_CALL_MAX
    assert client.message().body == b"x" * 5_000


def test_a_peer_that_finishes_sending_gets_the_answers_of_all_its_requests() -> None:
    client = Client()
    client.take(client.connection.receive(EVENT * 200, 0))
    client.take(client.connection.receive(b"", 0))
    while client.connection.deadline() == 0:
        client.take(client.connection.expire(0))
    assert [answer.status for answer in client.answers()] == [204] * 200
    assert client.connection.closed


def test_empty_lines_before_a_request_are_bounded() -> None:
    assert [answer.status for answer in Client().send(b"\r\n" + EVENT).answers()] == [204]
    assert [answer.status for answer in Client().send(b"\r\n" * 1_000 + EVENT).answers()] == [400]


def test_chunk_framing_is_bounded() -> None:
    """A kilobyte of chunk extension for each byte of content is refused."""
    client = Client().send(CHUNKED)
    for _ in range(400):
        client.send(b"1;" + b"e" * 1_000 + b"\r\nx\r\n")
    assert [answer.status for answer in client.answers()] == [400]


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_honest_small_chunks_pass(size: int) -> None:
    body = b"abc" * 20_000
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(body[at : at + size]), body[at : at + size]) for at in range(0, len(body), size))
    client = Client().send(CHUNKED + pieces + b"0\r\nTrailer: dropped\r\n\r\n")
    assert client.answers()[0].status == 201
    assert client.message().body == body


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)])
def test_content_codings_are_undone(coding: str, pack: object) -> None:
    """RFC 9110, 8.4."""
    client = Client()
    body = b"hello " * 100
    packed = pack(body)  # type: ignore[operator]
    assert client.ask("POST", "/v1/topics/t/messages", {"Content-Encoding": coding}, packed).status == 201
    assert client.message().body == body


def test_a_decompression_bomb_is_413() -> None:
    bomb = gzip.compress(bytes(100_000_000), 9)
    assert len(bomb) < 200_000
    client = Client()
    for target, fields in (("/v1/topics/t/messages", {}), ("/ce/t", EVENT_FIELDS)):
        assert client.ask("POST", target, {**fields, "Content-Encoding": "gzip"}, bomb).status == 413
    assert not client.commands


@pytest.mark.parametrize("body", [b"nonsense", gzip.compress(b"x", mtime=0)[:-4], gzip.compress(b"x", mtime=0) + b"more", b""])
def test_content_that_is_not_what_it_says_is_400(body: bytes) -> None:
    assert Client().ask("POST", "/v1/topics/t/messages", {"Content-Encoding": "gzip"}, body).status == 400


def test_an_unknown_content_coding_is_415() -> None:
    """RFC 9110, 15.5.16: with the supported codings in Accept-Encoding."""
    for coding in ("br", "gzip, gzip"):
        answer = Client().ask("POST", "/v1/topics/t/messages", {"Content-Encoding": coding}, b"x")
        assert (answer.status, answer.field("accept-encoding")) == (415, "gzip, deflate")


REQUESTS = (
    EVENT
    + CHUNKED + b"5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nT: r\r\n\r\n"
    + request("GET", "/nothing")
    + HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc"
    + CHUNKED.replace(b"Host: x", b"Host: x\r\nUpgrade: h2c\r\nConnection: upgrade") + b"3\r\ndef\r\n0\r\n\r\n"
    + request("POST", "/ce/orders", EVENT_FIELDS, b"")
)  # fmt: skip


@settings(max_examples=100)
@given(st.lists(st.integers(0, len(REQUESTS)), max_size=12))
def test_any_split_gives_the_same_commands(cuts: list[int]) -> None:
    whole = Client().send(REQUESTS)
    split = Client()
    edges = [0, *sorted(cuts), len(REQUESTS)]
    for start, end in itertools.pairwise(edges):
        if end > start:
            split.send(REQUESTS[start:end])
    bodies = [[m.body for m in command.messages] for command in split.commands if isinstance(command, Send)]
    assert bodies == [[b"hello"], [b"hello!"], [b"abc"], [b"def"], [b""]]
    assert split.output == whole.output


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=60), max_size=4), st.sampled_from([b"", HEAD, CHUNKED, HEAD + b"Content-Length: 9\r\n\r\n"]))
def test_random_bytes_never_raise(noise: list[bytes], before: bytes) -> None:
    client = Client()
    for piece in [before, *noise]:
        if piece:
            client.send(piece)
    client.send(b"")
    client.connection.deadline()


@settings(max_examples=100)
@given(st.integers(0, len(EVENT) - 1), st.integers(0, 255))
def test_one_changed_byte_never_raises(at: int, byte: int) -> None:
    client = Client().send(EVENT[:at] + bytes((byte,)) + EVENT[at + 1 :] + EVENT)
    client.send(b"")
