"""The queue index compared with lists, through spills, merges, restarts and trimming; and the memory of a queue."""

from __future__ import annotations

import random
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.filter.tag import parse
from domain.message.message import Message
from domain.message.record import Record
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import ROW, Row
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.driver import Driver

STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 700), st.booleans()), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from((0, 50, 100_000)), st.randoms(use_true_random=False))
def test_rows_come_back_as_they_were_added(steps: list[tuple[int, int, bool]], rows_max: int, pick: random.Random) -> None:
    disk = MemoryDisk(VirtualClock())
    config = StoreSettings(tail_rows_max=rows_max, index_segment_bytes=20_000)
    index = QueueIndex(disk, config, 0, 0)
    naive: dict[int, list[Row]] = {}
    position = 0
    for queue_id, count, spill in steps:
        entry = index.entry("t")
        queue = entry.queues.get(queue_id)
        if queue is None:
            queue = entry.queues[queue_id] = Queue(entry, queue_id)
        for _ in range(count):
            row = (position, 100, queue_id - 2, position // 10)
            index.add(queue, ROW.pack(*row))
            naive.setdefault(queue_id, []).append(row)
            position += 100
            if queue.tail_rows() >= 512:
                index.write_out(queue)
        queue.visible = queue.next
        if spill:
            list(index.spill())
    checkpoint = pick.randrange(position + 1)
    while not index.write_below(checkpoint, 1):
        pass
    loaded = QueueIndex(disk, config, 0, index.files.segments.end)
    loaded.load(0, checkpoint, lambda topic: 0)
    for queue_id, rows in naive.items():
        below = [row for row in rows if row[0] < checkpoint]
        for which, expected in ((index, rows), (loaded, below)):
            queue = which.queue("t", queue_id)
            if queue is None:
                assert expected == []
                continue
            assert queue.next == len(expected)
            offset = pick.randrange(len(expected) + 1)
            assert which.rows(queue, offset, min(40, len(expected) - offset)) == expected[offset : offset + 40]
            assert which.rows(queue, 0, len(expected)) == expected
            blocks = queue.block_count()
            assert blocks <= len(rows) // 256 + 12, "blocks merge"


def test_an_idle_queue_costs_less_than_a_kilobyte() -> None:
    count = 20_000
    driver = Driver.with_topics("t", config=StoreSettings(tail_rows_max=1_000, cache_bytes=0))
    driver.send("t", b"x")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for first in range(0, count, 500):
        driver.append([Message("t", b"x", queue_id=queue_id) for queue_id in range(first, first + 500)])
    list(driver.store.parts.index.spill())
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    on_disk = sum(len(content.data) for content in driver.disk.files.values())
    assert driver.store.figures()["queues"] == count
    assert (used - on_disk) / count < 1_000
    assert not [name for name in driver.disk.files if name.startswith("index/")][20:]


def test_neighbouring_records_are_one_disk_read() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(cache_bytes=0))
    driver.append([Message("t", b"x" * 500, queue_id=0) for _ in range(100)])
    driver.read("t", 0, 1)  # checks the batch
    reads = driver.disk.reads
    assert len(driver.read("t", 10, 32).records) == 32
    assert driver.disk.reads - reads == 1


def test_consumers_that_keep_up_read_nothing_from_the_disk() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", *[b"x" * 500] * 100)
    reads = driver.disk.reads
    assert len(driver.read("t", 10, 32).records) == 32
    assert driver.disk.reads == reads


def test_a_rare_tag_is_found_by_its_hash() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(cache_bytes=0, tail_rows_max=0))
    driver.append([Message("t", b"%d" % number, b"TAGS\x01%d\x02" % (number % 100), queue_id=0) for number in range(2_000)])
    reads = driver.disk.reads
    result = driver.read("t", tags=parse("7"), limit=32)
    assert [Record(data).body for data in result.records] == [b"%d" % number for number in range(7, 2_000, 100)]
    assert result.next_offset == 2_000
    assert driver.disk.reads - reads < 40
