"""Plain heads are read without llhttp, and mean what they mean to llhttp."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.command import Send
from protocols.http.http1.heads import HEAD_BYTES_MAX, LINE_BYTES_MAX, LINES_MAX, Heads
from tests.protocols.http.stage import EVENT, PEER, Client

START = b"POST /ce/orders HTTP/1.1"
FIELDS = (
    b"Host: localhost", b"Content-Length: 5", b"ce-specversion: 1.0", b"ce-id: 1", b"ce-source: /s", b"ce-type: t",
    b"Content-Type: text/plain",
)  # fmt: skip
PLAIN = b"\r\n".join((START, *FIELDS))
STARTS = (
    START, b"GET /v1/nothing?a=%20&b=[] HTTP/1.1", b"POST /ce/orders HTTP/1.0", b"POST  /ce/orders HTTP/1.1",
    b"POST /ce/orders  HTTP/1.1", b"POST /ce/or\xc3\xa4 HTTP/1.1", b"POST /ce/#x HTTP/1.1", b'POST /ce/" HTTP/1.1',
    b"POST http://localhost/ce/orders HTTP/1.1", b"OPTIONS * HTTP/1.1", b"post /ce/orders HTTP/1.1", b"PUT /ce/orders HTTP/1.1",
    b"POST /ce/orders HTTP/1.1 ", b" POST /ce/orders HTTP/1.1", b"POST /ce/orders", b"",
)  # fmt: skip
LINES = (
    *FIELDS, b"Host:  localhost", b"host:localhost", b"Host: other.example", b"Content-Length: 05", b"Content-Length: 5 ",
    b"Content-Length: +5", b"content-length: 6", b"Content-Length: ", b"Transfer-Encoding: chunked", b"Transfer-Encoding: x",
    b"Connection: close", b"Connection: Keep-Alive", b"Connection: keep-alive, Upgrade", b"Connection: upgrade",
    b"Upgrade: websocket", b"Proxy-Connection: close", b"X: ", b"X:", b"X", b"X : y", b" folded", b"\tfolded", b": y",
    b"X: a\rb", b"X: a\nb", b"X: a\x00b", b"X: a\x7fb", b"X: \xff", b"X: a\tb", b"X: a ", b"X: \ta", b"CE-ID: 2", b"ce-id: %41",
    b"ce-Up: x", b"Expect: 100-continue", b"Expect: 200-ok", b"Content-Encoding: br", b"Prefer: respond-async", b"X-\xe4: y",
)  # fmt: skip


def judged(first: int, data: bytes) -> tuple[list[tuple[bytes, bytes]], bytes, bool]:
    """What becomes of bytes of which the `first` ones come alone: messages, output, and whether the connection ends."""
    client = Client().send(data[:first]) if first else Client()
    client.send(data[first:])
    messages = [message for command in client.commands if isinstance(command, Send) for message in command.messages]
    return [(message.properties, message.body) for message in messages], client.output, client.connection.closed


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(STARTS) | st.just(START),
    st.lists(st.sampled_from(LINES), max_size=4),
    st.lists(st.integers(0, len(FIELDS)), min_size=4, max_size=4),
    st.booleans(),
)
def test_a_head_means_the_same_as_to_llhttp(start: bytes, lines: list[bytes], places: list[int], twice: bool) -> None:
    """Whose first byte comes alone goes to llhttp."""
    fields = [*FIELDS]
    for line, place in zip(lines, places, strict=False):
        fields.insert(place, line)
    data = b"\r\n".join((start, *fields, b"", b"hello")) * (2 if twice else 1) + EVENT
    assert judged(0, data) == judged(1, data)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, len(PLAIN)), st.integers(0, 2), st.binary(max_size=3))
def test_a_changed_head_means_the_same_as_to_llhttp(at: int, cut: int, more: bytes) -> None:
    data = PLAIN[:at] + more + PLAIN[at + cut :] + b"\r\n\r\nhello" + EVENT
    assert judged(0, data) == judged(1, data)


def test_a_plain_head_needs_no_parser() -> None:
    request = Heads().read(PLAIN, PEER)
    assert request is not None
    assert (request.method, request.target, request.length) == (b"POST", b"/ce/orders", 5)
    assert request.fields == [(line.partition(b": ")[0].lower(), line.partition(b": ")[2]) for line in FIELDS]


@pytest.mark.parametrize(
    "line", [b"Host: x", b"Content-Length: 5", b"Connection: close", b"Upgrade: h2c", b"Transfer-Encoding: chunked", b"X: \xe4"]
)
def test_what_is_not_plain_is_left_to_llhttp(line: bytes) -> None:
    """A second Host or length, what ends or changes the connection, other codings and characters."""
    assert Heads().read(PLAIN + b"\r\n" + line, PEER) is None


def test_long_heads_are_left_to_llhttp() -> None:
    """It counts their parts, and refuses too long ones."""
    client = Client()
    for size, status in ((HEAD_BYTES_MAX, 204), (15_000, 204), (17_000, 431)):
        client.output = b""
        client.send(PLAIN + b"\r\nX: " + b"x" * size + b"\r\n\r\nhello")
        assert [answer.status for answer in client.answers()] == [status]


def test_kept_lines_are_bounded_and_change_no_answer() -> None:
    """Neither new values of steady fields nor new names fill the memory; long lines are not kept."""
    heads = Heads()
    for number in range(3 * LINES_MAX):
        lines = (
            b"Host: localhost",
            b"User-Agent: %d" % number,
            b"X-%d: y" % number,
            b"Accept: %d" % number + b"a" * LINE_BYTES_MAX,
        )
        head = b"\r\n".join((b"GET /%d HTTP/1.1" % number, *lines))
        for _ in range(2):
            request = heads.read(head, PEER)
            assert request is not None
            assert request.field(b"accept").startswith(b"%da" % number)
            assert request.fields[1:3] == [(b"user-agent", b"%d" % number), (b"x-%d" % number, b"y")]
