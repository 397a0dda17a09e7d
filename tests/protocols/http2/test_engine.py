"""Properties of the engines, and the choice of one."""

from __future__ import annotations

import pytest
from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.command import Command
from protocols.http2 import engine_h2
from protocols.http2.adapter import choose
from protocols.http2.connection import Http2Connection
from protocols.http2.engine import CONNECTION_WINDOW_BYTES, FLOW_CONTROL_ERROR, STREAM_WINDOW_BYTES, EngineFactory
from protocols.http2.frame import ENHANCE_YOUR_CALM, FRAME_SIZE_ERROR, FrameOutline
from tests.protocols.http2.peer import (
    EMPTY_SETTINGS,
    ENGINES,
    PEER,
    PREFACE,
    Client,
    Notebook,
    Notebooks,
    both_engines,
    connected,
    frame,
)


def conversation() -> bytes:
    """Bytes of a client: five requests, one reset, one in many frames, one with padding, a ping, an unknown frame."""
    encoder = Encoder()
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"gate"), (b":path", b"/note"), (b"x", b"y" * 50)]
    out = PREFACE + EMPTY_SETTINGS
    out += frame(1, 0x5, 1, encoder.encode(fields))
    out += frame(1, 0x4, 3, encoder.encode(fields)) + frame(0, 0, 3, b"one") + frame(0, 0x1, 3, b"two")
    out += frame(6, 0, 0, b"12345678") + frame(0xFA, 7, 5, b"who knows")
    block = encoder.encode(fields)
    out += frame(1, 0, 5, block[:7]) + frame(9, 0, 5, block[7:9]) + frame(9, 0x4, 5, block[9:])
    out += frame(0, 0x8, 5, b"\x05padded\x00\x00\x00\x00\x00") + frame(0, 0x1, 5)
    out += frame(1, 0x4, 7, encoder.encode(fields)) + frame(3, 0, 7, b"\x00\x00\x00\x08")
    out += frame(1, 0x4, 9, encoder.encode(fields)) + frame(0, 0, 9, b"z" * 9000)
    return out + frame(1, 0x5, 9, encoder.encode([(b"trailer", b"1")]))


CONVERSATION = conversation()


def heard(engine: EngineFactory, pieces: list[bytes]) -> tuple[list[str], list[tuple[object, ...]]]:
    factory = Notebooks()
    server = Http2Connection(engine, [factory], PEER, 0)
    commands: list[Command] = []
    for piece in pieces:
        commands += server.receive(piece, 0)
        server.outgoing()
    assert not server.closed
    return [type(command).__name__ for command in commands], factory.last.notified


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({cut % len(data) for cut in cuts} - {0})
    return [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)]


@both_engines
def test_conversation_is_understood(engine: EngineFactory) -> None:
    commands, told = heard(engine, [CONVERSATION])
    assert commands == ["QueryLatest"] * 4
    assert [entry for entry in told if entry[0] == "ended"] == [
        ("ended", 1, b""),
        ("ended", 3, b"onetwo"),
        ("ended", 5, b"padded"),
        ("ended", 9, b"z" * 9000),
    ]
    assert ("cancelled", 7) in told


FIELD = st.tuples(
    st.sampled_from([b"x-a", b"x-b", b"ce-id", b"user-agent", b"content-type", b"x-" + b"n" * 80]),
    st.one_of(st.sampled_from([b"", b"1", b"application/json", b"v" * 600]), st.integers(0, 10_000).map(lambda at: b"%d" % at)),
)


@both_engines
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_the_fields_of_every_request_are_those_that_were_sent(engine: EngineFactory, data: st.DataObject) -> None:
    """Also those that the peer names by its table, which has other fields at the same place later (RFC 7541, 2.3)."""
    encoder = Encoder()
    factory = Notebooks()
    server = Http2Connection(engine, [factory], PEER, 0)
    server.receive(PREFACE + EMPTY_SETTINGS, 0)
    for number in range(data.draw(st.integers(1, 20))):
        if data.draw(st.integers(0, 9)) == 0:
            encoder.header_table_size = data.draw(st.sampled_from([0, 64, 200, 4096]))
        fields = data.draw(st.lists(FIELD, max_size=12))
        kept = data.draw(st.booleans())
        head = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"gate"), (b":path", b"/note/%d" % (number % 3))]
        block = encoder.encode(head + fields) if kept else encoder.encode([(*field, True) for field in head + fields])
        stream_id = 2 * number + 1
        server.receive(frame(1, 0x5, stream_id, block), 0)
        assert factory.last.fields[stream_id] == fields
        factory.last.reply.respond(stream_id, [(b":status", b"204")], True)
        server.outgoing()
    assert not server.closed


