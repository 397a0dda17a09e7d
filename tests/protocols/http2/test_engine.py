"""Properties of the engines, and of the choice between them."""

from __future__ import annotations

import pytest
from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.command import Command
from protocols.http2 import engine_h2
from protocols.http2.choice import choose
from protocols.http2.connection import Http2Connection
from protocols.http2.engine import EngineFactory
from protocols.http2.frame import ENHANCE_YOUR_CALM, FRAME_SIZE_ERROR, FrameOutline
from tests.protocols.http2.peer import EMPTY_SETTINGS, ENGINES, PEER, PREFACE, Notebooks, both_engines, frame


def conversation() -> bytes:
    """What a client sends: five requests, one reset, one in many frames, one with padding, a ping, an unknown frame."""
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
    return [type(command).__name__ for command in commands], factory.last.told


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({cut % len(data) for cut in cuts} - {0})
    return [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)]


@both_engines
def test_conversation_is_understood(engine: EngineFactory) -> None:
    commands, told = heard(engine, [CONVERSATION])
    assert commands == ["Latest"] * 4
    assert [entry for entry in told if entry[0] == "ended"] == [
        ("ended", 1, b""),
        ("ended", 3, b"onetwo"),
        ("ended", 5, b"padded"),
        ("ended", 9, b"z" * 9000),
    ]
    assert ("cancelled", 7) in told


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
    outline = FrameOutline()
    for piece in split(CONVERSATION, cuts):
        assert outline.follow(piece) == 0
    assert (outline.work, outline.control, outline.resets) == (11, 4, 1)
    assert outline.settled
    assert not outline.inside


def test_outline_knows_that_it_is_inside_a_frame() -> None:
    outline = FrameOutline()
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
    outline = FrameOutline()
    outline.follow(PREFACE)
    assert outline.follow(b"\x00\x40\x01\x00\x00\x00\x00\x00\x01") == FRAME_SIZE_ERROR
    outline = FrameOutline()
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
