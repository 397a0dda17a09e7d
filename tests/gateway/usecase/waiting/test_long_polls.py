"""Long polls: one message wakes one parked call, in the order in which they came, and a time-out answers."""

from __future__ import annotations

from typing import cast

import pytest

from domain import limits
from domain.command import AwaitMessages
from domain.errors import ErrorCode, Failure
from domain.event import MessagesWaiting, Refused
from domain.store.outlook import Outlook
from domain.store.store_ports import Metadata
from gateway.usecase.tools.inspect import AwaitPoll
from gateway.usecase.waiting.long_polls import LiveTails, LongPolls
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.simulation.kit.clock import VirtualClock

GONE = Failure(ErrorCode.NOT_ALLOWED, "no more")


class Stock:
    """The outlook of calls that wait: each that finds a message takes it."""

    def __init__(self) -> None:
        self.messages = 0

    def can_lease(self, group: str, topic: str, queue_id: int, ordered: bool, attempt_id: str) -> bool:
        """Outlook.can_lease."""
        found = self.messages > 0
        self.messages -= found
        return found

    def group(self, name: str) -> None:
        """Metadata.group."""


class Stage:
    """Parked calls, which log their answers by their number."""

    def __init__(self, count: int = 0, tails: LiveTails | None = None) -> None:
        self.clock = VirtualClock()
        self.long_polls = LongPolls(self.clock, tails=tails)
        self.stock = Stock()
        self.log: list[str] = []
        self.drivers: list[EventRecorder] = []
        for number in range(count):
            assert self.park(number)

    def call(self, number: int, topic: str = "t", queue_id: int = -1, group: str = "g") -> AwaitPoll:
        """A call that waits for 1,000 ms and one more for each number."""
        command = AwaitMessages(number, group, topic, queue_id, 1_000 + number)
        self.drivers.append(EventRecorder())
        outlook, metadata = cast("Outlook", self.stock), cast("Metadata", self.stock)
        return AwaitPoll(outlook, metadata, self.long_polls, self.drivers[-1].connection, command)

    def park(self, number: int, topic: str = "t", queue_id: int = -1, group: str = "g") -> bool:
        """Park a new call."""
        return self.call(number, topic, queue_id, group).park((group, topic, queue_id), 1_000 + number)

    def answers(self) -> list[str]:
        """The answers so far."""
        for driver in self.drivers:
            for event in driver.take():
                assert isinstance(event, MessagesWaiting)
                self.log.append(f"{event.ticket} {'served' if event.there else 'expired'}")
        return self.log


def test_one_message_wakes_the_first_call_only() -> None:
    stage = Stage(3)
    stage.stock.messages = 1
    stage.long_polls.wake("t", 5)
    assert stage.answers() == ["0 served"]
    stage.stock.messages = 2
    stage.long_polls.wake("t", 5)
    assert stage.answers() == ["0 served", "1 served", "2 served"]
    assert len(stage.long_polls) == 0


def test_calls_expire_at_their_time_and_not_after_being_served() -> None:
    stage = Stage(2)
    stage.clock.run_for(999)
    assert stage.answers() == []
    stage.clock.run_for(1)
    assert stage.answers() == ["0 expired"]
    stage.stock.messages = 1
    stage.long_polls.wake("t", 0)
    stage.clock.run_for(5000)
    assert stage.answers() == ["0 expired", "1 served"]


def test_a_call_for_one_queue_sleeps_through_the_others() -> None:
    stage = Stage()
    stage.park(1, queue_id=1)
    stage.stock.messages = 1
    stage.long_polls.wake("t", 0)
    stage.long_polls.wake("other", 1)
    assert stage.answers() == []
    stage.long_polls.wake("t", 1)
    assert stage.answers() == ["1 served"]


def test_freed_leases_wake_their_own_group_only() -> None:
    stage = Stage(1)
    stage.stock.messages = 1
    stage.long_polls.wake_group("h", "t")
    assert stage.answers() == []
    stage.long_polls.wake_group("g", "t")
    assert stage.answers() == ["0 served"]


def test_leaving_forgets_the_call() -> None:
    stage = Stage(1)
    stage.stock.messages = 1
    stage.drivers[0].connection.end()
    assert len(stage.long_polls) == 0
    stage.long_polls.wake("t", 0)
    stage.clock.run_for(2000)
    assert (stage.answers(), stage.stock.messages) == ([], 1)


def test_the_number_of_long_polls_is_bounded() -> None:
    stage = Stage(limits.LONG_POLLS_PER_KEY_MAX)
    assert not stage.park(1)
    assert stage.park(1, group="g2")
    stage.long_polls.parked_max = len(stage.long_polls)
    assert not stage.park(1, group="g3")


def test_a_call_is_answered_once_and_leaves_its_connection() -> None:
    stage = Stage()
    call = stage.call(1)
    call.start()
    assert stage.drivers[0].connection.on_close == [call.abandon]
    call.refuse(GONE)
    call.expire()
    call.refuse(GONE)
    assert stage.drivers[0].take() == [Refused(1, GONE)]
    assert stage.drivers[0].connection.on_close == []
    assert len(stage.long_polls) == 0


@pytest.mark.parametrize("end", ["served", "expired", "refused", "closed"])
def test_a_topic_is_tailed_until_the_call_leaves(end: str) -> None:
    interests: list[tuple[str, bool]] = []

    def begin(topic: str) -> bool:
        interests.append((topic, True))
        return True

    stage = Stage(tails=LiveTails(begin, lambda topic, begins: interests.append((topic, begins))))
    call = stage.call(0)
    assert not stage.long_polls.begin_tail(call), "it is not parked"
    call.start()
    assert stage.long_polls.begin_tail(call)
    assert interests == [("t", True)]
    if end == "served":
        stage.stock.messages = 1
        stage.long_polls.wake("t", 0)
    elif end == "expired":
        stage.clock.run_for(1_000)
    elif end == "refused":
        stage.long_polls.review(lambda _connection, _command: GONE)
    else:
        stage.drivers[0].connection.end()
    assert interests == [("t", True), ("t", False)]
    stage.clock.run_for(5_000)
    assert interests == [("t", True), ("t", False)]
