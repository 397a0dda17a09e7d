"""A receive from any queue visits the queues that may have a message, however many queues the topic has."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from domain.message.record import Record
from domain.store.store_ports import LeaseResult
from store.lease import candidates
from store.lease.candidates import QUEUES_FEW, VISITS_MAX, Candidates
from store.lease.peek import LeasePeek
from store.queue.queue import Queue, TopicEntry
from tests.store.driver import Driver

QUEUES = 500


@pytest.fixture
def visited(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The queues that lease calls visit."""
    found: list[int] = []
    take = Candidates.take

    def noted(self: Candidates) -> int:
        found.append(take(self))
        return found[-1]

    monkeypatch.setattr(Candidates, "take", noted)
    return found


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    driver.topic("t", read_queues=QUEUES, write_queues=QUEUES)
    for queue_id in range(QUEUES):
        driver.send("t", b"%d" % queue_id, queue_id=queue_id)
    return driver


def bodies(result: LeaseResult) -> list[int]:
    return [int(Record(message.record).body) for message in result.messages]


def drained(driver: Driver, ordered: bool = False) -> list[int]:
    """Receive and settle until nothing comes."""
    found: list[int] = []
    while True:
        result = driver.lease("g", "t", ordered=ordered)
        if not result.messages and not result.unfinished:
            return found
        found += bodies(result)
        driver.settle("g", "t", *result.messages)


def test_a_receive_visits_no_more_queues_than_it_takes_messages_from(driver: Driver, visited: list[int]) -> None:
    visited.clear()
    assert bodies(driver.lease("g", "t", limit=10)) == list(range(10))
    assert visited == list(range(10))
    assert bodies(driver.lease("g", "t", limit=10)) == list(range(10, 20)), "each queue in turn"


@pytest.mark.parametrize("ordered", [False, True])
def test_queues_without_messages_are_not_visited_again(driver: Driver, visited: list[int], ordered: bool) -> None:
    assert sorted(drained(driver, ordered)) == list(range(QUEUES))
    visited.clear()
    assert driver.lease("g", "t", ordered=ordered).messages == []
    assert len(visited) == 0
    driver.send("t", b"7", queue_id=7)
    assert bodies(driver.lease("g", "t", ordered=ordered)) == [7]
    assert visited == [7]


def test_what_becomes_free_again_is_found(driver: Driver) -> None:
    drained(driver)
    for queue_id in (3, 5, 9):
        driver.send("t", b"%d" % queue_id, queue_id=queue_id)
    first = driver.lease("g", "t", invisible_ms=1_000)
    assert bodies(first) == [3, 5, 9]
    assert driver.lease("g", "t").messages == []
    driver.store.leases.withdraw("g", "t", [first.messages[0].receipt])
    assert bodies(driver.lease("g", "t")) == [3]
    driver.call(driver.store.leases.extend, "g", "t", [first.messages[1].receipt], 0)
    driver.clock.run_for(10)
    assert bodies(driver.lease("g", "t")) == [5]
    driver.clock.run_for(1_000)
    assert bodies(driver.lease("g", "t")) == [9]
    driver.call(driver.store.positions.reset, "g", [("t", 11, 0)])
    assert bodies(driver.lease("g", "t")) == [11]


def test_a_blocked_queue_of_an_ordered_group_is_found_when_it_is_settled(driver: Driver) -> None:
    drained(driver, True)
    driver.send("t", b"1", b"2", queue_id=4)
    first = driver.lease("g", "t", limit=1, ordered=True)
    assert driver.lease("g", "t", ordered=True).messages == []
    driver.settle("g", "t", *first.messages)
    assert bodies(driver.lease("g", "t", ordered=True)) == [2]


