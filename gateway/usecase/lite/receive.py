"""Receiving from lite topics: one poll of a client takes from all lite topics that are ready for it, in order in each.

A consumer that is not ready for a lite topic gives its message back (suspension), which does not count as an attempt.
"""

from __future__ import annotations

from domain import limits
from domain.errors import ErrorCode, Failure
from domain.event import Extended, Refused
from domain.message.receipt import Receipt
from domain.store.store_ports import GroupPositions, MessageLog, Metadata
from domain.topic import lite
from domain.topic.lite import ReceiveLite, SuspendLite
from domain.topic.topic import PERM_READ, Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.leasing_call import illegal_lease
from gateway.usecase.handler import Verbs
from gateway.usecase.lite import configuration
from gateway.usecase.lite.receive_poll import LitePoll, LiteReceiveContext, client_key
from gateway.usecase.lite.subscriptions import LiteSubscriber
from gateway.usecase.waiting.long_polls import RightsCheck


class LiteReceiving:
    """The verbs ReceiveLite and SuspendLite. As a LiteListener it keeps which lite topics are ready for which subscriber."""

    def __init__(self, context: LiteReceiveContext, log: MessageLog, positions: GroupPositions, metadata: Metadata) -> None:
        self._log = log
        self._positions = positions
        self._context = context
        self._metadata = metadata
        context.queues.listen(self)
        self.verbs: Verbs = {ReceiveLite: self._receive, SuspendLite: self._suspend}

    def review(self, check: RightsCheck) -> None:
        """Refuse the parked polls that `check` forbids: rights have changed."""
        self._context.polls.review(check)

    def lite_arrived(self, parent: str, lite_topic: str) -> None:
        """A message has arrived: the lite topic is ready for every subscriber of it."""
        for subscriber in self._context.subscriptions.of(parent, lite_topic):
            self.ready(subscriber, lite_topic)

    def lite_freed(self, group: str, parent: str, lite_topic: str) -> None:
        """Messages can be leased again: the lite topic is ready for its subscribers of `group`."""
        for subscriber in self._context.subscriptions.of(parent, lite_topic, group):
            self.ready(subscriber, lite_topic)

    def ready(self, subscriber: LiteSubscriber, lite_topic: str) -> None:
        """Note that `lite_topic` may have messages for a subscriber, and serve its parked polls."""
        subscriber.ready[lite_topic] = None
        self._serve(subscriber)

    def find_ready(self, subscriber: LiteSubscriber) -> int:
        """Make every lite topic with unsettled messages ready for its subscriber. Returns how many these are."""
        queues = self._context.queues
        names = queues.names(subscriber.topic) if subscriber.wildcard else iter(list(subscriber.names))
        found = [name for name in names if self._is_behind(subscriber.group, lite.queue_name(subscriber.topic, name))]
        for name in found:
            subscriber.ready[name] = None
        self._serve(subscriber)
        return len(found)

    def _is_behind(self, group: str, queue: str) -> bool:
        """True when `group` has not settled all of a lite topic's queue.

        The store answers before its call returns: the queue is on this node.
        """
        bounds: list[tuple[int, int] | Failure] = []
        position: list[int | Failure] = []
        self._log.bounds(queue, 0, bounds.append)
        self._positions.offset(group, queue, 0, position.append)
        if not bounds or isinstance(bounds[0], Failure) or not position:
            return True
        first, end = bounds[0]
        at = position[0]
        return end > (first if isinstance(at, Failure) else at)

    def _serve(self, subscriber: LiteSubscriber) -> None:
        """Let parked polls of the subscriber take the ready messages; of a wildcard subscriber, the polls of all its group."""
        clients = self._context.subscriptions.of_group(subscriber.group) if subscriber.wildcard else [subscriber]
        for each in clients:
            if not subscriber.ready:
                return
            self._context.polls.serve(client_key(each.group, each.client_id))

    def _receive(self, connection: ClientConnection, command: ReceiveLite) -> None:
        group = self._checked(command)
        if isinstance(group, Failure):
            connection.answer(Refused(command.ticket, group))
        else:
            LitePoll(self._context, connection, command, group).begin()

    def _checked(self, command: ReceiveLite) -> Group | Failure:
        """The group of a command that may be carried out, or why it may not."""
        topic = configuration.topic_of(self._metadata, command.topic)
        if isinstance(topic, Failure):
            return topic
        if not topic.perm & PERM_READ:
            return Failure(ErrorCode.NOT_ALLOWED, f"topic {command.topic} cannot be read")
        group = configuration.group_of(self._metadata, command.group, command.topic)
        if isinstance(group, Failure):
            return group
        return illegal_lease(command.limit, command.invisible_ms) or group

    def _suspend(self, connection: ClientConnection, command: SuspendLite) -> None:
        if not 0 <= command.invisible_ms <= limits.INVISIBLE_MS_MAX:
            failure = Failure(ErrorCode.ARGUMENT_ILLEGAL, "the invisible time is at least 0 and at most 12 hours")
            connection.answer(Refused(command.ticket, failure))
            return
        queue = lite.queue_name(command.topic, command.lite)

        def extended(result: list[Receipt | Failure] | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
                return
            if isinstance(result[0], Receipt):
                self._context.queues.uncount(command.group, queue, command.receipt.queue_offset)
            connection.answer(Extended(command.ticket, result))

        self._context.leasing.leases.extend(command.group, queue, [command.receipt], command.invisible_ms, extended)
