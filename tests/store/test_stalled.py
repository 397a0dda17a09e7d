"""A disk whose sync does not end, replicas that confirm nothing: after the flush timeout appends that would wait for them are
refused at once, and what waits holds up nobody."""

from __future__ import annotations

import errno

from domain.errors import ErrorCode, Failure, RetryHint
from domain.message.message import Message, Placed
from domain.store.store_event import StoreEventKind
from domain.topic.topic import Durability
from store.settings import StoreSettings
from tests.store.driver import Driver, Failing

LARGE = bytes(3_000_000)
FLUSH_MS = StoreSettings().flush_timeout_ms
PARTS_MS = FLUSH_MS // 4
"""Time between two looks at what waits."""


def refused(driver: Driver, topic: str) -> Failure | None:
    """Why an append to `topic` is refused in the turn in which it comes; None: it is not."""
    answers: list[list[Placed] | Failure] = []
    driver.store.log.append([Message(topic, b"next", queue_id=0)], answers.append)
    return answers[0] if answers and isinstance(answers[0], Failure) else None


def test_while_a_sync_does_not_end_appends_that_wait_for_it_are_refused_and_others_are_not() -> None:
    driver = Driver.with_topics("t")
    driver.topic("p", Durability.PAGE)
    driver.disk.hold_syncs = True
    answers: list[list[Placed] | Failure] = []
    driver.store.log.append([Message("t", LARGE, queue_id=0)], answers.append)
    driver.clock.run_for(FLUSH_MS - 1)
    assert driver.store.unanswered_bytes() > len(LARGE), "a slow disk slows who sends"
    assert refused(driver, "t") is None
    driver.clock.run_for(2)
    assert [answer.code for answer in answers if isinstance(answer, Failure)] == [ErrorCode.FLUSH_TIMEOUT]
    assert driver.store.unanswered_bytes() == 0
    failure = refused(driver, "t")
    assert failure is not None
    assert (failure.code, failure.retry) == (ErrorCode.STORE_UNAVAILABLE, RetryHint.LATER)
    assert "has not ended a sync" in failure.text
    assert driver.store.broken == failure
    result = driver.append([Message("p", b"page", queue_id=0)])
    assert isinstance(result, list), "the write is all that it waits for"
    driver.clock.run_for(FLUSH_MS)
    driver.disk.release()
    driver.clock.run_for(10)
    assert driver.store.broken is None
    assert len(driver.send("t", b"more")) == 1
    assert driver.bodies("t") == [LARGE, b"next", b"more"]
    assert [event.kind for event in driver.events] == [StoreEventKind.STALLED, StoreEventKind.MOVING], "one line each"
    assert driver.events[0].remedy


def test_a_slow_sync_is_no_reason_to_refuse() -> None:
    driver = Driver.with_topics("t")
    driver.disk.sync_ms = FLUSH_MS - 100
    for _ in range(3):
        assert refused(driver, "t") is None
        driver.clock.run_for(FLUSH_MS)
    assert driver.events == []


def test_while_replicas_confirm_nothing_appends_that_wait_for_them_are_refused_and_local_ones_are_not() -> None:
    driver = Driver()
    driver.topic("r", Durability.REPLICATED)
    driver.topic("t")
    commit = driver.store.parts.commit
    commit.lead()
    answers: list[list[Placed] | Failure] = []
    driver.store.log.append([Message("r", LARGE, queue_id=0)], answers.append)
    driver.clock.run_for(FLUSH_MS)
    assert driver.store.unanswered_bytes() > len(LARGE)
    driver.clock.run_for(2 * PARTS_MS + 10)
    assert [answer.code for answer in answers if isinstance(answer, Failure)] == [ErrorCode.FLUSH_TIMEOUT]
    failure = refused(driver, "r")
    assert failure is not None
    assert failure.code is ErrorCode.STORE_UNAVAILABLE
    assert "have confirmed nothing" in failure.text
    assert driver.store.unanswered_bytes() == 0
    assert isinstance(driver.append([Message("t", b"local", queue_id=0)]), list)
    commit.confirm(commit.log.written, commit.synced)
    driver.clock.run_for(10)
    assert refused(driver, "r") is None
    assert [event.kind for event in driver.events] == [StoreEventKind.STALLED, StoreEventKind.MOVING]


def test_replicas_that_confirm_slowly_are_no_reason_to_refuse() -> None:
    driver = Driver()
    driver.topic("r", Durability.REPLICATED)
    commit = driver.store.parts.commit
    commit.lead()
    written: list[int] = []
    for _ in range(10):
        assert refused(driver, "r") is None
        driver.clock.run_for(1_000)
        written.append(commit.log.written)
        if len(written) > 5:  # five seconds and more behind
            commit.confirm(written[-6], written[-6])
    assert StoreEventKind.STALLED not in [event.kind for event in driver.events]


def test_what_a_failed_write_has_left_behind_counts_for_nothing() -> None:
    driver = Driver.with_topics("t")
    Failing(driver.disk, errno.EIO)
    assert isinstance(driver.append([Message("t", LARGE, queue_id=0)]), Failure)
    driver.clock.run_for(100)
    assert driver.store.unanswered_bytes() == 0


def test_what_waits_for_a_full_disk_counts_for_nothing_while_all_else_is_refused() -> None:
    driver = Driver.with_topics("t")
    full = Failing(driver.disk)
    driver.store.log.append([Message("t", LARGE, queue_id=0)], None)
    assert driver.store.unanswered_bytes() > len(LARGE), "the disk has not said so yet"
    driver.clock.run_for(10)
    assert driver.store.unanswered_bytes() == 0
    assert refused(driver, "t") is not None
    full.room = True
    driver.clock.run_for(2_000)
    driver.send("t", b"next")
    assert driver.bodies("t") == [LARGE, b"next"]