@both_engines
def test_many_fields_are_more_than_a_connection_remembers(engine: EngineFactory) -> None:
    encoder = Encoder()
    factory = Notebooks()
    server = Http2Connection(engine, [factory], PEER, 0)
    server.receive(PREFACE + EMPTY_SETTINGS, 0)
    for number in range(20):
        fields = [(b"x-%d" % (number * at % 1_500), b"v" * (at % 90)) for at in range(100)]
        head = [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"gate"), (b":path", b"/note")]
        server.receive(frame(1, 0x5, 2 * number + 1, encoder.encode(head + fields)), 0)
        assert factory.last.fields[2 * number + 1] == fields


@both_engines
@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(min_value=0, max_value=1_000_000), max_size=30))
def test_any_split_gives_the_same(engine: EngineFactory, cuts: list[int]) -> None:
    assert heard(engine, split(CONVERSATION, cuts)) == heard(engine, [CONVERSATION])


@both_engines
def test_byte_by_byte_gives_the_same(engine: EngineFactory) -> None:
    assert heard(engine, [bytes([byte]) for byte in CONVERSATION]) == heard(engine, [CONVERSATION])


def test_both_engines_hear_the_same() -> None:
    assert len({repr(heard(engine, [CONVERSATION])) for engine in ENGINES.values()}) == 1


@both_engines
@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=400), after=st.sampled_from([b"", PREFACE, PREFACE + EMPTY_SETTINGS, CONVERSATION]))
def test_garbage_never_raises(engine: EngineFactory, data: bytes, after: bytes) -> None:
    server = Http2Connection(engine, [Notebooks()], PEER, 0)
    server.receive(after, 0) if after else None
    server.receive(data, 0)
    server.outgoing()


@both_engines
@settings(max_examples=100, deadline=None)
@given(
    frames=st.lists(
        st.tuples(st.integers(0, 10), st.integers(0, 255), st.sampled_from([0, 1, 3, 5, 7, 2]), st.binary(max_size=40)),
        max_size=12,
    )
)
def test_well_formed_nonsense_never_raises(engine: EngineFactory, frames: list[tuple[int, int, int, bytes]]) -> None:
    server = Http2Connection(engine, [Notebooks()], PEER, 0)
    server.receive(PREFACE + EMPTY_SETTINGS, 0)
    for kind, flags, stream_id, payload in frames:
        server.receive(frame(kind, flags, stream_id, payload), 0)
        server.outgoing()


@both_engines
@settings(max_examples=60, deadline=None)
@given(at=st.integers(min_value=0), value=st.integers(0, 255))
def test_one_wrong_byte_never_raises(engine: EngineFactory, at: int, value: int) -> None:
    at %= len(CONVERSATION)
    server = Http2Connection(engine, [Notebooks()], PEER, 0)
    server.receive(CONVERSATION[:at] + bytes([value]) + CONVERSATION[at + 1 :], 0)
    server.outgoing()


@settings(max_examples=60)
@given(cuts=st.lists(st.integers(min_value=0, max_value=1_000_000), max_size=30))
def test_outline_is_the_same_for_any_split(cuts: list[int]) -> None:
    outline = FrameOutline(0)
    for piece in split(CONVERSATION, cuts):
        assert outline.follow(piece) == 0
    assert (outline.work, outline.control, outline.resets) == (11, 4, 1)
    assert not outline.acknowledged
    assert not outline.inside


def test_outline_knows_that_it_is_inside_a_frame() -> None:
    outline = FrameOutline(0)
    outline.follow(PREFACE[:5])
    assert outline.inside
    outline.follow(PREFACE[5:] + EMPTY_SETTINGS)
    assert not outline.inside
    outline.follow(frame(1, 0, 1, b"block"))
    assert outline.inside
    outline.follow(frame(9, 0x4, 1, b"rest"))
    assert not outline.inside
    outline.follow(frame(0, 0, 1, b"data")[:-1])
    assert outline.inside


def test_outline_refuses_what_no_engine_should_buffer() -> None:
    outline = FrameOutline(0)
    outline.follow(PREFACE)
    assert outline.follow(b"\x00\x40\x01\x00\x00\x00\x00\x00\x01") == FRAME_SIZE_ERROR
    outline = FrameOutline(0)
    outline.follow(PREFACE + frame(1, 0, 1))
    assert outline.follow(frame(9, 0, 1) * 64) == 0
    assert outline.follow(frame(9, 0, 1)) == ENHANCE_YOUR_CALM


