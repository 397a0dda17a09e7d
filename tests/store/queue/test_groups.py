"""Groups of index rows: read and checked once while they are kept, never kept when damaged, and bounded in number."""

from __future__ import annotations

import pytest

from store.log.segment import Segments
from store.queue import block
from store.queue.block_files import GROUPS_MAX, RowGroups
from store.queue.row import ROW
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk, Operation


class Files:
    """An index file with blocks of full groups, and the reads of it."""

    def __init__(self, blocks: int) -> None:
        self.disk = MemoryDisk(VirtualClock())
        self.segments = Segments(self.disk, "index")
        self.places: list[int] = []
        self.rows: list[bytes] = []
        for number in range(blocks):
            rows = b"".join(ROW.pack(number * 10_000 + at, 100, at, 5) for at in range(block.ROWS_MAX))
            data = block.encode("topic", 3, 1, number * block.ROWS_MAX, 0, rows)
            begin = self.segments.end + block.HEADER_BYTES + len(b"topic")
            size = len(rows) // (block.ROWS_MAX // block.GROUP_ROWS)
            for group in range(block.ROWS_MAX // block.GROUP_ROWS):
                self.places.append(begin + group * block.GROUP_BYTES)
                self.rows.append(rows[group * size : (group + 1) * size])
            self.segments.append(data)
        self.reads = 0
        self.disk.watch = self._note

    def _note(self, operation: Operation) -> None:
        self.reads += operation.kind == "read"


@pytest.mark.parametrize("count", [1, 2])
def test_few_rows_that_are_read_again_are_in_memory(count: int) -> None:
    files = Files(1)
    groups = RowGroups(files.segments)
    expected = b"".join(files.rows[3 : 3 + count])
    assert groups.read(files.places[3], count) == expected
    assert files.reads == count
    assert groups.read(files.places[3], count) == expected
    assert groups.read(files.places[3 + count - 1], 1) == files.rows[3 + count - 1]
    assert files.reads == count


def test_many_rows_are_one_read_and_are_not_kept() -> None:
    files = Files(1)
    groups = RowGroups(files.segments)
    for reads in (1, 2):
        assert groups.read(files.places[1], 5) == b"".join(files.rows[1:6])
        assert files.reads == reads


@pytest.mark.parametrize("count", [1, 2])
def test_a_damaged_group_is_damaged_for_every_reader(count: int) -> None:
    files = Files(1)
    groups = RowGroups(files.segments)
    damaged = files.places[count - 1]
    files.disk.files["index/" + "0" * 20].data[damaged + 100] ^= 4
    for _ in range(2):
        assert groups.read(files.places[0], count) is None
        assert groups.read(damaged, 1) is None
    assert groups.read(files.places[2], 1) == files.rows[2]


def test_the_groups_read_first_are_forgotten_above_the_bound() -> None:
    files = Files(GROUPS_MAX // 8 + 1)
    groups = RowGroups(files.segments)
    for place in files.places[: GROUPS_MAX + 1]:
        groups.read(place, 1)
    assert files.reads == GROUPS_MAX + 1
    groups.read(files.places[1], 1)
    assert files.reads == GROUPS_MAX + 1
    groups.read(files.places[0], 1)
    assert files.reads == GROUPS_MAX + 2
