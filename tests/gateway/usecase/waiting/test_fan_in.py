"""Fan-in: one call with all answers, whenever and in whatever order they come."""

from __future__ import annotations

from collections.abc import Callable

from domain.errors import ErrorCode, Failure
from gateway.usecase.waiting.fan_in import FanIn

Queue = tuple[str, int]
GONE = Failure(ErrorCode.OFFSET_NOT_FOUND, "gone")
FULL = Failure(ErrorCode.QUOTA, "full")


class Store:
    """Answers at once for known queues; the callbacks of the others are in `asked`."""

    def __init__(self, known: dict[Queue, int | Failure]) -> None:
        self.known = known
        self.asked: dict[Queue, Callable[[int | Failure], None]] = {}

    def offset(self, topic: str, queue_id: int, done: Callable[[int | Failure], None]) -> None:
        assert (topic, queue_id) not in self.asked, "asked twice"
        self.asked[topic, queue_id] = done
        if (topic, queue_id) in self.known:
            done(self.known[topic, queue_id])


class Ending:
    """Records the calls with all answers."""

    def __init__(self) -> None:
        self.notified: list[tuple[dict[Queue, int], Failure | None]] = []

    def __call__(self, found: dict[Queue, int], failure: Failure | None) -> None:
        self.notified.append((found, failure))


def test_without_places_the_call_comes_at_once() -> None:
    ending = Ending()
    FanIn(Store({}).offset, ending).start([])
    assert ending.notified == [({}, None)]


def test_answers_that_come_at_once_do_not_end_it_early() -> None:
    ending = Ending()
    FanIn(Store({("a", 0): 7, ("a", 1): 8}).offset, ending).start([("a", 0), ("a", 1)])
    assert ending.notified == [({("a", 0): 7, ("a", 1): 8}, None)]


def test_late_answers_are_told_in_the_order_of_the_places() -> None:
    store, ending = Store({("a", 1): 8}), Ending()
    FanIn(store.offset, ending).start([("a", 0), ("a", 1), ("a", 2)])
    store.asked["a", 2](9)
    assert ending.notified == []
    store.asked["a", 0](7)
    assert [list(found.items()) for found, _ in ending.notified] == [[(("a", 0), 7), (("a", 1), 8), (("a", 2), 9)]]


def test_the_first_failure_is_that_of_the_first_place() -> None:
    store, ending = Store({}), Ending()
    FanIn(store.offset, ending).start([("a", 0), ("a", 1), ("a", 2)])
    store.asked["a", 2](FULL)
    store.asked["a", 1](GONE)
    store.asked["a", 0](7)
    assert ending.notified == [({("a", 0): 7}, GONE)]


def test_a_place_named_twice_is_asked_about_once() -> None:
    ending = Ending()
    FanIn(Store({("a", 0): 7}).offset, ending).start([("a", 0), ("a", 0)])
    assert ending.notified == [({("a", 0): 7}, None)]