def test_one_receive_visits_a_bounded_number_of_queues_and_says_that_it_has_not_ended(
    driver: Driver, visited: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        driver.lease("g", "t", limit=QUEUES, invisible_ms=60_000)
    driver = driver.killed()
    monkeypatch.setattr(candidates, "VISITS_MAX", 50)
    driver.send("t", b"1", queue_id=QUEUES - 1)
    visited.clear()
    calls = 0
    while not (result := driver.lease("g", "t")).messages:
        assert result.unfinished
        calls += 1
        assert len(visited) <= 50 * calls
    assert (calls, bodies(result)) == (QUEUES // 50 - 1, [1])


def test_a_topic_or_group_that_is_made_again_begins_anew(driver: Driver) -> None:
    drained(driver)
    driver.call(driver.store.positions.drop_group, "g")
    assert len(drained(driver)) == QUEUES
    driver.call(driver.store.metadata.delete_topic, "t")
    driver.topic("t", read_queues=QUEUES, write_queues=QUEUES)
    for queue_id in range(QUEUES_FEW + 1):
        driver.send("t", b"%d" % queue_id, queue_id=queue_id)
    assert len(drained(driver)) == QUEUES_FEW + 1


@pytest.mark.parametrize("seed", range(3))
def test_every_message_of_many_queues_is_received_once_it_is_free(seed: int) -> None:
    chance = random.Random(seed)
    driver = Driver()
    driver.topic("t", read_queues=40, write_queues=40)
    sent, settled = 0, 0
    for _ in range(300):
        act = chance.random()
        if act < 0.5:
            driver.send("t", b"%d" % sent, queue_id=chance.randrange(40))
            sent += 1
        elif act < 0.9:
            result = driver.lease("g", "t", limit=chance.choice((1, 4, 32)), invisible_ms=chance.choice((50, 5_000)))
            for message in result.messages:
                if chance.random() < 0.7:
                    settled += driver.settle("g", "t", message) == [None]
        elif act < 0.95:
            driver.clock.run_for(chance.choice((10, 100)))
        else:
            driver = driver.killed()
    driver.clock.run_for(6_000)
    assert settled + len(drained(driver)) == sent


def entry_of(ids: list[int]) -> TopicEntry:
    entry = TopicEntry("t", False, 0)
    for queue_id in ids:
        entry.queues[queue_id] = Queue(entry, queue_id, 0)
    return entry


def taken(found: Candidates) -> list[int]:
    """All candidates that are a queue, in the order of visits."""
    return [queue_id for queue_id in iter(found.take, -1) if queue_id in found.entry.queues]


def test_the_first_receive_makes_nothing_for_each_queue_of_a_large_topic() -> None:
    entry = entry_of(list(range(20_000)))
    tracemalloc.start()
    found = Candidates(entry)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 10_000
    assert len(found) == 20_000
    assert found.first(3) == [0, 1, 2]
    assert taken(found) == list(range(20_000))


@pytest.mark.parametrize("ids", [[7, 3, 1_000_000, 5], [2, 0, 3, 5]], ids=["sparse", "dense"])
def test_queues_are_visited_in_the_order_of_their_ids_whatever_these_are(ids: list[int]) -> None:
    assert len(found := Candidates(entry_of(ids))) <= 2 * len(ids)
    assert taken(found) == sorted(ids)


def test_a_queue_is_a_candidate_once_whether_it_was_visited_or_not() -> None:
    found = Candidates(entry_of([0, 1, 2, 3]))
    assert found.take() == 0
    for queue_id in (0, 2, 0):
        found.add(queue_id)
    assert found.first(10) == [1, 2, 3, 0]
    assert found.first(2) == [1, 2]
    assert (len(found), taken(found)) == (4, [1, 2, 3, 0])


def test_whether_there_is_something_is_asked_of_a_bounded_number_of_queues(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    drained(driver)
    driver = driver.killed()  # all queues are candidates again, and all are empty
    asked: list[int] = []
    can_lease = LeasePeek._can_lease

    def noted(self: LeasePeek, group: str, queue: Queue, call: object) -> bool:
        asked.append(queue.id)
        return can_lease(self, group, queue, call)  # type: ignore[arg-type]

    monkeypatch.setattr(LeasePeek, "_can_lease", noted)
    rounds = 0
    while driver.store.outlook.can_lease("g", "t", -1, False, ""):
        assert len(asked) <= VISITS_MAX
        asked.clear()
        assert driver.lease("g", "t").messages == []
        rounds += 1
    assert 0 < rounds <= QUEUES // VISITS_MAX + 1
