"""A full disk, or a used-up quota: writes are refused with the reason, and go on by themselves when there is room."""

from __future__ import annotations

import errno
import os

import pytest

from domain.errors import ErrorCode, Failure, RetryHint
from domain.message.message import Message, Placed
from domain.store.store_event import StoreEventKind
from domain.store.store_request import LeaseRequest, LeaseTerms
from domain.topic.topic import Durability
from store.queue.block import ROWS_MAX
from store.settings import StoreSettings
from tests.store.driver import Driver, Failing, code_of
from tests.store.test_crash import SMALL, Load, check

FULL = pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])


@FULL
@pytest.mark.parametrize("durability", [Durability.PAGE, Durability.FLUSHED])
def test_writes_are_refused_on_a_full_disk_and_go_on_when_there_is_room(number: int, durability: Durability) -> None:
    driver = Driver()
    driver.topic("t", durability)
    driver.send("t", b"0")
    full = Failing(driver.disk, number)
    first: list[list[Placed] | Failure] = []
    driver.store.log.append([Message("t", b"1", queue_id=0)], first.append)
    driver.clock.run_for(50)
    assert first == [], "it waits for room"
    refused = driver.append([Message("t", b"2", queue_id=0)])
    assert isinstance(refused, Failure)
    assert (refused.code, refused.retry) == (ErrorCode.STORE_UNAVAILABLE, RetryHint.LATER)
    assert os.strerror(number) in refused.text
    assert isinstance(
        driver.call(driver.store.leases.lease, LeaseRequest("g", "t", 8, LeaseTerms(1_000), from_first=True)), Failure
    )
    assert driver.store.broken is not None
    assert driver.bodies("t") == [b"0"], "reading goes on"
    driver.clock.run_for(6_000)
    (late,) = first
    assert code_of(late) is ErrorCode.FLUSH_TIMEOUT
    full.room = True
    driver.clock.run_for(1_100)
    assert driver.store.broken is None
    assert driver.bodies("t") == [b"0", b"1"]
    assert driver.send("t", b"3")[0].queue_offset == 2
    assert len(driver.lease("g", "t").messages) == 3
    assert [event.kind for event in driver.events] == [StoreEventKind.FULL, StoreEventKind.RESUMED], "one line each"
    assert driver.events[0].file.startswith("log/")
    assert os.strerror(number) in driver.events[0].cause
    assert driver.events[0].remedy
    assert driver.disk.read_all("room") is None, "the probe leaves nothing behind"
    driver.clock.run_for(600)
    assert driver.killed().bodies("t") == driver.powered_off().bodies("t") == [b"0", b"1", b"3"]


def test_what_waits_for_a_short_while_only_is_answered_as_usual() -> None:
    driver = Driver.with_topics("t")
    full = Failing(driver.disk)
    answers: list[list[Placed] | Failure] = []
    driver.store.log.append([Message("t", b"1", queue_id=0)], answers.append)
    driver.clock.run_for(500)
    full.room = True
    driver.clock.run_for(1_000)
    assert isinstance(answers[0], list)
    assert driver.bodies("t") == [b"1"]


def test_a_node_that_stops_while_the_disk_is_full_starts_again_with_what_it_acknowledged() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", b"0")
    Failing(driver.disk)
    driver.store.log.append([Message("t", b"1", queue_id=0)], None)
    driver.clock.run_for(50)
    ended: list[bool] = []
    driver.store.drain(lambda: ended.append(True))
    driver.clock.run_for(1)
    assert ended == [True]
    after = driver.killed()
    assert after.bodies("t") == [b"0"]
    assert after.send("t", b"1")[0].queue_offset == 1


def test_a_node_starts_on_a_full_disk_and_serves_what_it_has() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", b"0")
    driver.checkpoint()
    disk = driver.disk.killed(driver.clock)
    full = Failing(disk)
    after = Driver(driver.config, disk, driver.clock)
    after.clock.run_for(20)
    assert after.bodies("t") == [b"0"]
    assert isinstance(after.append([Message("t", b"1", queue_id=0)]), Failure)
    full.room = True
    after.clock.run_for(2_000)
    assert after.send("t", b"1")[0].queue_offset == 1


