"""Pulling: reading a queue by offset. A pull at the end of its queue waits as a long poll."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from domain.admin.message import Viewed, ViewMessage
from domain.command import Pull
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.filter.expression import Expressions
from domain.topic import lite
from domain.topic.topic import PERM_READ
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.offload import Offload
from gateway.usecase.consume.pull_poll import PullContext, PullPoll, answer_moved
from gateway.usecase.handler import Verbs
from gateway.usecase.topics_and_groups.topics import Topics
from gateway.usecase.waiting.long_polls import RightsCheck


class Pulling:
    """The verbs Pull and ViewMessage. As a StoreListener and LiteListener it wakes the pulls that are parked."""

    def __init__(self, context: PullContext, topics: Topics) -> None:
        self._context = context
        self._topics = topics
        self._expressions = Expressions()
        self.verbs: Verbs = {Pull: self._pull, ViewMessage: self._view}

    @property
    def expired(self) -> int:
        """Messages that readers were not given, since their expiry was over."""
        return self._context.expired

    def waiting(self) -> int:
        """Pulls that are parked now."""
        return len(self._context.parked.polls)

    def offload(self, offload: Offload) -> None:
        """From now on send readers that are far behind to replicas that follow."""
        self._context.offload = offload

    def review(self, check: RightsCheck) -> None:
        """Refuse the parked pulls that `check` forbids: rights have changed."""
        self._context.parked.polls.review(check)

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Wake the pulls that wait at the end of the queue."""
        self._context.parked.polls.wake(topic, queue_id)

    def freed(self, group: str, topic: str) -> None:
        """Wake the pulls of members of `group`: they are given messages whose leases have ended. Readers lease nothing."""
        self._context.parked.wake_members(group, topic)

    def lite_arrived(self, parent: str, lite: str) -> None:
        """Wake the pulls that wait at the end of the lite topic's queue."""
        self._context.parked.wake_lite(parent, lite)

    def lite_freed(self, group: str, parent: str, lite: str) -> None:
        """Do nothing: readers by offset lease nothing of lite topics."""

    def _pull(self, connection: ClientConnection, command: Pull) -> None:
        context = self._context
        topic = self._topics.to_read(command.topic)
        if command.topic.startswith(lite.PREFIX):
            # A pull reads a lite topic without a membership: the members of its group receive.
            command.member = ""
        failure: Failure | None = None
        if topic is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        elif not topic.perm & PERM_READ:
            failure = Failure(ErrorCode.NOT_ALLOWED, f"topic {command.topic} cannot be read")
        elif not 0 <= command.queue_id < max(topic.read_queues, 1):
            failure = Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {command.topic} has no queue {command.queue_id}")
        elif command.epoch not in (-1, topic.created_ms):
            text = f"topic {command.topic} of epoch {command.epoch} was deleted; this one has epoch {topic.created_ms}"
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, text)
        else:
            failure = context.refusal(command)
            if failure is None and command.subscribed:
                failure = self._subscribe(command)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return
        offset = context.reset_offset(command)
        if offset is not None:
            context.log.bounds(command.topic, command.queue_id, partial(answer_moved, connection, command, offset))
            return
        if command.commit >= 0 and command.group:
            commit = context.pulls.report if command.member else context.positions.commit
            commit(command.group, [(command.topic, command.queue_id, command.commit)], None)
        PullPoll(context, connection, command).read()

    def _subscribe(self, command: Pull) -> Failure | None:
        """Give a pull the filter of its group's newest subscription. Failure: GROUP_OFFLINE, or that of the expression."""
        found = self._context.registry.subscription(command.group, lite.topic_of(command.topic))
        if found is None:
            text = f"the consumer's group info not exist: {command.group} has no subscription to {command.topic}"
            return Failure(ErrorCode.GROUP_OFFLINE, text)
        wanted = self._expressions.compile(found.expression_type, found.expression)
        if isinstance(wanted, Failure):
            return wanted
        command.filter = wanted
        return None

    def _view(self, connection: ClientConnection, command: ViewMessage) -> None:
        reads = self._context.leasing.reads
        if reads.crowded:
            reads.add(connection, partial(self._view_in_turn, connection, command))
        else:
            self._view_in_turn(connection, command)

    def _view_in_turn(self, connection: ClientConnection, command: ViewMessage) -> None:
        def viewed(result: bytes | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                self._context.leasing.reads.count(len(result))
                connection.answer(Viewed(command.ticket, result))

        self._context.log.record_at(command.physical_offset, viewed)
