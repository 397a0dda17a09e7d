"""gRPC's framing, after "PROTOCOL-HTTP2"."""

from __future__ import annotations

import contextlib
import gzip
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.grpc.framing import FramingError, Messages, frame, percent_encode, timeout_ns


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (b"1H", 3_600_000_000_000),
        (b"2M", 120_000_000_000),
        (b"3S", 3_000_000_000),
        (b"500m", 500_000_000),
        (b"7u", 7_000),
        (b"99999999n", 99_999_999),
        (b"0S", 0),
        (b"", -1),
        (b"S", -1),
        (b"3", -1),
        (b"-1S", -1),
        (b"123456789S", -1),
        (b"1.5S", -1),
        (b"3s", -1),
    ],
)
def test_timeouts(value: bytes, ns: int) -> None:
    assert timeout_ns(value) == ns


def test_status_text_is_percent_encoded() -> None:
    assert percent_encode("50% über\n") == b"50%25 %C3%BCber%0A"


@settings(max_examples=100)
@given(
    messages=st.lists(st.binary(max_size=60), max_size=6),
    packed=st.booleans(),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_any_split_gives_the_same_messages(messages: list[bytes], packed: bool, cuts: list[int]) -> None:
    data = b""
    for message in messages:
        if packed:
            body = gzip.compress(message)
            data += b"\x01" + len(body).to_bytes(4, "big") + body
        else:
            data += frame(message)
    collector = Messages(packed, 100)
    found: list[bytes] = []
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, end in itertools.pairwise(edges):
        collector.feed(data[start:end])
        while collector.ready():
            found.append(collector.take())
    assert found == messages
    assert collector.held == 0


@settings(max_examples=100)
@given(pieces=st.lists(st.binary(max_size=30), max_size=8), packed=st.booleans())
def test_garbage_raises_nothing_but_a_framing_error(pieces: list[bytes], packed: bool) -> None:
    collector = Messages(packed, 1000)
    with contextlib.suppress(FramingError):
        for piece in pieces:
            collector.feed(piece)
            while collector.ready():
                collector.take()


def test_message_beyond_the_limit_is_refused_by_its_prefix() -> None:
    fits, larger = Messages(False, 10), Messages(False, 10)
    fits.feed(frame(bytes(10)))
    assert fits.ready()
    assert fits.take() == bytes(10)
    larger.feed(b"\x00\x00\x00\x00\x0b")
    with pytest.raises(FramingError) as caught:
        larger.ready()
    assert caught.value.status == 8


def test_taken_messages_are_not_kept() -> None:
    collector = Messages(False, 10)
    collector.feed(frame(b"x") * 100_000)
    for left in range(100_000, 0, -1):
        assert collector.held == 6 * left
        assert collector.take() == b"x" if collector.ready() else None
        assert sum(map(len, collector._parts)) <= max(2 * collector.held, collector.held + 70_000)
    assert collector.held == 0
