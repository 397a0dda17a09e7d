"""What the store is told of deliveries: attempts before settlements, together, and again when it refuses."""

from __future__ import annotations

from collections import Counter

from domain.admin.subscription import Attempt, DeliveriesRecorded, DeliveryReport, RecordDeliveries
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.message.receipt import Receipt
from gateway.connection.client_connection import ClientConnection
from gateway.webhooks.delivery.outbox import AGAIN_NS, FLUSH_NS, HELD_MAX, NOTIFIED_MAX, DeliveryOutbox
from gateway.webhooks.internal_client import InternalClient
from tests.simulation.kit.clock import VirtualClock

MS = 1_000_000


class Store:
    """Takes commands; answers at once when it `answers`, and refuses when it `refuses`."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.commands: list[RecordDeliveries] = []
        self.refuses = False
        self.answers = True
        self.counts: Counter[str] = Counter()
        self.client = InternalClient(self, lambda: None)
        self.outbox = DeliveryOutbox(self.client, self.clock, self.counts)

    def handle(self, connection: ClientConnection, command: Command) -> None:
        assert isinstance(command, RecordDeliveries)
        self.commands.append(command)
        if not self.answers:
            return
        if self.refuses:
            connection.answer(Refused(command.ticket, Failure(ErrorCode.STORE_UNAVAILABLE, "not now")))
        else:
            connection.answer(DeliveriesRecorded(command.ticket, 0))

    def notified(self) -> list[int]:
        """Numbers of the deliveries, in the order of the commands."""
        return [each.attempts[0].number for command in self.commands for each in command.deliveries]


def delivery(number: int) -> DeliveryReport:
    receipt = Receipt(0, 0, 0, 0, 0, "b", 0, number)
    return DeliveryReport("s", 1, "closed", [Attempt(0, "m", 1, number, 204, 1, "delivered")], "g", "t", [receipt])


def test_deliveries_of_a_short_time_are_told_together() -> None:
    store = Store()
    for number in range(10):
        store.outbox.add(delivery(number))
    assert store.commands == []
    store.clock.run_for(FLUSH_NS / MS + 1)
    assert (len(store.commands), store.notified()) == (1, list(range(10)))


def test_one_that_others_wait_for_is_told_at_once_and_a_command_has_a_bound() -> None:
    store = Store()
    store.outbox.add(delivery(0), at_once=True)
    store.clock.run_for(1)
    assert store.notified() == [0]
    for number in range(NOTIFIED_MAX + 1):
        store.outbox.add(delivery(number))
    store.clock.run_for(1)
    assert [len(each.deliveries) for each in store.commands] == [1, NOTIFIED_MAX, 1]


def test_what_is_called_comes_behind_the_attempts() -> None:
    store = Store()
    seen: list[int] = []
    store.outbox.add(delivery(1))
    store.outbox.after(lambda: seen.append(len(store.commands)))
    store.clock.run_for(1)
    assert seen == [1]


def test_what_is_refused_is_told_again_and_the_oldest_are_dropped_and_counted() -> None:
    store = Store()
    store.refuses = True
    for number in range(HELD_MAX + 5):
        store.outbox.add(delivery(number))
    store.clock.run_for(FLUSH_NS / MS + 1)
    commands = len(store.commands)
    assert commands == HELD_MAX // NOTIFIED_MAX + 1
    assert +store.counts == Counter(unrecorded=5, unsettled=5)
    store.clock.run_for(AGAIN_NS / MS / 2)
    assert len(store.commands) == commands, "the store is left alone for a while"
    store.refuses = False
    store.commands.clear()
    store.clock.run_for(AGAIN_NS / MS)
    assert store.notified() == list(range(5, HELD_MAX + 5))


def test_what_was_not_answered_is_left_without_its_receipts() -> None:
    store = Store()
    store.answers = False
    store.outbox.add(delivery(1))
    store.clock.run_for(FLUSH_NS / MS + 1)
    store.outbox.add(delivery(2))
    left = store.outbox.end()
    assert [each.attempts[0].number for each in left] == [1, 2]
    other = Store()
    other.outbox.again(left)
    other.clock.run_for(AGAIN_NS / MS + 1)
    assert other.notified() == [1, 2]
    assert all(not each.receipts for command in other.commands for each in command.deliveries)
