"""The cost of retention_bytes of a topic: index rows that are read, independent of what the topic holds."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from domain.message.message import Message
from domain.message.record import Record
from domain.turn import STORE_TASK_COST
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row
from store.queue.window import PIECE_ROWS
from store.settings import StoreSettings
from store.steps import Turns
from tests.store.driver import Driver, sure

LOOK = StoreSettings(retention_check_ms=1_000, tail_rows_max=4_096, checkpoint_ms=2_000)


class Count:
    def __init__(self, driver: Driver) -> None:
        self.rows_read = 0
        self._driver = driver
        trimming = driver.store.parts.retention._trimming
        self._index = trimming._index
        trimming._index = cast(QueueIndex, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def rows(self, queue: Queue, offset: int, limit: int) -> list[Row]:
        found = self._index.rows(queue, offset, limit)
        self.rows_read += len(found)
        return found

    def during(self, ms: int = 1_500) -> int:
        """Number of rows read while `ms` pass."""
        before = self.rows_read
        self._driver.clock.run_for(ms)
        return self.rows_read - before


def fill(driver: Driver, topic: str, messages: int, size: int = 10, queues: int = 1, name: str = "") -> None:
    properties = f"__LITE_TOPIC\x01{name}\x02INNER_MULTI_DISPATCH\x01%LMQ%${topic}${name}\x02".encode() if name else b""
    for begin in range(0, messages, 500):
        batch = range(begin, min(begin + 500, messages))
        sure(driver.append([Message(topic, b"x" * size, properties, queue_id=number % queues) for number in batch]))


def stored_bytes(driver: Driver, topic: str, queue_id: int = 0) -> int:
    total, (offset, end) = 0, driver.bounds(topic, queue_id)
    while offset < end:
        result = driver.read(topic, offset, queue_id=queue_id)
        total += sum(map(len, result.records))
        offset = result.next_offset
    return total


@pytest.mark.parametrize("kind", ["NORMAL", "LITE"])
def test_rows_that_are_kept_are_not_read_again(kind: str) -> None:
    driver = Driver(LOOK)
    count = Count(driver)
    driver.topic("t", type=kind, read_queues=4, write_queues=4, retention_bytes=1 << 30)
    fill(driver, "t", 20_000, queues=4)
    driver.clock.run_for(3_000)
    assert count.during(10_500) == 0, "nothing came, nothing goes: nothing is read"
    fill(driver, "t", 400, queues=4)
    assert 400 <= count.during(3_000) <= 400 + 64, "what has come is read once"


@pytest.mark.parametrize("kind", ["NORMAL", "LITE"])
def test_in_the_long_run_only_trimmed_rows_are_read_again(kind: str) -> None:
    driver = Driver(LOOK)
    count = Count(driver)
    one = driver.killed()
    one.topic("t", retention_bytes=1)
    size = sure(one.append([Message("t", b"x" * 10, b"", queue_id=0), Message("t", b"x" * 10, b"", queue_id=0)]))
    each = size[1].physical_offset - size[0].physical_offset
    driver.topic("t", type=kind, read_queues=4, write_queues=4, retention_bytes=8_000 * each)
    fill(driver, "t", 10_000, queues=4)
    driver.clock.run_for(3_000)
    assert sum(end - first for first, end in (driver.bounds("t", queue) for queue in range(4))) == 8_000
    for _ in range(5):
        before = count.rows_read
        fill(driver, "t", 1_000, queues=4)
        driver.clock.run_for(1_500)
        spent = count.rows_read - before
        assert spent <= 2 * 1_000 + 4 * PIECE_ROWS, "a thousand come, a thousand go"
        assert sum(end - first for first, end in (driver.bounds("t", queue) for queue in range(4))) == 8_000


def test_after_a_start_and_after_a_long_pause_only_kept_rows_are_read() -> None:
    driver = Driver(LOOK)
    count = Count(driver)
    driver.topic("t", retention_bytes=200_000)
    fill(driver, "t", 30_000)
    spent = count.during()
    first, end = driver.bounds("t")
    assert 0 < stored_bytes(driver, "t") <= 200_000
    assert spent <= (end - first) + 4 * PIECE_ROWS, "30,000 were not counted to find out which to keep"
    for after in (driver.killed(), driver.powered_off(), driver.restarted()):
        spent = Count(after).during()
        assert after.bounds("t") == (first, end)
        assert spent <= (end - first) + 4 * PIECE_ROWS


@pytest.mark.parametrize("kind", ["NORMAL", "LITE"])
def test_a_bound_that_becomes_lower_or_higher(kind: str) -> None:
    driver = Driver(LOOK)
    count = Count(driver)
    driver.topic("t", type=kind, retention_bytes=10 << 20)
    fill(driver, "t", 20_000)
    driver.clock.run_for(2_500)
    driver.topic("t", type=kind, retention_bytes=50_000)
    spent = count.during()
    kept = stored_bytes(driver, "t")
    assert 49_000 < kept <= 50_000
    assert spent <= driver.bounds("t")[1] - driver.bounds("t")[0] + 4 * PIECE_ROWS, "20,000 go and are not looked at"
    driver.topic("t", type=kind, retention_bytes=1 << 20)
    fill(driver, "t", 3_000)
    driver.clock.run_for(1_500)
    assert driver.bounds("t")[0] < 20_000, "what was there is there still"
    assert kept < stored_bytes(driver, "t") <= 1 << 20


def test_a_long_count_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(LOOK)
    driver.topic("t", retention_bytes=1 << 30)
    fill(driver, "t", 30_000)
    after = driver.killed()
    count = Count(after)
    most: list[int] = []
    run = Turns.run

    def watched(turns: Turns, *arguments: object) -> None:
        before = count.rows_read
        run(turns, *arguments)  # type: ignore[arg-type]
        most.append(count.rows_read - before)

    monkeypatch.setattr(Turns, "run", watched)
    after.clock.run_for(1_500)
    assert sum(most) >= 30_000
    assert max(most) <= STORE_TASK_COST + PIECE_ROWS
    assert len(most) >= 30_000 // (STORE_TASK_COST + PIECE_ROWS)


def test_topics_without_a_retention_of_their_own_are_not_visited() -> None:
    driver = Driver(LOOK)
    count = Count(driver)
    for number in range(50):
        driver.topic(f"t{number}")
        fill(driver, f"t{number}", 10)
    own = driver.store.parts.index.own_retention
    assert own == {}
    driver.topic("t3", retention_bytes=100)
    driver.topic("t4", retention_ms=1_000)
    assert sorted(own) == ["t3", "t4"]
    assert count.during() < 100
    assert sorted(driver.killed().store.parts.index.own_retention) == ["t3", "t4"]
    driver.topic("t4")
    driver.call(driver.store.metadata.delete_topic, "t3")
    assert own == {}
    assert driver.killed().store.parts.index.own_retention == {}


def test_a_topic_that_is_deleted_while_it_is_counted() -> None:
    driver = Driver(LOOK)
    driver.topic("t", retention_bytes=1 << 30)
    fill(driver, "t", 30_000)
    after = driver.killed()
    core = after.store.parts
    steps = core.retention._trimming.steps(after.clock.wall_ms())
    for _ in range(3):
        next(steps)
    after.call(after.store.metadata.delete_topic, "t")
    blocks = core.index.blocks
    list(steps)
    assert core.index.blocks == blocks
    after.topic("t", retention_bytes=1 << 30)
    fill(after, "t", 3)
    after.clock.run_for(1_500)
    assert after.bounds("t") == (0, 3)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["NORMAL", "LITE"])
def test_the_newest_bytes_are_kept_under_random_changes(seed: int, kind: str) -> None:
    """Compared with a plain count; sizes, queues, kills, time and bounds change at random."""
    chance = random.Random(seed)
    driver = Driver(StoreSettings(retention_check_ms=1_000, checkpoint_ms=2_000, segment_bytes=1 << 17, tail_rows_max=64))
    bound = 60_000
    facts: dict[str, Any] = {"type": kind, "read_queues": 3, "write_queues": 3}
    driver.topic("t", retention_bytes=bound, **facts)
    sizes: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
    for _ in range(40):
        if chance.random() < 0.1:
            driver = driver.killed()
        if chance.random() < 0.1:
            bound = chance.choice([5_000, 40_000, 60_000, 90_000])
            driver.topic("t", retention_bytes=bound, **facts)
        for _ in range(chance.randrange(4)):
            messages = [
                Message("t", b"y" * chance.randrange(600), b"", queue_id=chance.randrange(3))
                for _ in range(chance.randrange(1, 60))
            ]
            for message, place in zip(messages, sure(driver.append(messages)), strict=True):
                record = driver.read("t", place.queue_offset, 1, queue_id=message.queue_id).records[0]
                assert Record(record).body == message.body
                sizes[message.queue_id].append((place.physical_offset, len(record)))
        before = {queue: driver.bounds("t", queue)[0] for queue in sizes}
        driver.clock.run_for(2_500)
        for queue, first in expected(sizes, before, bound, kind).items():
            assert driver.bounds("t", queue) == (first, len(sizes[queue])), f"seed {seed}"


def expected(sizes: dict[int, list[tuple[int, int]]], before: dict[int, int], bound: int, kind: str) -> dict[int, int]:
    """First offset of each queue when the newest bytes are kept and trimmed messages stay trimmed."""
    found = dict(before)
    used = [queue for queue in sizes if before[queue] < len(sizes[queue])]
    groups = [used] if kind == "LITE" else [[queue] for queue in used]
    for group in groups:
        left = bound if kind == "LITE" else bound // len(used)
        rows = sorted((row, queue, at) for queue in group for at, row in enumerate(sizes[queue]) if at >= before[queue])
        for at, (row, _, _) in enumerate(reversed(rows)):
            left -= row[1]
            if left < 0:
                for _, queue, offset in rows[: len(rows) - at]:
                    found[queue] = offset + 1
                break
    return found


def test_lite_queues_lose_what_their_topic_has_lost_without_being_read() -> None:
    driver = Driver(LOOK)
    driver.topic("p", type="LITE", retention_bytes=100_000)
    for number in range(20):
        fill(driver, "p", 100, name=f"n{number}")
    driver.clock.run_for(2_500)
    first, end = driver.bounds("p")
    assert end == 2_000
    kept = sum(bounds[1] - bounds[0] for bounds in (driver.bounds(f"%LMQ%$p$n{number}") for number in range(20)))
    assert 0 < kept == end - first < 1_000


def test_many_tails_are_written_out_over_many_turns() -> None:
    driver = Driver(StoreSettings(tail_rows_max=1_000, checkpoint_ms=1 << 40, checkpoint_bytes=1 << 40))
    driver.topic("t", write_queues=2_000, read_queues=2_000)
    sure(driver.append([Message("t", b"x", b"", queue_id=queue) for queue in range(2_000)]))
    index = driver.store.parts.index
    steps = index.spill()
    cost = next(steps)
    assert cost <= STORE_TASK_COST
    assert index.blocks <= 64, "one step of many"
    driver.clock.run_for(2_000)
    assert index.tail_rows <= 500
    assert [driver.bounds("t", queue) for queue in (0, 1_999)] == [(0, 1)] * 2
    assert driver.killed().bodies("t", 7) == [b"x"]


def test_index_files_are_deleted_without_being_read() -> None:
    config = StoreSettings(
        retention_ms=60_000, retention_check_ms=1_000, segment_bytes=20_000, checkpoint_ms=1_000, index_segment_bytes=2_048,
        tail_rows_max=16,
    )  # fmt: skip
    driver = Driver(config)
    driver.topic("t", write_queues=8, read_queues=8)
    for restart in range(3):
        for _ in range(12):
            sure(driver.append([Message("t", b"x" * 400, b"", queue_id=queue) for queue in range(8)] * 2))
            driver.clock.run_for(10_000)
        files = [name for name in driver.disk.files if name.startswith("index/")]
        first = driver.store.parts.segments.first
        assert first > 0
        assert len(files) < 30, restart
        index = driver.store.parts.index
        assert all(reach >= 0 for reach in index.files.last_records.positions.values())
        kept = driver.store.parts.checkpointer.last, driver.store.parts.checkpointer.older
        assert index.files.segments.first == min(point.index_first for point in kept), (
            "what neither checkpoint needs is deleted"
        )
        driver = driver.killed()
        assert driver.store.parts.index.files.last_records.positions
