"""Blocks of the queue index and their rows: what was written is found again, and damage is seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from store.queue import block
from store.queue.row import ROW, ROW_BYTES, Row, columns, rows_within

LONG = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.integers(-(1 << 31), (1 << 31) - 1), LONG, LONG, LONG)
def test_a_block_comes_back_as_it_was(topic: str, queue_id: int, epoch: int, first: int, last: int) -> None:
    rows = b"".join(ROW.pack(number, 100, 0, 5) for number in range(3))
    data = block.encode(topic, queue_id, epoch, first, last, rows)
    found = block.header(data + b"the next block")
    assert found is not None
    assert (found.topic, found.queue_id, found.epoch, found.first) == (topic, queue_id, epoch, first)
    assert (found.count, found.last_physical, found.size) == (3, last, len(data))
    assert block.rows_of(data[found.rows_at : found.size], 1) == rows


@given(st.data())
def test_a_header_with_one_wrong_bit_is_not_taken(pick: st.DataObject) -> None:
    data = bytearray(block.encode("topic", 3, 1, 10, 500, bytes(ROW_BYTES)))
    data[pick.draw(st.integers(0, len(data) - ROW_BYTES - block.GROUP_HEAD_BYTES - 1))] ^= 1 << pick.draw(st.integers(0, 7))
    assert block.header(bytes(data)) is None


def test_a_header_that_ends_within_the_name_is_not_taken() -> None:
    data = block.encode("topic", 3, 1, 10, 500, b"")
    assert [block.header(data[:length]) is not None for length in range(len(data) + 1)] == [False] * len(data) + [True]


@given(st.lists(st.sampled_from((0, 500, 1_500)), max_size=12), st.sampled_from((0, 499, 500, 1_500, 2_000, 3_000)))
def test_an_answer_takes_the_longest_run_of_rows_that_fits_but_at_least_one(sizes: list[int], max_bytes: int) -> None:
    rows: list[Row] = [(number, size, 0, 0) for number, size in enumerate(sizes)]
    fitting = [count for count in range(len(rows) + 1) if sum(sizes[:count]) <= max_bytes]
    assert rows_within(rows, max_bytes) == rows[: max(*fitting, 1)]


@given(st.lists(st.tuples(st.integers(-1, (1 << 63) - 1), st.integers(0, (1 << 31) - 1), st.integers(-(1 << 31), -1), LONG)))
def test_places_and_sizes_are_those_of_the_rows(rows: list[Row]) -> None:
    places, sizes = columns(b"".join(ROW.pack(*row) for row in rows))
    assert list(zip(places, sizes, strict=True)) == [row[:2] for row in rows]


@given(st.integers(1, block.ROWS_MAX), st.data())
def test_rows_of_any_groups_come_back_and_damage_is_seen(count: int, pick: st.DataObject) -> None:
    rows = b"".join(ROW.pack(number * 100, 100, number, 5) for number in range(count))
    data = block.encode("topic", 3, 1, 10, 500, rows)
    found = block.header(data)
    assert found is not None
    groups = -(-count // block.GROUP_ROWS)
    first = pick.draw(st.integers(0, groups - 1))
    at = found.rows_at + first * block.GROUP_BYTES
    assert block.rows_of(data[at:] + b"the next block", groups - first) == rows[first * block.GROUP_ROWS * ROW_BYTES :]
    damaged = bytearray(data)
    damaged[pick.draw(st.integers(at, len(data) - 1))] ^= 1 << pick.draw(st.integers(0, 7))
    assert block.rows_of(bytes(damaged[at:]), groups - first) is None
    assert block.rows_of(data[at:-1], groups - first) is None
