"""The batch: what was written is found again, and nothing else is taken for it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from store.log import batch
from tests.store import version1
from tests.store.later_format import MORE_BYTES, VERSION, later

WRITER = batch.Writer(3, 77)
PARTS = st.lists(st.binary(max_size=30), max_size=6)
POSITIONS = st.integers(0, 1 << 50)


@given(PARTS, POSITIONS, POSITIONS)
def test_a_header_tells_what_the_batch_holds(parts: list[bytes], position: int, written_ms: int) -> None:
    data = batch.encode(parts, position, written_ms, 0, WRITER, position)
    found = batch.header(data + b"what follows in the log", position)
    assert found is not None
    assert (found.size, found.count, found.position) == (len(data), len(parts), position)
    assert (found.written_ms, found.state_at) == (written_ms, 0)
    assert (found.version, found.epoch, found.incarnation, found.flushed) == (2, 3, 77, position)
    assert batch.holds(data, found)
    assert data[batch.HEADER_BYTES :] == b"".join(parts)


@given(PARTS, POSITIONS, st.data())
def test_a_batch_with_one_wrong_bit_is_not_taken(parts: list[bytes], position: int, pick: st.DataObject) -> None:
    data = bytearray(batch.encode(parts, position, 5, 0, WRITER, 0))
    data[pick.draw(st.integers(0, len(data) - 1))] ^= 1 << pick.draw(st.integers(0, 7))
    found = batch.header(bytes(data), position)
    assert found is None or not batch.holds(bytes(data), found)


@given(PARTS, st.data())
def test_a_batch_that_was_cut_off_is_not_taken(parts: list[bytes], pick: st.DataObject) -> None:
    data = batch.encode(parts, 64, 5, 0, WRITER, 0)
    part = data[: pick.draw(st.integers(0, len(data) - 1))]
    found = batch.header(part, 64)
    assert found is None or not batch.holds(part, found)


def test_a_batch_copied_to_another_position_is_not_taken() -> None:
    data = batch.encode([b"x"], 64, 5, 0, WRITER, 0)
    assert batch.header(data, 65) is None


def test_a_state_record_outside_the_batch_is_not_taken() -> None:
    assert batch.header(batch.encode([b"xyz"], 0, 5, batch.HEADER_BYTES + 3, WRITER, 0), 0) is not None
    assert batch.header(batch.encode([b"xyz"], 0, 5, batch.HEADER_BYTES + 4, WRITER, 0), 0) is None


def test_a_filler_is_told_from_a_batch() -> None:
    assert batch.is_filler(batch.FILLER + b"\x00" * 100)
    assert not batch.is_filler(batch.encode([b"x"], 0, 5, 0, WRITER, 0))
    assert not batch.is_filler(batch.FILLER[:-1])
    assert batch.header(batch.FILLER + b"\x00" * 100, 0) is None


def test_a_wrong_bit_in_a_header_is_seen_without_the_records() -> None:
    data = batch.encode([b"x" * 100], 64, 5, 0, WRITER, 64)
    for bit in range(12 * 8, batch.HEADER_BYTES * 8):
        wrong = bytearray(data[: batch.HEADER_BYTES])
        wrong[bit // 8] ^= 1 << bit % 8
        assert batch.header(bytes(wrong), 64) is None, bit


def test_a_batch_of_version_1_is_read() -> None:
    data = bytes(version1.disk().files["log/" + "0" * 20].data)
    found = batch.header(data, 0)
    assert found is not None
    assert (found.version, found.head, found.flushed, found.is_gap) == (1, 40, 0, False)
    assert batch.holds(data[: found.size], found)
    for at in range(8, found.size, 3):
        wrong = bytearray(data[: found.size])
        wrong[at] ^= 1
        again = batch.header(bytes(wrong), 0)
        assert again is None or not batch.holds(bytes(wrong[: again.size]), again), at


@given(st.integers(batch.HEADER_BYTES, 1 << 39), POSITIONS, st.integers(0, 1 << 33))
def test_a_gap_tells_where_the_log_goes_on_and_how_many_records_were_lost_at_most(size: int, position: int, count: int) -> None:
    data = batch.gap(size, position, 5, count, WRITER)
    found = batch.header(data, position)
    assert found is not None
    assert (found.is_gap, found.size, found.count) == (True, size, min(count, (1 << 32) - 1))
    assert batch.holds(data, found)
    assert not found.flushed


@given(st.lists(PARTS, max_size=5), st.booleans(), st.data())
def test_what_is_whole_ends_where_the_last_whole_batch_does(
    all_parts: list[list[bytes]], filled: bool, pick: st.DataObject
) -> None:
    begin = pick.draw(POSITIONS)
    ends, data = [0], b""
    for parts in all_parts:
        data += batch.encode(parts, begin + len(data), 5, 0, WRITER, 0)
        ends.append(len(data))
    if filled:
        data += batch.FILLER
        ends.append(len(data))
    part = data[: pick.draw(st.integers(0, len(data)))]
    assert batch.whole_bytes(part, begin) == max(end for end in ends if end <= len(part))


def test_what_is_whole_ends_before_what_is_no_batch_of_records() -> None:
    whole = batch.encode([b"a record"], 100, 5, 0, WRITER, 0)
    behind = 100 + len(whole)
    for other in (
        batch.gap(500, behind, 5, 1, WRITER),
        batch.encode([b"elsewhere"], behind + 1, 5, 0, WRITER, 0),
        bytes(200),
    ):
        assert batch.whole_bytes(whole + other, 100) == len(whole)
        assert batch.whole_bytes(other, behind) == 0
    old = bytes(version1.disk().files["log/" + "0" * 20].data)
    assert batch.whole_bytes(old, 0) == 0


@given(PARTS, POSITIONS, st.integers(0, 600))
def test_a_batch_of_a_later_version_is_known_as_such(parts: list[bytes], position: int, more: int) -> None:
    data = later(batch.encode(parts, position, 5, 0, WRITER, 0), position, more)
    assert batch.header(data, position) is None
    assert batch.later_version(data, position) == VERSION
    assert batch.later_version(data, position + 1) == 0, "it is of another place"


@given(PARTS, POSITIONS, st.data())
def test_nothing_else_is_taken_for_a_later_version(parts: list[bytes], position: int, pick: st.DataObject) -> None:
    known = batch.encode(parts, position, 5, 0, WRITER, 0)
    assert batch.later_version(known, position) == 0
    damaged = bytearray(later(known, position))
    damaged[pick.draw(st.integers(12, batch.HEADER_BYTES + MORE_BYTES - 1))] ^= 1 << pick.draw(st.integers(0, 7))
    assert batch.later_version(bytes(damaged), position) == 0
    assert batch.later_version(pick.draw(st.binary(max_size=200)), position) == 0
