"""The table of topics, queues and idle lease tables in a checkpoint: a start finds by it what the log and the index hold."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from domain.store.store_event import StoreEventKind
from domain.topic import lite
from domain.topic.topic import Topic
from store.checkpoint import checkpointer, columns
from store.queue import block, table
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.store import version1
from tests.store.driver import Driver
from tests.store.lease.test_lite_queues import send as send_lite

CONFIG = StoreSettings(
    segment_bytes=32_768, index_segment_bytes=4_096, tail_rows_max=32, checkpoint_bytes=1 << 40, checkpoint_ms=1 << 40,
    cache_bytes=0,
)  # fmt: skip
BEFORE = Path(__file__).parents[1] / "data" / "checkpoint1.tar.gz"
"""A directory whose checkpoints have no table, as the code of commit 0a51304 left it after a kill."""


def content(driver: Driver) -> dict[str, Any]:
    """All that can be read of topics, queues and positions."""
    driver.clock.run_for(10)
    index = driver.store.parts.index
    found: dict[str, Any] = {"topics": driver.store.metadata.topics()}
    for entry in index.topics.values():
        for queue in entry.all_queues():
            first, end = driver.bounds(queue.name, queue.id)
            rows = index.rows(queue, first, end - first)
            found[f"{queue.name} {queue.id}"] = (first, end, rows, queue.last_position())
    for place in sorted(driver.store.parts.ledger.tables.places()):
        found[" ".join(map(str, place))] = driver.store.parts.ledger.tables.floor(place)
    return found


def heads_read(driver: Driver, patch: pytest.MonkeyPatch) -> tuple[Driver, int]:
    """(a start after a kill, heads of index blocks that it has read)."""
    count = 0
    header = block.header

    def counted(data: bytes) -> block.Block | None:
        nonlocal count
        count += 1
        return header(data)

    with patch.context() as patched:
        patched.setattr(block, "header", counted)
        return driver.killed(), count


def test_a_start_reads_the_heads_of_those_blocks_that_are_newer_than_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(CONFIG)
    for number in range(300):
        driver.topic(f"t{number}")
        driver.send(f"t{number}", b"1")
    driver.checkpoint()
    before = content(driver)
    after, count = heads_read(driver, monkeypatch)
    assert count <= 10
    assert content(after) == before
    for number in range(5):
        after.send(f"t{number}", b"2")
    after.checkpoint()
    again, count = heads_read(after, monkeypatch)
    assert count <= 20
    assert content(again) == content(after) == content(after.killed_to_its_log())


@pytest.mark.parametrize("seed", range(8))
def test_what_changes_while_the_table_is_written_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two slices of the snapshot messages arrive, blocks merge, topics go and come, positions move."""
    monkeypatch.setattr(checkpointer, "SLICE_ITEMS", 1)
    monkeypatch.setattr(table, "ROWS_MAX", 2)
    chance = random.Random(seed)
    driver = Driver(CONFIG)
    names = [f"t{number}" for number in range(12)]
    for name in names:
        driver.topic(name, read_queues=3, write_queues=3, created_ms=chance.randrange(3))
    driver.topic("p", type="LITE")

    def change() -> None:
        name = chance.choice(names)
        what = chance.randrange(12)
        if driver.store.metadata.topic(name) is None:
            driver.topic(name, read_queues=3, write_queues=3, created_ms=chance.randrange(9))
        elif what == 0:
            assert driver.call(driver.store.metadata.delete_topic, name) is None
        elif what == 1:
            driver.store.positions.commit(f"g{chance.randrange(3)}", [(name, chance.randrange(3), chance.randrange(4))], None)
        elif what == 2:
            send_lite(driver, f"l{chance.randrange(4)}", "x")
        elif what == 3:
            got = driver.lease("g0", name, limit=4).messages
            driver.settle("g0", name, *got[: chance.randrange(5)])
        else:
            driver.send(name, *[b"x"] * chance.randrange(1, 30), queue_id=chance.randrange(3))

    for _ in range(4):
        for _ in range(60):
            change()
        driver.clock.run_for(chance.choice((5, 40_000)))
        ended: list[bool] = []
        driver.store.parts.checkpointer.begin(True, lambda ended=ended: ended.append(True))  # type: ignore[misc]
        while not ended:
            driver.clock.run_for(1)
            if chance.random() < 0.5:
                change()
        for _ in range(chance.randrange(20)):
            change()
        driver.clock.run_for(2_000)
        before = content(driver)
        assert content(driver.killed_to_its_log()) == before
        driver = driver.killed()
        assert driver.notified(StoreEventKind.REBUILT) == []
        assert content(driver) == before


