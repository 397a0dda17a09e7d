"""Received bytes are handed out in slices, whose size follows the time that they take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.connection.intake import SLICE_BYTES_FIRST, SLICE_BYTES_MAX, SLICE_BYTES_MIN, SLICE_NS, PumpIntake
from gateway.connection.unread_bytes import UnreadBytes
from tests.neighbours.loop import TurnClock


@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 10 * SLICE_NS)), max_size=20))
def test_what_goes_in_comes_out_in_order(steps: list[tuple[int, int]]) -> None:
    unread = UnreadBytes(PumpIntake(TurnClock(), lambda: 0))
    given_bytes, taken = b"", b""
    for size, took_ns in steps:
        data = bytes(at % 251 for at in range(size % 5_000))
        given_bytes += data
        unread.add(data)
        if unread.waits:
            part = unread.take()
            assert 0 < len(part) <= SLICE_BYTES_MAX
            taken += part
            unread.took(len(part), took_ns)
            assert SLICE_BYTES_MIN <= unread.slice_bytes <= SLICE_BYTES_MAX
    while unread.waits:
        taken += unread.take()
    assert taken == given_bytes


def test_slices_that_are_cheap_grow_and_dear_ones_shrink() -> None:
    unread = UnreadBytes(PumpIntake(TurnClock(), lambda: 0))
    unread.took(SLICE_BYTES_FIRST, SLICE_NS // 2)
    assert unread.slice_bytes == 2 * SLICE_BYTES_FIRST
    unread.took(10, 0)
    assert unread.slice_bytes == 2 * SLICE_BYTES_FIRST, "a slice that was not full shows nothing"
    unread.took(2 * SLICE_BYTES_FIRST, 2 * SLICE_NS)
    assert unread.slice_bytes == SLICE_BYTES_FIRST
