"""Effects of a sync run to the end whatever one of them does, and a damaged record costs its own reader only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from domain.errors import ErrorCode, Failure
from domain.filter.tag import parse
from domain.message.message import Message, Placed
from domain.message.record import Record
from domain.store.store_event import StoreEventKind
from domain.store.store_ports import LeaseResult
from domain.store.store_request import LeaseRequest, LeaseTerms, PullRequest, ReadRequest
from store.settings import StoreSettings
from tests.store.driver import Driver, RecordingListener, code_of, sure

UNCACHED = StoreSettings(cache_bytes=0)


def apart(driver: Driver, *bodies: bytes, properties: bytes = b"") -> list[Placed]:
    """Send messages to t in batches of their own: damage costs the readers of its batch an error, and no others."""
    return [driver.send("t", body, properties=properties)[0] for body in bodies]


def damage(driver: Driver, place: Placed) -> None:
    """Make the record at `place` unreadable."""
    for name, content in driver.disk.files.items():
        base = int(name[4:]) if name.startswith("log/") else -1
        if 0 <= base <= place.physical_offset < base + len(content.data):
            at = place.physical_offset - base
            content.data[at : at + 8] = bytes(8)


class Raising:
    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Fail, as a bug would."""
        raise ValueError("of the listener")

    def freed(self, group: str, topic: str) -> None:
        """Fail, as a bug would."""
        raise ValueError("of the listener")


class Waiting:
    """A listener that leases what arrives, as a parked receive does."""

    def __init__(self, driver: Driver, topic: str) -> None:
        self.answers: list[LeaseResult | Failure] = []
        self._driver = driver
        self._topic = topic

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        if topic == self._topic:
            request = LeaseRequest("g", topic, 1, LeaseTerms(10_000), from_first=True)
            self._driver.store.leases.lease(request, self.answers.append)

    def freed(self, group: str, topic: str) -> None:
        """Nothing waits."""


def test_a_listener_that_raises_costs_nobody_anything() -> None:
    driver = Driver(faults=True)
    driver.topic("t")
    driver.topic("u")
    seen = RecordingListener()
    driver.store.log.listen(Raising())
    driver.store.log.listen(seen)
    answers: list[list[Placed] | Failure] = []
    for topic in ("t", "u", "t"):
        driver.store.log.append([Message(topic, b"x", queue_id=0)], answers.append)
    driver.clock.run_for(20)
    assert all(isinstance(answer, list) for answer in answers)
    assert len(answers) == 3
    assert sorted(seen.seen) == [("t", 0, 0), ("t", 0, 1), ("u", 0, 0)]
    assert (len(driver.bodies("t")), len(driver.bodies("u"))) == (2, 1)
    (first, *_) = driver.notified(StoreEventKind.FAULT)
    assert "of the listener" in first.cause
    assert driver.store.figures()["events_fault_total"] == len(driver.notified(StoreEventKind.FAULT))


@pytest.mark.parametrize("topic", ["t", "u"])
def test_an_answer_that_raises_costs_the_other_callers_nothing(topic: str) -> None:
    driver = Driver(faults=True)
    driver.topic("t")
    driver.topic("u")
    answers: list[list[Placed] | Failure] = []

    def raises(result: list[Placed] | Failure) -> None:
        raise ValueError("of the caller")

    driver.store.log.append([Message("t", b"1", queue_id=0)], raises)
    driver.store.log.append([Message(topic, b"2", queue_id=0)], answers.append)
    driver.clock.run_for(20)
    assert len(answers) == 1
    assert b"2" in driver.bodies(topic)
    assert len(driver.notified(StoreEventKind.FAULT)) == 1


def test_a_lease_answer_that_raises_costs_the_other_calls_of_the_turn_nothing() -> None:
    driver = Driver(faults=True)
    driver.topic("t")
    driver.send("t", b"a", b"b")
    answers: list[LeaseResult | Failure] = []

    def raises(result: LeaseResult | Failure) -> None:
        raise ValueError("of the caller")

    done: tuple[Callable[[LeaseResult | Failure], None], ...] = (raises, answers.append)
    for each in done:
        driver.store.leases.lease(LeaseRequest("g", "t", 1, LeaseTerms(10_000), from_first=True), each)
    driver.clock.run_for(20)
    assert len(sure(answers[0]).messages) == 1


def test_each_file_that_cannot_be_read_is_told_once() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(cache_bytes=0, segment_bytes=4_096))
    for _ in range(6):
        driver.send("t", b"x" * 1_500)
    names = [name for name in driver.disk.files if name.startswith("log/")][:2]
    driver.disk.unreadable += [(name, 0, 1 << 40) for name in names]
    for offset in (0, 0, 2, 2):
        driver.call(driver.store.log.read, ReadRequest("t", 0, offset, 1, 1 << 20, None))
    assert [event.file for event in driver.notified(StoreEventKind.UNREADABLE)] == names


