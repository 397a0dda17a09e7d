"""Long polls: one message wakes one parked call, in the order in which they came, and a time-out answers."""

from __future__ import annotations

from domain import limits
from domain.command import Receive
from domain.errors import Failure
from gateway.usecase.waiting.long_polls import Key, LongPolls
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.store.clock import VirtualClock

KEY: Key = ("g", "t", -1)


class Request:
    """A call that finds a message while there is stock, and logs what happens to it."""

    def __init__(self, name: str, stock: list[int], log: list[str]) -> None:
        self.connection = EventRecorder().connection
        self.command = Receive(1, "g", "t", 1, 1_000, 0)
        self.name = name
        self.stock = stock
        self.log = log

    def attempt(self) -> bool:
        if not self.stock:
            return False
        self.stock.pop()
        self.log.append(f"{self.name} served")
        return True

    def expire(self) -> None:
        self.log.append(f"{self.name} expired")

    def refuse(self, failure: Failure) -> None:
        self.log.append(f"{self.name} refused")


def parked(count: int) -> tuple[LongPolls, VirtualClock, list[int], list[str]]:
    stock: list[int] = []
    log: list[str] = []
    clock = VirtualClock()
    long_polls = LongPolls(clock)
    for number in range(count):
        request = Request(str(number), stock, log)
        assert long_polls.park(KEY, 1000 + number, request) is not None
    return long_polls, clock, stock, log


def test_one_message_wakes_the_first_call_only() -> None:
    long_polls, _, stock, log = parked(3)
    stock.append(1)
    long_polls.wake("t", 5)
    assert log == ["0 served"]
    stock += [1, 1]
    long_polls.wake("t", 5)
    assert log == ["0 served", "1 served", "2 served"]
    assert len(long_polls) == 0


def test_calls_expire_at_their_time_and_not_after_being_served() -> None:
    long_polls, clock, stock, log = parked(2)
    clock.run_for(999)
    assert log == []
    clock.run_for(1)
    assert log == ["0 expired"]
    stock.append(1)
    long_polls.wake("t", 0)
    clock.run_for(5000)
    assert log == ["0 expired", "1 served"]


def test_a_call_for_one_queue_sleeps_through_the_others() -> None:
    log: list[str] = []
    clock = VirtualClock()
    long_polls = LongPolls(clock)
    request = Request("q1", [1], log)
    long_polls.park(("g", "t", 1), 1000, request)
    long_polls.wake("t", 0)
    long_polls.wake("other", 1)
    assert log == []
    long_polls.wake("t", 1)
    assert log == ["q1 served"]


def test_freed_leases_wake_their_own_group_only() -> None:
    long_polls, _, stock, log = parked(1)
    stock.append(1)
    long_polls.wake_group("h", "t")
    assert log == []
    long_polls.wake_group("g", "t")
    assert log == ["0 served"]


def test_leaving_forgets_the_call() -> None:
    log: list[str] = []
    clock = VirtualClock()
    long_polls = LongPolls(clock)
    request = Request("gone", [1], log)
    poll = long_polls.park(KEY, 1000, request)
    assert poll is not None
    long_polls.leave(poll)
    long_polls.wake("t", 0)
    clock.run_for(2000)
    assert log == []
    assert len(long_polls) == 0


def test_the_number_of_long_polls_is_bounded() -> None:
    long_polls, _, _, _ = parked(limits.LONG_POLLS_PER_KEY_MAX)
    assert long_polls.park(KEY, 1, Request("late", [], [])) is None
    assert long_polls.park(("g2", "t", -1), 1, Request("other", [], [])) is not None
