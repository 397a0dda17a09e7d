"""No file descriptor is left: writes are refused with the reason and go on by themselves; what is whole is not damaged."""

from __future__ import annotations

import errno
import os

import pytest

from domain.errors import ErrorCode, Failure, RetryHint
from domain.message.message import Message
from domain.shortage import is_full, lack_of
from domain.store.store_event import StoreEventKind
from domain.store.store_request import ReadRequest
from domain.topic.topic import Durability
from store.disk_full.errors import NotWrittenError
from store.log.segment import OPEN_FILES_MAX
from store.settings import StoreSettings
from tests.store.driver import Driver
from tests.store.test_crash import SMALL, Load, check

USED_UP = pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])


def use_up(driver: Driver, number: int = errno.EMFILE) -> None:
    driver.disk.no_descriptor = number
    driver.disk.descriptors = 0


def give_back(driver: Driver) -> None:
    driver.disk.descriptors = -1


def until_refused(driver: Driver) -> Failure:
    for count in range(100):
        found = driver.append([Message("t", b"%d " % count + bytes(600), queue_id=0)])
        if isinstance(found, Failure) and found.code is ErrorCode.STORE_UNAVAILABLE:
            return found
    raise AssertionError("nothing was refused")


@USED_UP
@pytest.mark.parametrize("durability", [Durability.PAGE, Durability.FLUSHED])
def test_a_log_that_gets_no_descriptor_for_its_next_file_refuses_with_the_reason_and_goes_on(
    number: int, durability: Durability
) -> None:
    driver = Driver(StoreSettings(segment_bytes=4_096))
    driver.topic("t", durability)
    use_up(driver, number)
    refused = until_refused(driver)
    assert refused.retry is RetryHint.LATER
    assert os.strerror(number) in refused.text
    assert "file descriptor" in refused.text
    assert "disk full" not in refused.text
    before = driver.bodies("t")
    assert before, "reading goes on"
    driver.clock.run_for(3_000)
    assert driver.store.broken is not None
    give_back(driver)
    driver.clock.run_for(1_100)
    assert driver.store.broken is None
    driver.send("t", b"more")
    (full, resumed) = driver.events
    assert (full.kind, resumed.kind) == (StoreEventKind.FULL, StoreEventKind.RESUMED), "one line each"
    assert full.file.startswith("log/")
    assert "LimitNOFILE" in full.remedy
    assert "descriptor" in resumed.cause
    driver.clock.run_for(600)
    for after in (driver.killed(), driver.powered_off()):
        assert after.bodies("t")[: len(before)] == before
        assert after.bodies("t")[-1] == b"more"


@USED_UP
@pytest.mark.parametrize("seed", range(3))
def test_no_file_can_be_opened_from_any_moment_on_and_nothing_is_lost_or_needs_a_restart(number: int, seed: int) -> None:
    """The log, checkpoints, snapshots, the index, the promise mark and the probe: each opens files."""
    whole = Driver.with_topics("t", config=SMALL)
    begun = whole.disk.opens
    Load(whole, "t", 40, seed)
    whole.checkpoint()
    count = whole.disk.opens - begun
    assert count > 10
    for left in range(count):
        driver = Driver.with_topics("t", config=SMALL)
        driver.disk.no_descriptor = number
        driver.disk.descriptors = left
        load = Load(driver, "t", 40, seed)
        driver.clock.run_for(2_500)
        give_back(driver)
        driver.clock.run_for(2_500)
        assert driver.store.broken is None, left
        driver.checkpoint()
        assert driver.store.parts.checkpointer.last.serial > 0
        kinds = [event.kind for event in driver.events]
        assert kinds == [StoreEventKind.FULL, StoreEventKind.RESUMED] * (len(kinds) // 2)
        for after in (driver.killed(), driver.powered_off(), driver):
            check(after, "t", load.acknowledged)


def test_a_checkpoint_that_cannot_be_read_back_for_want_of_a_descriptor_is_written_again() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    driver.send("t", b"x" * 400)
    before = driver.store.parts.checkpointer.last.serial
    real = driver.disk.read_all
    asked: list[str] = []

    def read_all(name: str) -> bytes | None:
        asked.append(name)
        if len(asked) == 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)
        return real(name)

    driver.disk.read_all = read_all  # type: ignore[method-assign]
    driver.clock.run_for(4_000)
    assert asked[0].startswith("checkpoint/")
    assert driver.store.broken is None
    assert driver.store.parts.checkpointer.last.serial > before


def test_runs_of_keys_that_get_no_descriptor_stay_in_memory_and_are_written_later() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(checkpoint_bytes=20_000, checkpoint_ms=1_000))
    for number in range(60):
        driver.send("t", b"%d" % number + bytes(300), properties=b"KEYS\x01k%d\x02" % number)
    use_up(driver)
    driver.clock.run_for(3_000)
    assert driver.store.parts.keys.runs.all == []
    assert driver.store.broken is not None
    give_back(driver)
    driver.clock.run_for(4_000)
    assert driver.store.parts.keys.runs.all != []
    driver.send("t", b"more")


def test_a_deletion_waits_for_a_mark_that_gets_no_descriptor_and_is_carried_out_then() -> None:
    """The mark says that the log may begin later before segments go: it has to be written."""
    config = StoreSettings(
        segment_bytes=4_096, checkpoint_bytes=3_000, checkpoint_ms=1_000, retention_ms=3_000, retention_check_ms=500
    )
    driver = Driver.with_topics("t", config=config)
    for _ in range(30):
        driver.send("t", bytes(600))
    use_up(driver)
    driver.clock.run_for(10_000)
    give_back(driver)
    driver.clock.run_for(20_000)
    assert driver.store.broken is None
    assert driver.store.figures()["retention_segments_deleted_total"] > 0
    driver.send("t", b"more")


def test_what_cannot_be_opened_for_a_moment_is_not_damaged() -> None:
    """Readers, and the scrubber, of files that are closed since 64 others are open."""
    config = StoreSettings(
        segment_bytes=4_096, cache_bytes=0, tail_rows_max=16, scrub_pass_s=1, retention_check_ms=1 << 40, checkpoint_ms=1 << 30
    )
    driver = Driver.with_topics("t", config=config)
    count = OPEN_FILES_MAX + 26
    for number in range(count):
        driver.send("t", b"%d" % number + bytes(3_000))
    driver.clock.run_for(3_000)
    use_up(driver)
    found = [driver.call(driver.store.log.read, ReadRequest("t", 0, offset, 1, 1 << 20, None)) for offset in range(count)]
    assert any(isinstance(each, Failure) for each in found), "their readers get errors"
    assert "LimitNOFILE" in driver.notified(StoreEventKind.UNREADABLE)[0].remedy
    driver.clock.run_for(5_000)
    give_back(driver)
    driver.clock.run_for(5_000)
    assert driver.notified(StoreEventKind.DAMAGED) == []
    assert driver.store.figures()["log_damaged_parts"] == 0
    assert len(driver.bodies("t")) == count


def test_only_what_comes_back_by_itself_is_waited_for() -> None:
    assert [is_full(OSError(number, "")) for number in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)] == [True] * 4
    assert [is_full(OSError(number, "")) for number in (errno.EIO, errno.EROFS, errno.EBADF)] == [False] * 3
    assert lack_of(NotWrittenError(errno.ENOSPC, "")).found == "found the disk full"
