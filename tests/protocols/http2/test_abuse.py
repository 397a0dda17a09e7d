"""Limits on the cost of a hostile or unresponsive peer (RFC 9113 section 10.5), on both engines."""

from __future__ import annotations

import pytest
from hpack import Encoder

from domain.command import Command, Disconnected
from domain.event import LatestValue
from gateway.connection.context import READ_BYTES
from protocols.adapter import Peer
from protocols.host_shares import HostShares
from protocols.http2 import connection as limits
from protocols.http2.connection import Http2Connection
from protocols.http2.engine import EngineFactory
from protocols.http2.frame import CONTROL_FRAMES_MAX, RESETS_MAX, TURN_WEIGHT_MAX, FrameOutline
from protocols.http2.stream import REQUEST_BYTES_MAX, STALL_NS
from tests.protocols.http2.peer import (
    EMPTY_SETTINGS,
    PEER,
    PREFACE,
    REQUEST,
    SECOND,
    SETTINGS_ACK,
    Notebook,
    Notebooks,
    both_engines,
    connected,
    frame,
)

FRAME_SIZE_ERROR, PROTOCOL_ERROR, COMPRESSION_ERROR, STREAM_CLOSED, SETTINGS_TIMEOUT, CALM = 6, 1, 9, 5, 4, 0xB


def fresh(engine: EngineFactory) -> tuple[Http2Connection, Notebook]:
    factory = Notebooks()
    server = Http2Connection(engine, [factory], PEER, 0)
    server.receive(PREFACE + EMPTY_SETTINGS + SETTINGS_ACK, 0)
    server.outgoing()
    return server, factory.last


def goodbye(server: Http2Connection) -> int:
    """The error code of the GOAWAY in the server's output."""
    data = b"".join(server.outgoing())
    while data:
        length = int.from_bytes(data[:3], "big")
        if data[3] == 7:
            return int.from_bytes(data[13:17], "big")
        data = data[9 + length :]
    raise AssertionError("no GOAWAY")


def reason(commands: object) -> str:
    assert isinstance(commands, list)
    last = commands[-1]
    assert isinstance(last, Disconnected)
    return last.reason


def until_closed(server: Http2Connection, dribble: bytes = b"", at: int = 0) -> tuple[list[Command], int]:
    """Send `dribble` twice a second until the connection is closed -> (its commands, ns of the close)."""
    commands: list[Command] = []
    while not server.closed:
        at = max(server.deadline() or 0, at + SECOND // 2 if dribble else at)
        commands += server.expire(at)
        if dribble and not server.closed:
            server.receive(dribble, at)
    return commands, at


def headers(stream_id: int, flags: int = 0x5) -> bytes:
    return frame(1, flags, stream_id, Encoder().encode(REQUEST, huffman=False))


@both_engines
def test_rapid_reset_ends_in_enhance_your_calm(engine: EngineFactory) -> None:
    server, notes = fresh(engine)
    commands: list[Command] = []
    for at in range(RESETS_MAX + 2):
        stream_id = 2 * at + 1
        commands += server.receive(headers(stream_id) + frame(3, 0, stream_id, b"\x00\x00\x00\x08"), SECOND)
        if server.closed:
            break
    assert server.closed
    assert reason(commands) == "flood"
    assert goodbye(server) == CALM
    assert len(notes.notified) <= 3 * (RESETS_MAX + 2)


@both_engines
def test_resets_of_a_working_client_are_no_flood(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    for _ in range(RESETS_MAX + 50):
        done = client.request("/note", b"x")
        client.server.answer(LatestValue((notes, done), b"y"), 0)
        given_up = client.request("/note", b"x")
        client.connection.reset_stream(given_up, 8)
        client.exchange()
    assert not client.server.closed


@both_engines
@pytest.mark.parametrize(
    "flood",
    [
        frame(6, 0, 0, bytes(8)),
        EMPTY_SETTINGS,
        frame(8, 0, 0, b"\x00\x00\x00\x01"),
        frame(2, 0, 1, b"\x00\x00\x00\x00\x10"),
        frame(0xBE, 0, 0, b"?"),
    ],
    ids=["ping", "settings", "window update", "priority", "unknown"],
)
def test_control_flood_ends_in_enhance_your_calm(engine: EngineFactory, flood: bytes) -> None:
    server, _ = fresh(engine)
    commands: list[Command] = []
    for _ in range(2 * CONTROL_FRAMES_MAX):
        commands += server.receive(flood, SECOND)
        server.outgoing() if not server.closed else None
        if server.closed:
            break
    assert server.closed
    assert goodbye(server) == CALM


def large_block() -> bytes:
    """A header block of 80,000 bytes, in frames within the limit."""
    block = Encoder().encode([*REQUEST, *[(b"x-%d" % at, b"v" * 4000) for at in range(20)]], huffman=False)
    rest = [frame(9, 0, 1, block[at : at + 16000]) for at in range(16000, len(block), 16000)]
    return b"".join([frame(1, 0, 1, block[:16000]), *rest])


BOMB = Encoder().encode(REQUEST, huffman=False) + Encoder().encode([(b"x", b"v" * 3000)], huffman=False) + b"\xbe" * 100
"""HPACK: an entry of 3,000 bytes in the dynamic table, used a hundred times by one byte each."""


@both_engines
@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (headers(1, 0x0) + frame(9, 0, 1) * 100, [CALM]),
        (large_block(), [CALM]),
        (frame(1, 0x5, 1, BOMB), [CALM]),
        (frame(1, 0x5, 1, b"\xff\xff\xff\xff\xff"), [COMPRESSION_ERROR, PROTOCOL_ERROR]),
    ],
    ids=["continuation", "header block", "header list bomb", "broken HPACK"],
)
def test_fields_that_cost_too_much_end_the_connection(engine: EngineFactory, data: bytes, codes: list[int]) -> None:
    server, notes = fresh(engine)
    server.receive(data, 0)
    assert server.closed
    assert goodbye(server) in codes  # hyper-h2 does not distinguish errors of compression
    assert notes.notified == []


