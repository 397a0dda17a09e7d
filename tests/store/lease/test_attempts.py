"""A receive that is repeated with its attempt id, because its answer was lost, gets the same messages again."""

from __future__ import annotations

import pytest

from domain.message.record import Record
from domain.store.store_ports import LeaseResult
from store.lease import attempts
from store.lease.attempts import Attempts
from store.lease.table import ATTEMPTS_UNORDERED_MAX, LeaseTable
from tests.store.driver import Driver


def bodies(result: LeaseResult) -> list[str]:
    return sorted(Record(message.record).body.decode() for message in result.messages)


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    driver.topic("t", read_queues=3, write_queues=3)
    for at in range(6):
        driver.send("t", b"m%d" % at, queue_id=at % 3)
    return driver


@pytest.mark.parametrize("kill", [False, True])
def test_a_repeated_attempt_gets_its_messages_of_all_queues_and_no_others(driver: Driver, kill: bool) -> None:
    first = driver.lease("g", "t", limit=3, attempt_id="one")
    other = driver.lease("g", "t", limit=2, attempt_id="two")
    if kill:
        driver = driver.killed()
    again = driver.lease("g", "t", limit=3, attempt_id="one")
    assert bodies(again) == bodies(first)
    assert [message.attempt for message in again.messages] == [1, 1, 1]
    assert bodies(driver.lease("g", "t", limit=1, attempt_id="two")) == bodies(other)
    rest = driver.lease("g", "t", attempt_id="three")
    assert len(rest.messages) == 1
    assert set(bodies(first) + bodies(other) + bodies(rest)) == {f"m{at}" for at in range(6)}


@pytest.mark.parametrize("ordered", [False, True])
def test_receipts_of_the_lost_answer_are_expired_and_those_of_the_repetition_settle(driver: Driver, ordered: bool) -> None:
    lost = driver.lease("g", "t", limit=6, attempt_id="one", ordered=ordered)
    again = driver.lease("g", "t", limit=6, attempt_id="one", ordered=ordered)
    assert None not in driver.settle("g", "t", *lost.messages)
    assert driver.settle("g", "t", *again.messages) == [None] * 6
    assert driver.lease("g", "t", attempt_id="one").messages == []


def test_an_attempt_on_one_queue_leaves_the_others_alone(driver: Driver) -> None:
    driver.lease("g", "t", queue_id=0, attempt_id="one")
    driver.lease("g", "t", queue_id=1, attempt_id="one")
    assert bodies(driver.lease("g", "t", queue_id=0, attempt_id="one")) == ["m0", "m3"]
    assert bodies(driver.lease("g", "t", queue_id=2, attempt_id="one")) == ["m2", "m5"]


def test_a_message_whose_lease_has_ended_is_delivered_again_and_counted(driver: Driver) -> None:
    driver.lease("g", "t", queue_id=0, attempt_id="one", invisible_ms=1_000)
    driver.clock.run_for(2_000)
    again = driver.lease("g", "t", queue_id=0, attempt_id="one")
    assert [message.attempt for message in again.messages] == [2, 2]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_withdrawn_message_counts_as_delivered_once_when_its_attempt_is_repeated(driver: Driver, ordered: bool) -> None:
    first = driver.lease("g", "t", limit=1, queue_id=0, attempt_id="one", ordered=ordered)
    driver.store.leases.withdraw("g", "t", [message.receipt for message in first.messages])
    again = driver.lease("g", "t", limit=1, queue_id=0, attempt_id="one", ordered=ordered)
    assert [message.attempt for message in again.messages] == [1]


def test_a_poll_that_found_nothing_may_find_something_with_the_same_attempt(driver: Driver) -> None:
    driver.lease("g", "t", attempt_id="one")
    assert driver.lease("g", "t", attempt_id="two").messages == []
    driver.send("t", b"m6")
    assert bodies(driver.lease("g", "t", attempt_id="two")) == ["m6"]


def test_a_waiting_receive_is_told_that_its_attempt_holds_messages(driver: Driver) -> None:
    driver.lease("g", "t", attempt_id="one")
    assert driver.store.outlook.can_lease("g", "t", -1, False, "one")
    assert not driver.store.outlook.can_lease("g", "t", -1, False, "two")


def test_each_journal_value_of_an_unordered_table_holds_new_attempts_only(driver: Driver) -> None:
    for at in range(200):
        driver.send("t", b"x", queue_id=0)
        driver.lease("g", "t", limit=1, queue_id=0, attempt_id=f"attempt-{at:030d}")
    written = driver.store.parts.commit.written
    driver.lease("g", "t", limit=1, queue_id=0, attempt_id="one")
    assert driver.store.parts.commit.written - written < 600
    driver = driver.killed()
    assert len(driver.lease("g", "t", limit=1, queue_id=0, attempt_id=f"attempt-{150:030d}").messages) == 1


def test_attempts_of_a_table_are_bounded_and_forgotten_when_all_is_settled() -> None:
    table = LeaseTable("g", "t", 0, 0)
    for at in range(ATTEMPTS_UNORDERED_MAX + 1):
        table.lease(at, 1_000 + at, 9_000)
        table.remember_attempt(str(at))
    assert len(table.attempt_pops) == ATTEMPTS_UNORDERED_MAX
    assert table.held_by("0") == []
    assert table.held_by("1") == [1]
    table.commit(table.head)
    assert table.attempt_pops == {}


def test_attempts_in_all_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "ATTEMPTS_IN_ALL_MAX", 3)
    known = Attempts()
    table = LeaseTable("g", "t", 7, 0)
    for name in "abcd":
        known.add(table, name)
    assert len(known) == 3
    assert known.queues("g", "t", "a") == []
    assert known.queues("g", "t", "d") == [7]