def test_pure_is_chosen_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_PURE", "1")
    assert choose() == ("h2", engine_h2.Session)


def test_missing_binding_means_h2_unless_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADGATE_PURE", raising=False)
    monkeypatch.delenv("HEADGATE_REQUIRE_COMPILED", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "protocols.http2.engine_nghttp2", None)
    monkeypatch.delattr("protocols.http2.engine_nghttp2", raising=False)
    assert choose() == ("h2", engine_h2.Session)
    monkeypatch.setenv("HEADGATE_REQUIRE_COMPILED", "1")
    with pytest.raises(ImportError):
        choose()


def upload(engine: EngineFactory) -> tuple[Client, Notebook, int]:
    """A request that has begun, and was paused before its body."""
    client, notes = connected(engine)
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"gate"), (b":path", b"/note")]
    stream_id = client.connection.get_next_available_stream_id()
    client.connection.send_headers(stream_id, fields)
    client.exchange()
    notes.reply.pause(stream_id)
    return client, notes, stream_id


def fill(client: Client, stream_id: int, size: int = 16_384) -> int:
    """Send as much as the windows allow -> number of bytes."""
    sent = 0
    while (room := client.connection.local_flow_control_window(stream_id)) > 0:
        client.connection.send_data(stream_id, bytes(min(size, room)))
        client.exchange()
        sent += min(size, room)
    return sent


@both_engines
def test_a_paused_stream_keeps_its_window_and_gives_it_back_once(engine: EngineFactory) -> None:
    client, notes, stream_id = upload(engine)
    notes.reply.pause(stream_id)
    for _ in range(3):
        assert fill(client, stream_id) == STREAM_WINDOW_BYTES
        assert client.connection.outbound_flow_control_window > CONNECTION_WINDOW_BYTES // 2 - STREAM_WINDOW_BYTES
        notes.reply.resume(stream_id)
        notes.reply.resume(stream_id)
        client.exchange()
        assert client.connection.streams[stream_id].outbound_flow_control_window == STREAM_WINDOW_BYTES
        notes.reply.pause(stream_id)
    notes.reply.resume(stream_id)
    client.connection.send_data(stream_id, bytes(10_000), end_stream=True)
    client.exchange()
    assert [len(entry[2]) for entry in notes.notified if entry[0] == "ended"] == [3 * STREAM_WINDOW_BYTES + 10_000]  # type: ignore[arg-type]


@both_engines
def test_a_part_of_a_window_is_given_back_too_and_then_as_ever(engine: EngineFactory) -> None:
    client, notes, stream_id = upload(engine)
    client.connection.send_data(stream_id, bytes(10_000))
    client.exchange()
    assert client.connection.streams[stream_id].outbound_flow_control_window == STREAM_WINDOW_BYTES - 10_000
    notes.reply.resume(stream_id)
    client.exchange()
    assert client.connection.streams[stream_id].outbound_flow_control_window == STREAM_WINDOW_BYTES
    for _ in range(200):
        client.connection.send_data(stream_id, bytes(16_384))
        client.exchange()
    assert client.server.closed is False


@both_engines
def test_who_sends_on_without_a_window_is_refused(engine: EngineFactory) -> None:
    """RFC 9113, 6.9.1: FLOW_CONTROL_ERROR, of the stream or of the connection."""
    client, _, stream_id = upload(engine)
    fill(client, stream_id)
    client.server.receive(frame(0, 0, stream_id, b"x" * 16_384), 0)
    for event in client.connection.receive_data(b"".join(client.server.outgoing())):
        client.events.append(event)
    assert client.goodbye() == FLOW_CONTROL_ERROR or client.resets() == {stream_id: FLOW_CONTROL_ERROR}


@both_engines
def test_streams_that_are_gone_can_be_paused_and_resumed(engine: EngineFactory) -> None:
    client, notes, stream_id = upload(engine)
    fill(client, stream_id)
    client.connection.reset_stream(stream_id, 8)
    client.exchange()
    notes.reply.resume(stream_id)
    notes.reply.pause(stream_id)
    notes.reply.resume(99)
    other = client.request("/note", b"still here")
    assert ("ended", other, b"still here") in notes.notified
    ended = client.connection.get_next_available_stream_id()
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"gate"), (b":path", b"/note")]
    client.connection.send_headers(ended, fields)
    client.exchange()
    notes.reply.pause(ended)
    client.connection.send_data(ended, bytes(9_000), end_stream=True)
    client.exchange()
    notes.reply.resume(ended)
    client.exchange()
    assert not client.server.closed