@both_engines
def test_empty_data_flood_ends_in_enhance_your_calm(engine: EngineFactory) -> None:
    server, _ = fresh(engine)
    server.receive(headers(1, 0x4), 0)
    server.receive(frame(0, 0, 1) * (3 * CONTROL_FRAMES_MAX), 0)
    assert server.closed
    assert goodbye(server) == CALM


@both_engines
def test_slow_pings_are_welcome(engine: EngineFactory) -> None:
    server, _ = fresh(engine)
    for at in range(3 * CONTROL_FRAMES_MAX):
        server.receive(frame(6, 0, 0, bytes(8)), at * SECOND // 50)
        assert not server.closed
        server.outgoing()


@both_engines
def test_frame_beyond_the_limit_ends_before_its_bytes_arrive(engine: EngineFactory) -> None:
    server, _ = fresh(engine)
    commands = server.receive(b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", 0)
    assert server.closed
    assert reason(commands) == "protocol-error"
    assert goodbye(server) == FRAME_SIZE_ERROR


@both_engines
@pytest.mark.parametrize(
    "bad",
    [
        frame(0, 0x1, 1, b"data on an idle stream"),
        headers(2),
        frame(5, 0x4, 1, b"\x00\x00\x00\x02"),
        frame(9, 0x4, 1, b""),
        frame(8, 0, 0, b"\x00\x00\x00\x00"),
        frame(8, 0, 0, b"\x7f\xff\xff\xff"),
        frame(6, 0, 0, b"short"),
    ],
    ids=["idle", "even", "push", "continuation", "zero increment", "window overflow", "ping size"],
)
def test_illegal_frame_costs_the_connection(engine: EngineFactory, bad: bytes) -> None:
    server, _ = fresh(engine)
    commands = server.receive(bad, 0)
    assert server.closed
    assert reason(commands) == "protocol-error"
    assert goodbye(server) != 0


@both_engines
@pytest.mark.parametrize(
    "field",
    [(b"X-Upper", b"1"), (b"connection", b"close"), (b"te", b"gzip"), (b":path", b"/twice"), (b":unknown", b"1")],
)
def test_malformed_request_never_reaches_an_application(engine: EngineFactory, field: tuple[bytes, bytes]) -> None:
    server, notes = fresh(engine)
    server.receive(frame(1, 0x5, 1, Encoder().encode([*REQUEST, field], huffman=False)), 0)
    assert notes.notified == []


@both_engines
def test_preface_of_another_protocol_is_refused_at_its_first_wrong_byte(engine: EngineFactory) -> None:
    server = Http2Connection(engine, [Notebooks()], PEER, 0)
    server.receive(b"PRI * HTTP/1", 0)
    assert server.closed


@both_engines
def test_silence_before_the_preface_ends_at_the_handshake_deadline(engine: EngineFactory) -> None:
    server = Http2Connection(engine, [Notebooks()], PEER, 0)
    server.receive(PREFACE[:10], 0)
    assert server.deadline() is not None
    assert reason(until_closed(server)[0]) == "handshake-timeout"


@both_engines
def test_half_a_frame_ends_after_ten_seconds(engine: EngineFactory) -> None:
    server, _ = fresh(engine)
    server.receive(headers(1) + headers(3)[:-1], SECOND)
    commands, at = until_closed(server, at=SECOND)
    assert reason(commands) == "frame-timeout"
    assert 11 * SECOND <= at <= 13 * SECOND


@both_engines
def test_settings_that_are_never_acknowledged_end_the_connection_after_ten_seconds(engine: EngineFactory) -> None:
    server = Http2Connection(engine, [Notebooks()], PEER, 0)
    server.receive(PREFACE + EMPTY_SETTINGS + headers(1), 0)
    server.outgoing()
    commands, at = until_closed(server, frame(6, 0, 0, bytes(8)))
    assert reason(commands) == "handshake-timeout"
    assert goodbye(server) == SETTINGS_TIMEOUT
    assert at <= 11 * SECOND


@both_engines
def test_connection_without_a_request_ends_after_ten_seconds(engine: EngineFactory) -> None:
    server, _ = fresh(engine)
    commands, at = until_closed(server)
    assert reason(commands) == "handshake-timeout"
    assert at <= 11 * SECOND


@both_engines
def test_request_that_never_ends_is_reset_and_costs_only_itself(engine: EngineFactory) -> None:
    server, notes = fresh(engine)
    server.receive(headers(1) + headers(3, 0x4), 0)
    at = 0
    while notes.notified[-1] != ("cancelled", 3):
        at = max(server.deadline() or 0, at)
        server.expire(at)
        assert at <= limits.REQUEST_NS + 2 * SECOND
        server.receive(frame(6, 0, 0, bytes(8)), at)
    assert not server.closed
    assert frame(3, 0, 3, b"\x00\x00\x00\x08") in b"".join(server.outgoing())


@both_engines
def test_connection_whose_only_request_never_ends_is_closed(engine: EngineFactory) -> None:
    server, notes = fresh(engine)
    server.receive(headers(1, 0x4), 0)
    commands, at = until_closed(server, frame(0, 0, 1, b"x"))
    assert notes.notified[-1] == ("cancelled", 1)
    assert reason(commands) == "handshake-timeout"
    assert at <= 12 * SECOND


@both_engines
def test_large_upload_has_a_second_for_every_32_kib(engine: EngineFactory) -> None:
    server, notes = fresh(engine)
    server.receive(headers(1, 0x4), 0)
    for at in range(1, 60):
        server.receive(frame(0, 0, 1, bytes(16_384)) * 2, at * SECOND)
        server.expire(max(server.deadline() or 0, at * SECOND))
        server.outgoing()
    server.receive(frame(0, 1, 1), 60 * SECOND)
    assert [told[0] for told in notes.notified] == ["opened", "ended"]


@both_engines
def test_reader_that_holds_its_window_shut_loses_the_stream(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    client.took = lambda event: None  # type: ignore[method-assign]
    stream = client.request("/note", b"x")
    client.server.answer(LatestValue((notes, stream), bytes(200_000)), 0)
    client.exchange()
    at = 0
    while client.resets() == {}:
        at = max(client.server.deadline() or 0, at)
        client.now = at
        client.server.expire(at)
        client.connection.ping(bytes(8))
        client.exchange()
        assert at <= STALL_NS + 5 * SECOND
    assert at >= STALL_NS
    assert client.resets() == {stream: 8}


@both_engines
def test_upload_beyond_the_limit_is_reset(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    stream = client.connection.get_next_available_stream_id()
    client.connection.send_headers(stream, REQUEST)
    sent = 0
    while stream not in client.resets():
        client.connection.send_data(stream, bytes(16_384))
        sent += 16_384
        client.exchange()
        assert sent <= REQUEST_BYTES_MAX + 65_536
    assert notes.notified[-1] == ("cancelled", stream)
    assert client.resets() == {stream: CALM}


@both_engines
def test_idle_connection_is_closed_with_a_word(engine: EngineFactory) -> None:
    server, notes = fresh(engine)
    server.receive(headers(1), 0)
    server.answer(LatestValue((notes, 1), b"y"), 0)
    commands: list[Command] = []
    at = 0
    while not server.closed:
        at = max(server.deadline() or 0, at)
        commands += server.expire(at)
        if b"".join(server.outgoing()).startswith(frame(6, 0, 0, bytes(8))[:9]):
            server.receive(frame(6, 1, 0, bytes(8)), at)
    assert reason(commands) == "idle"
    assert at >= limits.IDLE_NS


@both_engines
def test_dead_peer_is_found_by_a_ping(engine: EngineFactory) -> None:
    server, notes = fresh(engine)
    server.receive(headers(1), 0)
    commands, at = until_closed(server)
    assert reason(commands) == "ping-timeout"
    assert notes.notified[-1] == ("cancelled", 1)
    assert at <= limits.SILENCE_NS + limits.PING_NS + 2 * SECOND


@both_engines
def test_stream_below_one_that_was_opened_costs_the_connection(engine: EngineFactory) -> None:
    server, notes = fresh(engine)
    server.receive(headers(5, 0x5), 0)
    server.receive(frame(1, 0x5, 3, Encoder().encode(REQUEST, huffman=False)), 0)
    assert server.closed
    assert goodbye(server) in (PROTOCOL_ERROR, STREAM_CLOSED)
    assert [told[0] for told in notes.notified] == ["opened", "ended", "cancelled"]


@both_engines
def test_goodbye_of_a_peer_that_has_nothing_open_ends_the_connection(engine: EngineFactory) -> None:
    server, _ = fresh(engine)
    commands = server.receive(frame(7, 0, 0, bytes(8)), 0)
    assert server.closed
    assert reason(commands) == "goaway"


@both_engines
def test_requests_of_one_segment_are_handled_over_turns(engine: EngineFactory) -> None:
    server, _ = fresh(engine)
    handled = [len(list(server.receive(b"".join([headers(2 * at + 1) for at in range(100)]), 1)))]
    while server.deadline() == 0:
        assert not server.reading
        handled.append(len(list(server.expire(1))))
        server.outgoing()
    assert server.reading
    assert sum(handled) == 100
    assert max(handled) <= TURN_WEIGHT_MAX // 4
    assert not server.closed


@both_engines
def test_a_read_full_of_ordinary_requests_is_one_turn(engine: EngineFactory) -> None:
    """Requests of 1 KB, as SDKs send them: a turn more for the last few of each read makes every request dearer under load."""
    server, _ = fresh(engine)
    call = headers(1, 0x4) + frame(0, 0x1, 1, bytes(1_100))
    count = READ_BYTES // len(call) + 1
    segment = b"".join([headers(2 * at + 1, 0x4) + frame(0, 0x1, 2 * at + 1, bytes(1_100)) for at in range(count)])
    assert len(list(server.receive(segment[:READ_BYTES], 1))) == READ_BYTES // len(call)
    assert server.deadline() != 0
    assert server.reading


@both_engines
@pytest.mark.parametrize("shape", ["data", "fields", "settings"])
def test_frames_of_one_segment_are_handled_over_turns(engine: EngineFactory, shape: str) -> None:
    """Thousands of one-byte DATA frames, of indexed fields, or of settings, in one read of the socket."""
    server, _ = fresh(engine)
    if shape == "data":
        segment = headers(1, 0x4) + frame(0, 0, 1, b"x") * 20_000
    elif shape == "fields":
        block = Encoder().encode(REQUEST, huffman=False) + b"\x90" * 900
        segment = b"".join([frame(1, 0x5, 2 * at + 1, block) for at in range(100)])
    else:
        segment = frame(4, 0, 0, b"\x00\x04\x00\x01\x00\x00" * 2_000) * 20
    outline = FrameOutline(0)
    outline.follow(PREFACE)
    outline.follow(segment)
    server.receive(segment, 1)
    turns = 1
    while server.deadline() == 0:
        assert not server.reading
        server.expire(1)
        server.outgoing()
        turns += 1
    if server.closed:
        assert shape == "settings", "nghttp2 takes no SETTINGS of so many entries"
        return
    assert turns == len(outline.cuts) + 1
    assert turns >= 10


@both_engines
def test_a_peer_that_hangs_up_has_its_requests_carried_out(engine: EngineFactory) -> None:
    server, notes = fresh(engine)
    commands = list(server.receive(b"".join([headers(2 * at + 1) for at in range(100)]), 1))
    commands += server.receive(b"", 1)
    while server.deadline() == 0:
        commands += server.expire(1)
    assert sum(told[0] == "ended" for told in notes.notified) == 100
    assert reason(commands) == "eof"


def uploader(engine: EngineFactory, uploads: HostShares, host: str, counts: list[str]) -> tuple[Http2Connection, Notebook]:
    """A connection with an incomplete request of 48 KiB."""
    factory = Notebooks()
    peer = Peer(host, 1, b"")
    server = Http2Connection(engine, [factory], peer, 0, uploads, lambda protocol, word: counts.append(word))
    server.receive(PREFACE + EMPTY_SETTINGS + SETTINGS_ACK + headers(1, 0x4), 0)
    for _ in range(3):
        server.receive(frame(0, 0, 1, bytes(16_384)), 0)
        server.outgoing()
    return server, factory.last


@both_engines
def test_unfinished_requests_of_all_connections_share_one_bound(engine: EngineFactory) -> None:
    uploads = HostShares(200_000)
    counts: list[str] = []
    first, notes = uploader(engine, uploads, "a", counts)
    second, _ = uploader(engine, uploads, "a", counts)
    assert uploads.bytes_held == 98_304
    _, refused = uploader(engine, uploads, "a", counts)
    assert refused.notified[-1] == ("cancelled", 1)
    assert counts == ["uploads-full"]
    assert uploads.bytes_held == 98_304
    other, _ = uploader(engine, uploads, "b", counts)
    assert counts == ["uploads-full"]
    assert uploads.bytes_held == 147_456
    other.receive(b"", 0)
    first.receive(frame(0, 1, 1), 0)
    first.outgoing()
    assert notes.notified[-1] == ("ended", 1, bytes(49_152))
    assert uploads.bytes_held == 49_152
    second.receive(b"", 0)
    assert uploads.bytes_held == 0


@both_engines
def test_without_room_the_newest_request_is_reset(engine: EngineFactory) -> None:
    uploads = HostShares(200_000)
    counts: list[str] = []
    server, notes = uploader(engine, uploads, "a", counts)
    server.receive(headers(3, 0x4), 0)
    for _ in range(4):
        server.receive(frame(0, 0, 3, bytes(16_384)), 0)
        server.outgoing()
    assert notes.notified[-1] == ("cancelled", 3)
    assert uploads.bytes_held == 49_152


@both_engines
def test_a_request_that_is_complete_in_one_turn_is_not_counted(engine: EngineFactory) -> None:
    uploads = HostShares(10)
    factory = Notebooks()
    server = Http2Connection(engine, [factory], PEER, 0, uploads)
    server.receive(PREFACE + EMPTY_SETTINGS + SETTINGS_ACK + headers(1, 0x4) + frame(0, 1, 1, bytes(1_000)), 0)
    assert factory.last.notified[-1] == ("ended", 1, bytes(1_000))
    assert uploads.refused == 0
