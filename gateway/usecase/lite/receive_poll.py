"""One ReceiveLite command: it leases from the lite topics of a client that are ready for it."""

from __future__ import annotations

from itertools import islice
from typing import Final, final

from domain.errors import Failure
from domain.event import Event, Leased, Received
from domain.message.record import Record
from domain.store.store_ports import LeaseResult
from domain.topic import lite
from domain.topic.lite import LiteLeaseResult, LiteQueues, ReceiveLite
from domain.topic.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.leasing_call import LeasingCall, LeasingContext
from gateway.usecase.lite.subscriptions import LiteSubscriber, Subscriptions
from gateway.usecase.waiting.long_polls import Key, LongPolls

NAMES_PER_ATTEMPT_MAX: Final = 256
"""Lite topics that one attempt of a poll reads."""
POLLS_MAX: Final = 64
"""Polls of one client that may be parked."""


@final
class LiteReceiveContext:
    """The collaborators of all polls of lite topics.

    queues          the queues of lite topics, which lease messages
    subscriptions   the lite topics of each client, and which of them may have messages
    polls           the polls that wait, by group and client
    """

    __slots__ = ("leasing", "polls", "queues", "subscriptions")

    def __init__(self, leasing: LeasingContext, queues: LiteQueues, subscriptions: Subscriptions) -> None:
        self.leasing = leasing
        self.queues = queues
        self.subscriptions = subscriptions
        self.polls = LongPolls(leasing.clock, POLLS_MAX)


def client_key(group: str, client_id: str) -> Key:
    """The key under which the polls of a client wait."""
    return group, client_id, 0


@final
class LitePoll(LeasingCall[ReceiveLite]):
    """A call that leases from lite topics, each of which is delivered in order.

    _taken       the lite topics that the attempt reads
    """

    __slots__ = ("_receiving", "_taken")

    def __init__(
        self, receiving: LiteReceiveContext, connection: ClientConnection, command: ReceiveLite, group: Group
    ) -> None:  # fmt: skip
        super().__init__(receiving.leasing, receiving.polls, connection, command, group, ordered=True)
        self._receiving = receiving
        self._taken: list[str] = []

    def parking_key(self) -> Key:
        """A poll waits for the lite topics of its client."""
        return client_key(self.command.group, self.command.client_id)

    def full(self) -> str:
        """The text of POLLING_FULL."""
        return f"too many requests of client {self.command.client_id} wait"

    def queue_of(self, message: Leased) -> str:
        """The lite queue of a message."""
        return lite.queue_name(self.command.topic, lite.name_in(Record(message.record).properties))

    def begin(self) -> None:
        """Lease at once when no lite topic of the client has messages, else when this turn may read more."""
        if self._ready_subscriber() is None:
            self.lease()
        else:
            self.in_turn(self.context.reads, self.lease_in_turn)

    def attempt(self) -> bool:
        """Lease again, in turn: one message may be for thousands of subscribers."""
        if self._ready_subscriber() is None:
            return False
        reads = self.context.reads
        if reads.crowded:
            reads.add(self.connection, self.lease_in_turn)
            return True
        reads.expect(self.connection.host)
        return super().attempt()

    def lease_messages(self) -> None:
        """Lease messages of the lite topics that are ready for the client.

        A lite topic that was read is ready again when a message arrives in it or a lease of it ends.
        """
        command = self.command
        subscriber = self._ready_subscriber()
        if subscriber is None:
            self.complete(LeaseResult([], self.context.clock.wall_ms(), 0))
            return
        taken = self._taken = list(islice(subscriber.ready, NAMES_PER_ATTEMPT_MAX))
        for name in taken:
            del subscriber.ready[name]
        self._receiving.queues.lease(
            command.group, command.topic, taken, command.limit, command.invisible_ms, command.attempt_id, self._leased
        )

    def _subscriber(self) -> LiteSubscriber | None:
        return self._receiving.subscriptions.find(self.command.group, self.command.client_id)

    def _ready_subscriber(self) -> LiteSubscriber | None:
        """The subscriber, when it has lite topics that may have messages."""
        subscriber = self._subscriber()
        return subscriber if subscriber is not None and subscriber.topic == self.command.topic and subscriber.ready else None

    def _leased(self, result: LiteLeaseResult | Failure) -> None:
        """Take the messages leased by the attempt. Lite topics that it did not read are ready again, before all others."""
        subscriber = self._subscriber()
        read = 0 if isinstance(result, Failure) else result.looked
        if subscriber is not None and read < len(self._taken):
            rest = dict.fromkeys(self._taken[read:])
            rest.update(subscriber.ready)
            subscriber.ready.clear()
            subscriber.ready.update(rest)
        if isinstance(result, Failure):
            self.refuse(result)
        else:
            self.complete(LeaseResult(result.messages, result.pop_ms, 0, self._ready_subscriber() is not None))

    def answer(self, event: Event) -> None:
        """Give the answer, and note when the client received messages."""
        if isinstance(event, Received) and event.messages:
            subscriber = self._subscriber()
            if subscriber is not None:
                subscriber.received_ms = event.pop_ms
        super().answer(event)
