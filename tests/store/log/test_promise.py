"""The promise mark: the newest whole one counts, a torn write leaves the one before it, and it stays close behind the log."""

from __future__ import annotations

import pytest

from store.log import promise
from store.log.promise import Promise, PromiseMark
from store.settings import StoreSettings
from tests.simulation.kit.clock import START_MS, VirtualClock
from tests.simulation.kit.disk import MemoryDisk, Operation
from tests.store.driver import Driver

FIRST = Promise(100, 0, 77, 0, 5)


def made() -> tuple[MemoryDisk, VirtualClock, PromiseMark, list[str]]:
    clock = VirtualClock(START_MS)
    disk = MemoryDisk(clock)
    stopped: list[str] = []
    mark = PromiseMark(disk, clock, lambda what, error: stopped.append(what))
    mark.begin(FIRST)
    return disk, clock, mark, stopped


def test_a_mark_is_read_as_it_was_written() -> None:
    disk, *_ = made()
    assert promise.newest(disk) == (1, FIRST, 0)
    promise.write(disk, FIRST._replace(position=50))
    assert promise.newest(disk) == (2, FIRST._replace(position=50), 1), "the newer one counts, not the higher one"


def test_marks_follow_the_syncs_within_the_interval_and_not_one_by_one() -> None:
    disk, clock, mark, _ = made()
    for position in range(200, 1_200, 10):
        mark.synced(position, 9, 0)
        clock.run_for(6)
    clock.run_for(promise.INTERVAL_MS + 2)
    assert promise.newest(disk)[1] == Promise(1_190, 0, 77, 0, 9)
    assert disk.syncs == 2, "one mark at 400 ms, one for the rest"
    clock.run_for(5_000)
    assert disk.syncs == 2, "nothing new, no mark"


def test_a_new_segment_is_marked_at_once() -> None:
    disk, clock, mark, _ = made()
    mark.synced(200, 9, 150)
    clock.run_for(2)
    found = promise.newest(disk)[1]
    assert found is not None
    assert found.position == 200


@pytest.mark.parametrize("keep", [0, 1, 40, 79])
def test_a_torn_mark_leaves_the_one_before_it(keep: int) -> None:
    disk, clock, mark, _ = made()
    for number in range(1, 120):
        sizes = {name: len(content.data) for name, content in disk.files.items()}
        mark.synced(100 + number, 9, 100 + number)
        clock.run_for(2)
        torn = disk.killed(clock)
        (grown,) = [name for name, content in torn.files.items() if len(content.data) != sizes.get(name)]
        before = len(torn.files[grown].data) - promise.MARK_BYTES
        del torn.files[grown].data[before + keep :]
        found = promise.newest(torn)[1]
        assert found is not None
        assert found.position == 100 + number - 1
        assert promise.newest(disk)[1] == mark.promise
        assert len(torn.files[grown].data) < 4_096


def test_a_full_volume_delays_marks_but_not_the_one_that_lets_retention_delete() -> None:
    disk, clock, mark, stopped = made()
    for number in range(1, 30):
        mark.synced(100 + number, 9, 100 + number)
        clock.run_for(2)
    while len(disk.files[f"promise/{mark._which}"].data) < 25 * promise.MARK_BYTES:
        mark.synced(mark.promise.position + 1, 9, mark.promise.position + 1)
        clock.run_for(2)

    def full(operation: Operation) -> None:
        if operation.kind == "append" and len(disk.files[operation.name].data) == 0:
            raise OSError(28, "No space left on device")

    disk.watch = full
    before = mark.promise
    mark.synced(9_000, 9, 9_000)
    clock.run_for(2)
    assert (promise.newest(disk)[1], stopped) == (before, [])
    done: list[bool] = []
    mark.raise_first(500, lambda: done.append(True))
    clock.run_for(2)
    found = promise.newest(disk)[1]
    assert found is not None
    assert (found.first, done) == (500, [True])
    disk.watch = None
    mark.synced(9_500, 9, 9_000)
    clock.run_for(promise.INTERVAL_MS + 5)
    assert mark.promise.position == 9_500


def test_a_failed_sync_of_the_mark_stops_the_store() -> None:
    disk, clock, mark, stopped = made()
    disk.fail_syncs = True
    mark.synced(200, 9, 0)
    clock.run_for(1_000)
    assert stopped == ["a sync of the promise mark"]
    assert mark.promise == FIRST


def test_the_mark_of_a_store_reaches_its_end_after_a_clean_stop() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(fresh_incarnation=1234))
    driver.send("t", *[b"x" * 100] * 50)
    driver.clock.run_for(500)
    found = promise.newest(driver.disk)[1]
    assert found is not None
    assert (found.position, found.incarnation) == (driver.store.parts.segments.end, 1234)
    driver.send("t", b"last")
    after = driver.restarted()
    found = promise.newest(driver.disk)[1]
    assert found is not None
    assert found.position == driver.store.parts.segments.end
    assert after.store.figures()["recovered_copied_bytes"] == 0
    assert after.store.parts.commit.log.writer.incarnation == 1234, "the same log"


def test_retention_raises_the_first_position_before_it_deletes() -> None:
    config = StoreSettings(segment_bytes=4_096, retention_ms=60_000, retention_check_ms=1_000, checkpoint_ms=1_000)
    driver = Driver.with_topics("t", config=config)
    seen: list[tuple[int, int]] = []

    def poll(operation: Operation) -> None:
        if operation.kind == "remove" and operation.name.startswith("log/"):
            found = promise.newest(driver.disk)[1]
            assert found is not None
            seen.append((int(operation.name[4:]), found.first))

    for _ in range(30):
        driver.send("t", b"x" * 500)
    driver.disk.watch = poll
    driver.clock.run_for(120_000)
    assert seen
    assert all(removed < first for removed, first in seen)
    driver.disk.watch = None
    assert driver.killed().store.parts.segments.first == driver.store.parts.segments.first > 0