@FULL
@pytest.mark.parametrize("seed", range(3))
def test_a_disk_that_is_full_at_any_write_loses_nothing_and_needs_no_restart(number: int, seed: int) -> None:
    whole = Driver.with_topics("t", config=SMALL)
    counted = Failing(whole.disk, since=1 << 60)
    Load(whole, "t", 12, seed)
    whole.checkpoint()
    for since in range(counted.count):
        driver = Driver.with_topics("t", config=SMALL)
        full = Failing(driver.disk, number, since=since)
        load = Load(driver, "t", 12, seed)
        driver.clock.run_for(2_500)
        full.room = True
        driver.clock.run_for(2_500)
        assert driver.store.broken is None
        driver.checkpoint()
        assert driver.store.parts.checkpointer.last.serial > 0
        kinds = [event.kind for event in driver.events]
        assert kinds == [StoreEventKind.FULL, StoreEventKind.RESUMED] * (len(kinds) // 2)
        for after in (driver.killed(), driver.powered_off(), driver):
            check(after, "t", load.acknowledged)


def test_a_queue_whose_rows_find_no_room_in_the_index_goes_on() -> None:
    """512 rows of one queue are written out with the effects of their sync."""
    driver = Driver.with_topics("t")
    full = Failing(driver.disk, folder="index/")
    bodies = [b"%d" % number for number in range(2 * ROWS_MAX)]
    driver.send("t", *bodies)
    (event,) = driver.events
    assert (event.kind, event.file.partition("/")[0]) == (StoreEventKind.FULL, "index")
    assert driver.bodies("t") == bodies, "reading goes on"
    full.room = True
    driver.clock.run_for(1_100)
    driver.send("t", b"more")
    assert driver.killed().bodies("t") == [*bodies, b"more"]


def test_a_sync_that_finds_no_room_stops_the_store() -> None:
    """What a failed sync has left on the disk is unknown, whatever its error: nothing is built upon it."""
    driver = Driver.with_topics("t")
    full = Failing(driver.disk, kinds=("sync",))
    assert isinstance(driver.append([Message("t", b"1", queue_id=0)]), Failure)
    full.room = True
    driver.clock.run_for(10_000)
    assert driver.store.broken is not None
    (event,) = driver.events
    assert (event.kind, event.file.partition("/")[0]) == (StoreEventKind.STOPPED, "log")
    assert os.strerror(errno.ENOSPC) in event.cause
    assert event.remedy


@pytest.mark.parametrize("ends_first", ["full", "low"])
def test_who_is_told_of_little_room_and_of_none_hears_of_the_end_of_both(ends_first: str) -> None:
    """The volume is below its share of free space, and full: RESUMED is the last word only when neither refuses."""
    driver = Driver.with_topics("t")
    driver.disk.free = 0.01
    driver.clock.run_for(1_100)
    full = Failing(driver.disk)
    driver.store.positions.commit("g", [("t", 0, 0)], None)
    driver.clock.run_for(1_100)
    assert driver.store.broken is not None
    if ends_first == "full":
        full.room = True
    else:
        driver.disk.free = 0.5
    driver.clock.run_for(2_200)
    assert isinstance(driver.append([Message("t", b"1", queue_id=0)]), Failure)
    assert driver.events[-1].kind is StoreEventKind.FULL
    full.room, driver.disk.free = True, 0.5
    driver.clock.run_for(2_200)
    driver.send("t", b"1")
    assert driver.events[-1] == driver.notified(StoreEventKind.RESUMED)[-1]


def test_the_oldest_messages_go_before_their_time_while_there_is_little_room_and_then_no_more() -> None:
    config = StoreSettings(
        segment_bytes=4_096, checkpoint_bytes=3_000, checkpoint_ms=1_000, retention_check_ms=1_000, pressure_keep_ms=60_000
    )
    driver = Driver.with_topics("t", config=config)
    driver.topic("kept", retention_ms=30 * 24 * 3_600_000)
    for number in range(30):
        driver.send("t", b"%d" % number + b"x" * 600)
    driver.clock.run_for(10_000)
    driver.disk.free = 0.08
    driver.clock.run_for(20_000)
    assert driver.bounds("t") == (0, 30), "younger than `pressure_keep_ms`"
    driver.clock.run_for(45_000)
    first, end = driver.bounds("t")
    assert 0 < first <= end == 30
    driver.disk.free = 0.5
    driver.clock.run_for(1_100)
    driver.send("t", b"more")
    count = len(driver.notified(StoreEventKind.PRESSED))
    assert count == driver.store.figures()["retention_segments_deleted_total"] > 0, "one line for each file"
    assert driver.notified(StoreEventKind.PRESSED)[0].file == "log/00000000000000000000"
    driver.send("kept", b"mine")
    driver.clock.run_for(120_000)
    assert len(driver.notified(StoreEventKind.PRESSED)) == count, "there is room again"
    driver.disk.free = 0.08
    driver.clock.run_for(120_000)
    assert driver.bodies("kept") == [b"mine"], "a topic's own retention holds"


def test_nothing_goes_before_its_time_when_the_setting_is_off() -> None:
    config = StoreSettings(segment_bytes=4_096, retention_check_ms=1_000, pressure_keep_ms=0, pressure_ratio=0.0)
    driver = Driver.with_topics("t", config=config)
    for _ in range(30):
        driver.send("t", b"x" * 600)
    driver.disk.free = 0.06
    driver.clock.run_for(120_000)
    assert driver.bounds("t") == (0, 30)


def test_a_look_at_the_volume_that_fails_once_ends_no_later_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount that is gone for a moment: checkpoints, retention and the look for room go on afterwards."""
    driver = Driver.with_topics("t", config=StoreSettings(segment_bytes=4_096))

    def fails() -> float:
        raise OSError(errno.ESTALE, "gone")

    with monkeypatch.context() as gone:
        gone.setattr(driver.disk, "free_ratio", fails)
        with pytest.raises(OSError, match="gone"):
            driver.clock.run_for(1_500)
    driver.disk.free = 0.01
    driver.clock.run_for(1_500)
    assert len(driver.notified(StoreEventKind.FULL)) == 1
