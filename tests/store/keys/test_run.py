"""Rows and runs of the key index: the keys of a message and their hashes; searches and merges like those of a sorted list."""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import StoreError
from store.keys import merge as merging
from store.keys import row
from store.keys.merge import Merge
from store.keys.row import ROW_BYTES, pack
from store.keys.run import CHECKED_ROWS, FOOTER_BYTES, RowChunk, Run, file_name, open_run
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk

TOKEN = st.text(st.characters(exclude_characters=" \x01\x02", codec="utf-8"), min_size=1, max_size=8)
SPREAD = st.integers(0, (1 << 64) - 1)
CROWDED = st.integers(0, 40) | st.integers((1 << 63) - 20, (1 << 63) + 20)
ROWS = st.lists(SPREAD, max_size=80) | st.lists(CROWDED, max_size=80)


def stored(**properties: str) -> bytes:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_hash_is_that_of_topic_nul_and_key(topic: str, key: str) -> None:
    assert row.hash_of(key, row.seed_of(topic)) == zlib.crc32(f"{topic}\x00{key}".encode())


@given(st.lists(TOKEN, min_size=1, max_size=10))
def test_each_key_is_found_once_in_the_order_given(keys: list[str]) -> None:
    found = row.tokens_of(stored(TAGS="t", KEYS=" ".join(keys), X="y"))
    assert [token.decode() for token in found] == list(dict.fromkeys(keys))


def test_blanks_between_keys_are_no_keys() -> None:
    assert row.tokens_of(stored(KEYS="  a   b ")) == [b"a", b"b"]


def test_only_the_property_named_keys_is_read() -> None:
    assert row.tokens_of(stored(XKEYS="a", TAGS="KEYS", Y="b")) == []
    assert row.tokens_of(stored(XKEYS="a", KEYS="b")) == [b"b"]
    assert row.tokens_of(b"") == []


def test_the_last_property_may_lack_its_end() -> None:
    assert row.tokens_of(b"TAGS\x01t\x02KEYS\x01a b") == [b"a", b"b"]


def test_a_message_has_a_bounded_number_of_keys() -> None:
    keys = [f"k{number}" for number in range(row.KEYS_PER_MESSAGE_MAX + 10)]
    assert [token.decode() for token in row.tokens_of(stored(KEYS=" ".join(keys)))] == keys[: row.KEYS_PER_MESSAGE_MAX]


def test_keys_that_are_no_utf_8_are_found_as_readers_see_them() -> None:
    assert row.tokens_of(b"KEYS\x01a\xff b\x02") == ["a\ufffd".encode(), b"b"]
    assert row.id_of(b"UNIQ_KEY\x01\xff\x02") == "\ufffd".encode()


def test_the_id_of_a_message_is_its_uniq_key() -> None:
    assert row.id_of(stored(KEYS="a", UNIQ_KEY="AB01")) == b"AB01"
    assert row.id_of(stored(KEYS="UNIQ_KEY")) == b""


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=20))
def test_rows_are_little_endian_in_the_file(numbers: list[int]) -> None:
    rows = array("Q", numbers)
    data = row.pack(rows)
    assert data == b"".join(number.to_bytes(row.ROW_BYTES, "little") for number in numbers)
    assert row.unpack(data) == rows
    assert rows == array("Q", numbers)


def disk() -> MemoryDisk:
    return MemoryDisk(VirtualClock())


def written(numbers: list[int], where: MemoryDisk) -> Run:
    """A run with its footer in a file of `where`."""
    run = Run(file_name(100, 900), where.open(file_name(100, 900)), 100, 900, len(numbers), 7, 9)
    run.append(pack(array("Q", numbers)))
    run.file.append(run.footer())
    return run


@settings(max_examples=60)
@given(st.lists(ROWS, min_size=1, max_size=12), st.lists(SPREAD | CROWDED, max_size=10))
def test_a_search_finds_the_first_row_that_is_not_less(parts: list[list[int]], wanted: list[int]) -> None:
    numbers = sorted(number for part in parts for number in part)
    run = written(numbers, disk())
    chunk = RowChunk(array("Q", numbers), 100, 900, 7, 9)
    for number in [*wanted, *numbers[::17], 0, (1 << 64) - 1]:
        assert run.bound(number) == chunk.bound(number) == bisect_left(numbers, number)


@pytest.mark.parametrize("step", [1, 1 << 20, 1 << 50])
def test_a_search_in_a_long_run_of_uneven_rows_finds_every_row(step: int) -> None:
    numbers = [number * step for number in range(2_000)]
    run = written(numbers, disk())
    assert [run.bound(row) for row in numbers] == list(range(2_000))


