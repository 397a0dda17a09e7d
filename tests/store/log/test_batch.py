"""The batch: what was written is found again, and nothing else is taken for it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from store.log import batch

PARTS = st.lists(st.binary(max_size=30), max_size=6)
POSITIONS = st.integers(0, 1 << 50)


@given(PARTS, POSITIONS, POSITIONS)
def test_a_header_tells_what_the_batch_holds(parts: list[bytes], position: int, written_ms: int) -> None:
    data = batch.encode(parts, position, written_ms, 0)
    found = batch.header(data + b"what follows in the log", position)
    assert found is not None
    assert (found.size, found.count, found.position) == (len(data), len(parts), position)
    assert (found.written_ms, found.state_at) == (written_ms, 0)
    assert batch.holds(data, found)
    assert data[batch.HEADER_BYTES :] == b"".join(parts)


@given(PARTS, POSITIONS, st.data())
def test_a_batch_with_one_wrong_bit_is_not_taken(parts: list[bytes], position: int, pick: st.DataObject) -> None:
    data = bytearray(batch.encode(parts, position, 5, 0))
    data[pick.draw(st.integers(0, len(data) - 1))] ^= 1 << pick.draw(st.integers(0, 7))
    found = batch.header(bytes(data), position)
    assert found is None or not batch.holds(bytes(data), found)


@given(PARTS, st.data())
def test_a_batch_that_was_cut_off_is_not_taken(parts: list[bytes], pick: st.DataObject) -> None:
    data = batch.encode(parts, 64, 5, 0)
    part = data[: pick.draw(st.integers(0, len(data) - 1))]
    found = batch.header(part, 64)
    assert found is None or not batch.holds(part, found)


def test_a_batch_copied_to_another_position_is_not_taken() -> None:
    data = batch.encode([b"x"], 64, 5, 0)
    assert batch.header(data, 65) is None


def test_a_state_record_outside_the_batch_is_not_taken() -> None:
    assert batch.header(batch.encode([b"xyz"], 0, 5, batch.HEADER_BYTES + 3), 0) is not None
    assert batch.header(batch.encode([b"xyz"], 0, 5, batch.HEADER_BYTES + 4), 0) is None


def test_a_filler_is_told_from_a_batch() -> None:
    assert batch.is_filler(batch.FILLER + b"\x00" * 100)
    assert not batch.is_filler(batch.encode([b"x"], 0, 5, 0))
    assert not batch.is_filler(batch.FILLER[:-1])
    assert batch.header(batch.FILLER + b"\x00" * 100, 0) is None
