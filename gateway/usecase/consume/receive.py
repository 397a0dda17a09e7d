"""Receiving: message-level balance (POP). A receive leases free messages; one that finds none waits as a long poll."""

from __future__ import annotations

from collections.abc import Sequence

from domain import address
from domain.admin.group import CountWaitingMessages, WaitingCount
from domain.command import Receive
from domain.errors import Failure
from domain.event import Refused
from domain.topic.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.leasing_call import illegal_lease
from gateway.usecase.consume.receive_call import ReceiveCall, ReceiveContext
from gateway.usecase.handler import Verbs
from gateway.usecase.waiting.long_polls import RightsCheck


class Receiving:
    """The verbs Receive and CountWaitingMessages. As a StoreListener it wakes the long polls of its calls."""

    def __init__(self, context: ReceiveContext) -> None:
        self._context = context
        self.verbs: Verbs = {Receive: self._receive, CountWaitingMessages: self._count}

    @property
    def expired(self) -> int:
        """Messages that were settled instead of delivered, since their expiry was over."""
        return self._context.leasing.expired

    def waiting(self) -> int:
        """Receive calls that are parked now."""
        return len(self._context.polls)

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Wake the calls that wait for `topic`. A retry topic also wakes the calls that wait for the topic it retries."""
        self._context.polls.wake(topic, queue_id)
        for group, origin in address.retried_by_pop(topic):
            self._context.polls.wake_group(group, origin)

    def freed(self, group: str, topic: str) -> None:
        """Wake the calls of `group` for `topic`: its leases have ended. A retry topic also wakes those of its origin."""
        self._context.polls.wake_group(group, topic)
        for _, origin in address.retried_by_pop(topic):
            self._context.polls.wake_group(group, origin)

    def review(self, check: RightsCheck) -> None:
        """Refuse the parked calls that `check` forbids: rights have changed."""
        self._context.polls.review(check)

    def _receive(self, connection: ClientConnection, command: Receive) -> None:
        failure = self._context.topics.unreadable(command.topic, command.queue_id)
        failure = failure or illegal_lease(command.limit, command.invisible_ms)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return

        def ready(group: Group | Failure) -> None:
            if isinstance(group, Failure):
                connection.answer(Refused(command.ticket, group))
            else:
                # In an ordered group every receive keeps the order: one unordered receive would break it for all members.
                command.ordered = command.ordered or group.orderly
                ReceiveCall(self._context, connection, command, group).begin()

        self._context.leasing.groups.ensure(command.group, ready)

    def _count(self, connection: ClientConnection, command: CountWaitingMessages) -> None:
        context = self._context
        failure = context.topics.unreadable(command.topic, command.queue_id)
        failure = failure or context.leasing.rights.refusal(command.group, command.topic)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return
        count = context.polls.waiting((command.group, command.topic, command.queue_id))
        connection.answer(WaitingCount(command.ticket, count))