@pytest.mark.parametrize("row", [0, 1 << 31, 1 << 63, (1 << 64) - 1])
def test_a_search_finds_the_first_of_many_equal_rows(row: int) -> None:
    numbers = sorted([row] * 1_500 + [1 << 30] * 300 + [1 << 62] * 300)
    assert written(numbers, disk()).bound(row) == numbers.index(row)


def test_rows_are_read_up_to_the_footer_and_no_further() -> None:
    run = written([1, 2, 3], disk())
    assert list(run.rows(1, 100)) == [2, 3]
    assert list(run.rows(0, 2)) == [1, 2]


def test_an_opened_run_has_the_facts_of_its_footer() -> None:
    where = disk()
    written([1, 2, 3], where)
    found = open_run(file_name(100, 900), where.open(file_name(100, 900)))
    assert found is not None
    assert (found.begin, found.end, found.count, found.first_ms, found.last_ms) == (100, 900, 3, 7, 9)
    assert found.whole
    assert list(found.rows(0, 9)) == [1, 2, 3]


@pytest.mark.parametrize("at", [*range(0, FOOTER_BYTES, 3), FOOTER_BYTES - 1])
def test_a_damaged_footer_is_not_opened(at: int) -> None:
    where = disk()
    written([1, 2, 3], where)
    where.files[file_name(100, 900)].data[3 * ROW_BYTES + at] ^= 1
    assert open_run("r", where.open(file_name(100, 900))) is None


@pytest.mark.parametrize("lost", range(FOOTER_BYTES + 3 * ROW_BYTES + 1))
def test_a_file_that_lost_bytes_is_not_opened(lost: int) -> None:
    where = disk()
    written([1, 2, 3], where)
    file = where.open(file_name(100, 900))
    if lost:
        file.truncate(file.size() - lost)
        assert open_run("r", file) is None
    del where.files[file_name(100, 900)].data[:ROW_BYTES]
    assert open_run("r", file) is None


@settings(max_examples=60)
@given(st.lists(ROWS.map(sorted), min_size=1, max_size=5), st.sampled_from((1, 3, 64)))
def test_a_merge_is_the_sorted_sum_of_its_sources(parts: list[list[int]], block: int) -> None:
    where = disk()
    sources = [RowChunk(array("Q", part), 10 * at, 10 * at + 10, at + 5, at + 6) for at, part in enumerate(parts)]
    merge = Merge(where, sources)
    merge._block = block
    steps = 0
    while not merge.step():
        steps += 1
        assert steps <= sum(map(len, parts)) + 1
    run = merge.run
    assert list(run.rows(0, run.count)) == sorted(number for part in parts for number in part)
    assert (run.begin, run.end, run.first_ms, run.last_ms) == (0, 10 * len(parts), 5, 5 + len(parts))
    assert run.name == file_name(0, 10 * len(parts))


def test_a_merge_begins_with_an_empty_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "SLICE_ROWS", 128)
    where = disk()
    where.open(file_name(0, 10)).append(b"left by a merge that was killed")
    merge = Merge(where, [RowChunk(array("Q", [3, 4]), 0, 10, 1, 1)])
    while not merge.step():
        pass
    merge.run.file.append(merge.run.footer())
    found = open_run(merge.run.name, merge.run.file)
    assert found is not None
    assert list(found.rows(0, 2)) == [3, 4]


@given(st.lists(SPREAD, min_size=1, max_size=600).map(sorted), st.data())
@settings(max_examples=40)
def test_a_flipped_bit_in_rows_costs_their_readers_an_error_and_nobody_else(numbers: list[int], pick: st.DataObject) -> None:
    where = disk()
    written(numbers, where)
    bad = pick.draw(st.integers(0, len(numbers) * ROW_BYTES - 1))
    where.files[file_name(100, 900)].data[bad] ^= 1 << pick.draw(st.integers(0, 7))
    run = open_run(file_name(100, 900), where.open(file_name(100, 900)))
    assert run is not None
    group = bad // ROW_BYTES // CHECKED_ROWS
    for at in range(0, len(numbers), 60):
        touched = at // CHECKED_ROWS <= group <= (min(at + 60, len(numbers)) - 1) // CHECKED_ROWS
        if touched:
            with pytest.raises(StoreError, match="damaged"):
                run.rows(at, 60)
        else:
            assert list(run.rows(at, 60)) == numbers[at : at + 60]
    assert run.damaged
