"""Backups of an open store: what a plan lists can be copied while everything goes on, and a hold ends by itself."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Any

import pytest

from domain.errors import ErrorCode, Failure
from domain.message.message import Message
from domain.store.backup import BackupPlan
from domain.store.store_event import StoreEventKind
from domain.store.store_ports import StateChange
from store.log import promise
from store.offline import backup
from store.offline.check import Check, Severity
from store.opening.backup import HOLDS_MAX, LEASE_MS
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.platter import Content
from tests.store.driver import Driver, Failing, code_of, sure
from tests.stored_state import value_of

SMALL = StoreSettings(
    segment_bytes=4_096, index_segment_bytes=2_048, tail_rows_max=8, checkpoint_bytes=3_000, checkpoint_ms=500, cache_bytes=0,
    retention_ms=2_000, retention_check_ms=200, fresh_incarnation=77, once_window_ms=3_600_000,
)  # fmt: skip
KEPT = StoreSettings(segment_bytes=4_096, index_segment_bytes=2_048, tail_rows_max=8, checkpoint_bytes=3_000, cache_bytes=0)


def begun(driver: Driver) -> tuple[int, BackupPlan]:
    result: tuple[int, BackupPlan] | Failure = driver.call(driver.store.backups.begin)
    return sure(result)


def stuff(driver: Driver, begin: int, count: int) -> list[bytes]:
    """`count` messages with keys, each in a batch of its own; some are leased and settled."""
    bodies = [b"message %05d %s" % (number, b"x" * 100) for number in range(begin, begin + count)]
    for body in bodies:
        driver.send("t", body, properties=b"KEYS\x01key-%s\x02" % body[8:13])
    driver.settle("g", "t", *driver.lease("g", "t", limit=5).messages)
    return bodies


def copy_file(driver: Driver, copy: MemoryDisk, name: str, size: int) -> None:
    content = driver.disk.files[name].data
    assert len(content) >= size
    copy.files[name] = Content(bytes(content[:size]))


def copied(driver: Driver, plan: BackupPlan, between: Callable[[], Any] = lambda: None) -> MemoryDisk:
    """What a backup has made of a plan, file by file; `between` happens before each of them."""
    copy = MemoryDisk(VirtualClock(driver.clock.wall_ms()))
    for name, size in plan.files:
        between()
        copy_file(driver, copy, name, size)
    copy.files[backup.MARK] = Content(plan.mark)
    return copy


def serious(disk: MemoryDisk) -> list[Any]:
    found = Check(disk, lambda part, done, size: None).run()
    return [each for each in found if each.severity is not Severity.NOTE]


def reopened(disk: MemoryDisk, config: StoreSettings = KEPT) -> Driver:
    driver = Driver(config, disk)
    driver.clock.run_for(50)
    return driver


def test_a_copy_under_load_has_all_that_was_acknowledged_before() -> None:
    driver = Driver.with_topics("t", config=KEPT)
    before = stuff(driver, 0, 60)
    driver.send("t", b"later", properties=b"")
    driver.store.state.put([StateChange("n", b"k", b"v")], None)
    driver.checkpoint()
    more = stuff(driver, 60, 30)
    position = sure(driver.call(driver.store.positions.offset, "g", "t", 0))
    assert position > 0
    hold, plan = begun(driver)
    assert {name.partition("/")[0] for name, _ in plan.files} >= {"log", "checkpoint", "snapshot", "index"}
    after = 90

    def load() -> None:
        nonlocal after
        stuff(driver, after, 3)
        after += 3
        driver.clock.run_for(100)

    copy = copied(driver, plan, load)
    assert driver.store.backups.end(hold)
    assert serious(copy) == []
    found = promise.newest(copy)[1]
    assert found is not None
    assert (found.position, found.incarnation) == (plan.position, plan.incarnation)
    assert found.position == max(int(name[4:]) + len(each.data) for name, each in copy.files.items() if name.startswith("log/"))
    restored = reopened(copy)
    assert [body for body in restored.bodies("t") if body != b"later"] == [*before, *more], "and nothing that came later"
    assert restored.call(restored.store.positions.offset, "g", "t", 0) == position
    assert value_of(restored.store.state, "n", b"k") == b"v"
    assert restored.notified(StoreEventKind.REBUILT) == []
    assert restored.store.parts.recovered.cut_bytes == 0
    restored.send("t", b"goes on")
    assert restored.bodies("t")[-1] == b"goes on"


@pytest.mark.parametrize("seed", range(12))
def test_retention_and_checkpoints_delete_nothing_that_is_held(seed: int) -> None:
    chance = random.Random(seed)
    driver = Driver.with_topics("t", config=SMALL)
    stuff(driver, 0, chance.randrange(20, 90))
    driver.clock.run_for(chance.randrange(0, 1_500))
    hold, plan = begun(driver)
    first, deleted = driver.bounds("t")[0], driver.store.parts.retention.deleted
    bodies = driver.bodies("t")
    number = 100
    for _ in range(6):
        stuff(driver, number, 20)
        number += 20
        driver.clock.run_for(1_500)
        assert driver.store.backups.renew(hold)
    assert driver.store.parts.retention.deleted > deleted + 2, "what is too old is not served any more"
    assert driver.bounds("t")[0] > first
    copy = copied(driver, plan)
    assert serious(copy) == []
    assert reopened(copy).bodies("t") == bodies
    held = len(driver.disk.files)
    assert driver.store.backups.end(hold)
    assert len(driver.disk.files) < held, "what was to be deleted is gone"
    names = [int(name[4:]) for name in driver.disk.files if name.startswith("log/")]
    assert sorted(names) == [segment.base for segment in driver.store.parts.segments.all]
    driver.clock.run_for(3_000)
    assert len([name for name in driver.disk.files if name.startswith("checkpoint/")]) <= 2


def test_a_hold_ends_by_itself_and_renewals_keep_it() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    stuff(driver, 0, 60)
    hold, _ = begun(driver)
    for _ in range(5):
        driver.clock.run_for(LEASE_MS - 1_000)
        assert driver.store.backups.renew(hold)
    oldest = min(name for name in driver.disk.files if name.startswith("log/"))
    assert driver.store.parts.segments.first > int(oldest[4:]), "deleted, and held"
    driver.clock.run_for(LEASE_MS + 1_000)
    assert oldest not in driver.disk.files
    assert not driver.store.backups.renew(hold)
    assert not driver.store.backups.end(hold)


def test_holds_are_counted_and_bounded() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    stuff(driver, 0, 60)
    holds = [begun(driver)[0] for _ in range(HOLDS_MAX)]
    refused = driver.call(driver.store.backups.begin)
    assert code_of(refused) is ErrorCode.OVERLOADED
    driver.clock.run_for(5_000)
    oldest = min(name for name in driver.disk.files if name.startswith("log/"))
    for hold in holds:
        assert oldest in driver.disk.files
        assert driver.store.backups.end(hold)
    assert oldest not in driver.disk.files
    assert not isinstance(driver.call(driver.store.backups.begin), Failure)


def test_a_disk_that_does_not_answer_is_told_and_holds_nothing() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    driver.disk.hold_syncs = True
    driver.store.log.append([Message("t", b"waits", b"", queue_id=0)], lambda _: None)
    driver.clock.run_for(10)
    refused = driver.call(driver.store.backups.begin)
    assert isinstance(refused, Failure)
    assert refused.code is ErrorCode.STORE_UNAVAILABLE
    assert "disk" in refused.text
    driver.disk.release()
    driver.clock.run_for(100)
    assert not isinstance(driver.call(driver.store.backups.begin), Failure)


def test_a_store_whose_disk_has_failed_can_still_be_copied() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    bodies = stuff(driver, 0, 5)
    driver.clock.run_for(10)
    driver.disk.fail_syncs = True
    driver.append([Message("t", b"not acknowledged", b"", queue_id=0)])
    assert driver.store.broken is not None
    _, plan = begun(driver)
    copy = copied(driver, plan)
    assert serious(copy) == []
    assert reopened(copy).bodies("t") == bodies


def test_a_kill_during_a_hold_leaves_nothing_behind() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    stuff(driver, 0, 60)
    begun(driver)
    driver.clock.run_for(5_000)
    held = len([name for name in driver.disk.files if name.startswith("log/")])
    again = driver.killed()
    again.clock.run_for(5_000)
    names = sorted(int(name[4:]) for name in again.disk.files if name.startswith("log/"))
    assert len(names) < held
    assert names == [segment.base for segment in again.store.parts.segments.all]


def test_a_file_that_cannot_be_deleted_at_the_end_is_told() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    stuff(driver, 0, 60)
    hold, _ = begun(driver)
    driver.clock.run_for(5_000)
    Failing(driver.disk, errno.EIO, ("remove",))
    assert driver.store.backups.end(hold)
    assert driver.notified(StoreEventKind.LEFT)


def test_free_space_is_no_reason_to_delete_early_while_deleting_frees_none() -> None:
    config = StoreSettings(
        segment_bytes=4_096, retention_check_ms=200, pressure_keep_ms=100, cache_bytes=0, fresh_incarnation=7
    )
    driver = Driver.with_topics("t", config=config)
    stuff(driver, 0, 60)
    hold, _ = begun(driver)
    driver.disk.free = 0.07
    driver.clock.run_for(5_000)
    assert driver.store.parts.retention.deleted == 0
    driver.store.backups.end(hold)
    driver.clock.run_for(5_000)
    assert driver.store.parts.retention.deleted > 0