def test_a_directory_with_checkpoints_of_the_version_before_opens_from_them() -> None:
    driver = Driver(CONFIG, version1.disk(BEFORE, 1_700_000_032_085))
    driver.clock.run_for(10)
    assert driver.notified(StoreEventKind.REBUILT) == []
    assert (driver.store.parts.checkpointer.last.serial, driver.store.parts.checkpointer.last.table) == (3, 0)
    before = content(driver)
    assert content(driver.killed_to_its_log()) == before
    assert driver.bodies("t03") == [b"3-0", b"3-1", b"3-2", b"3-3"]
    assert driver.bodies("t05") == [b"new"]
    assert driver.bodies("t14")[-1] == b"late"
    assert driver.bodies("wide") == [b"w%d" % number for number in range(40)] + [b"last"]
    assert driver.bodies(lite.queue_name("p", "room")) == [b"a", b"b"]
    assert driver.store.metadata.topic("t07") is None
    assert driver.store.metadata.topic("t04") == Topic("t04", 1, 1, attributes={"n": "1"}, created_ms=1_004)
    assert driver.call(driver.store.positions.offset, "g", "t06", 0) == 3
    driver.checkpoint()
    again = driver.killed()
    assert again.store.parts.checkpointer.last.table > 0
    assert content(again) == before


def test_a_topic_is_its_shared_configuration_its_name_and_its_time() -> None:
    driver = Driver(CONFIG)
    odd = {"a": 'say "created_ms":5, or {"created_ms":6}', "created_ms": "7"}
    for number in range(40):
        driver.topic(f"t{number}", created_ms=number, attributes=odd if number % 2 else {})
    driver.topic("plain")
    entries = driver.store.parts.index.topics
    assert len({id(entries[f"t{number}"].settings) for number in range(1, 40)}) == 2
    driver.checkpoint()
    for found in (driver, driver.killed(), driver.killed_to_its_log()):
        assert found.store.metadata.topic("t7") == Topic("t7", 1, 1, attributes=odd, created_ms=7)
        assert found.store.metadata.topic("t0") == Topic("t0", 1, 1)
        assert found.store.metadata.topic("plain") == Topic("plain", 1, 1)
        assert found.store.metadata.topic_names() == sorted([*(f"t{number}" for number in range(40)), "plain"])


def test_a_queue_with_its_topic_and_position_costs_at_most_a_kilobyte() -> None:
    """The objects of the compiled build are smaller; what this counts is that nothing else is kept for each queue."""
    import gc
    import tracemalloc

    driver = Driver(StoreSettings(cache_bytes=0, checkpoint_bytes=1 << 40, checkpoint_ms=1 << 40))
    count = 400
    for number in range(count):
        driver.topic(f"device-{number:07d}", created_ms=1_700_000_000_000 + number)
        driver.send(f"device-{number:07d}", b"x")
        driver.settle("readers", f"device-{number:07d}", *driver.lease("readers", f"device-{number:07d}").messages)
    driver.clock.run_for(32_000)
    driver.checkpoint()
    disk = driver.disk.killed(VirtualClock(driver.clock.wall_ms()))
    gc.collect()
    tracemalloc.start()
    try:
        after = Driver(driver.config, disk)
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(after.store.parts.ledger.tables) == count
    # 64 dictionaries of topics, the parts of the store: what does not grow with the queues.
    assert (used - 100_000) / count < 1_000


@pytest.mark.parametrize(
    "values", [[], [0], [255], [256], [65_535, 1], [65_536], [1 << 32], [-1, 5], [(1 << 62), 0], list(range(300))]
)
def test_columns_come_back_as_they_were(values: list[int]) -> None:
    names = [b"a", b"", b"\x00b", "\N{GREEK SMALL LETTER PI}".encode()]
    reader = columns.ColumnReader(columns.pack(values) + columns.pack_names(names) + columns.pack([7]))
    assert list(reader.integers()) == values
    assert reader.names() == names
    assert list(reader.integers()) == [7]