def test_callers_that_a_failed_sync_refuses_all_get_their_answer() -> None:
    driver = Driver(faults=True)
    driver.topic("t")
    driver.disk.fail_syncs = True
    answers: list[list[Placed] | Failure] = []

    def raises(result: list[Placed] | Failure) -> None:
        raise ValueError("of the caller")

    driver.store.log.append([Message("t", b"1", queue_id=0)], raises)
    driver.store.log.append([Message("t", b"2", queue_id=0)], answers.append)
    driver.clock.run_for(20)
    assert isinstance(answers[0], Failure)


def test_a_parked_receive_of_an_unreadable_record_gets_an_error_and_everybody_else_goes_on() -> None:
    driver = Driver.with_topics("t", "u", config=UNCACHED)
    (place,) = driver.send("t", b"bad")
    damage(driver, place)
    waiting = Waiting(driver, "t")
    driver.store.log.listen(waiting)
    answers: list[list[Placed] | Failure] = []
    for topic in ("t", "u"):
        driver.store.log.append([Message(topic, b"good", queue_id=0)], answers.append)
    driver.clock.run_for(20)
    assert all(isinstance(answer, list) for answer in answers)
    assert len(answers) == 2
    assert driver.bodies("u") == [b"good"]
    (answer,) = waiting.answers
    assert [Record(each.record).body for each in sure(answer).messages] == [b"good"]
    assert len(driver.notified(StoreEventKind.UNREADABLE)) == 1


def test_a_lease_call_that_finds_only_an_unreadable_message_is_answered_with_an_error_each_time() -> None:
    driver = Driver(UNCACHED)
    driver.topic("t", read_queues=2, write_queues=2)
    (place,) = driver.send("t", b"bad")
    damage(driver, place)
    request = LeaseRequest("g", "t", 8, LeaseTerms(10_000), from_first=True)
    for _ in range(3):
        answer = driver.call(driver.store.leases.lease, request)
        assert code_of(answer) is ErrorCode.INTERNAL
        assert driver.lease("g", "t").messages == [], "hidden from the others for a while"
        driver.clock.run_for(30_000)
    driver.send("t", b"good", queue_id=1)
    assert [Record(each.record).body for each in driver.lease("g", "t").messages] == [b"good"]
    assert len(driver.notified(StoreEventKind.UNREADABLE)) == 1, "told once, counted each time"
    assert driver.store.figures()["events_unreadable_total"] >= 3
    driver.clock.run_for(30_000)
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == 0, "never settled by itself"


@pytest.mark.parametrize("filtered", [False, True])
def test_what_stands_around_an_unreadable_message_is_leased(filtered: bool) -> None:
    driver = Driver.with_topics("t", config=UNCACHED)
    places = apart(driver, *[b"%d" % number for number in range(6)], properties=b"TAGS\x01a\x02")
    damage(driver, places[3])
    found: list[bytes] = []
    for _ in range(3):
        leased = driver.lease("g", "t", tags=parse("a") if filtered else None)
        found += [Record(each.record).body for each in leased.messages]
        driver.settle("g", "t", *leased.messages)
    assert found == [b"0", b"1", b"2", b"4", b"5"]
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == 3


def test_nothing_overtakes_an_unreadable_message_of_an_ordered_group() -> None:
    driver = Driver.with_topics("t", config=UNCACHED)
    places = apart(driver, b"0", b"1", b"2")
    damage(driver, places[1])
    leased = driver.lease("g", "t", ordered=True)
    assert [Record(each.record).body for each in leased.messages] == [b"0"]
    driver.settle("g", "t", *leased.messages)
    for _ in range(2):
        request = LeaseRequest("g", "t", 8, LeaseTerms(1_000, ordered=True), from_first=True)
        answer = driver.call(driver.store.leases.lease, request)
        assert isinstance(answer, Failure)


def test_a_read_ends_before_an_unreadable_record_and_the_next_one_gets_the_error() -> None:
    driver = Driver.with_topics("t", config=UNCACHED)
    places = apart(driver, *[b"%d" % number for number in range(6)], properties=b"TAGS\x01a\x02")
    damage(driver, places[3])
    for tags in (None, parse("a")):
        result = driver.read("t", tags=tags)
        assert [Record(data).body for data in result.records] == [b"0", b"1", b"2"]
        assert result.next_offset == 3
        refused = driver.call(driver.store.log.read, ReadRequest("t", 0, 3, 10, 1 << 20, tags))
        assert isinstance(refused, Failure)
        assert [Record(data).body for data in driver.read("t", 4, tags=tags).records] == [b"4", b"5"]


def test_a_pull_beside_receivers_ends_before_an_unreadable_record() -> None:
    driver = Driver.with_topics("t", config=UNCACHED)
    places = apart(driver, *[b"%d" % number for number in range(4)])
    driver.lease("g", "t", limit=1, invisible_ms=600_000)
    damage(driver, places[2])

    def pull(offset: int) -> Any:
        return driver.call(driver.store.pulls.pull, PullRequest("g", "m", "", ReadRequest("t", 0, offset, 32, 1 << 20)))

    first = sure(pull(1))
    assert [Record(data).body for data in first.records] == [b"1"]
    refused = pull(first.next_offset)
    assert isinstance(refused, Failure)
    assert [Record(data).body for data in sure(pull(3)).records] == [b"3"]
