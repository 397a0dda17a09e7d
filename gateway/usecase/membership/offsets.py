"""Offsets: positions of groups in queues, bounds of queues, and offsets by time."""

from __future__ import annotations

from functools import partial

from domain.admin.topic import QueryBounds, SearchOffset
from domain.command import CommitOffsets, QueryOffset
from domain.errors import ErrorCode, Failure
from domain.event import Done, Offset, Refused
from domain.store.store_ports import GroupPositions, MemberPulls, MessageLog
from domain.topic import lite
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.membership.members import Registry
from gateway.usecase.membership.pending_resets import PendingResets
from gateway.usecase.topics_and_groups.bounds import answer_bounds
from gateway.usecase.topics_and_groups.groups import Groups
from gateway.usecase.topics_and_groups.topics import Topics
from gateway.usecase.waiting.long_questions import LongQuestions


class Offsets:
    """The verbs CommitOffsets, QueryOffset, QueryBounds and SearchOffset."""

    def __init__(
        self,
        log: MessageLog,
        positions: GroupPositions,
        pulls: MemberPulls,
        topics: Topics,
        groups: Groups,
        registry: Registry,
        resets: PendingResets,
        questions: LongQuestions,
    ) -> None:
        self._log = log
        self._positions = positions
        self._pulls = pulls
        self._topics = topics
        self._groups = groups
        self._registry = registry
        self._pending_resets = resets
        self._questions = questions
        self.verbs: Verbs = {
            CommitOffsets: self._commit,
            QueryOffset: self._query,
            QueryBounds: self._bounds,
            SearchOffset: self._search,
        }

    def _commit(self, connection: ClientConnection, command: CommitOffsets) -> None:
        for topic, queue_id, offset in command.offsets:
            failure = self._illegal(topic, queue_id, offset)
            if failure is not None:
                if command.wait:
                    connection.answer(Refused(command.ticket, failure))
                return

        is_lite = any(topic.startswith(lite.PREFIX) for topic, _, _ in command.offsets)
        member = not is_lite and connection.client_id in self._registry.members(command.group)
        offsets = self._current(command) if member else command.offsets
        store = self._pulls.report if member else self._positions.commit

        def ready(group: object) -> None:
            if isinstance(group, Failure):
                if command.wait:
                    connection.answer(Refused(command.ticket, group))
            elif offsets:
                store(command.group, offsets, committed if command.wait else None)
            elif command.wait:
                committed(None)

        def committed(result: None | Failure) -> None:
            connection.answer(Done(command.ticket) if result is None else Refused(command.ticket, result))

        self._groups.ensure(command.group, ready)

    def _current(self, command: CommitOffsets) -> list[tuple[str, int, int]]:
        """The offsets of a member's report without those of queues whose position was reset since the member read there."""
        return [each for each in command.offsets if not self._pending_resets.is_stale(command.group, *each)]

    def _illegal(self, topic: str, queue_id: int, offset: int) -> Failure | None:
        known = self._topics.to_read(topic)
        if known is None:
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {topic} does not exist")
        if not 0 <= queue_id < max(known.read_queues, known.write_queues, 1):
            return Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {topic} has no queue {queue_id}")
        if offset < 0:
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"offset {offset} of {topic}: offsets begin at 0")
        return None

    def _query(self, connection: ClientConnection, command: QueryOffset) -> None:
        def found(result: int | Failure) -> None:
            if not isinstance(result, Failure):
                connection.answer(Offset(command.ticket, result))
            elif result.code is ErrorCode.OFFSET_NOT_FOUND and self._may_begin_at_zero(connection, command):
                self._log.is_hot(command.topic, command.queue_id, partial(zero, result))
            else:
                connection.answer(Refused(command.ticket, result))

        def zero(failure: Failure, hot: bool | Failure) -> None:
            # A group without a position begins at 0 only in a queue whose first message is still hot. For any other queue the
            # answer is OFFSET_NOT_FOUND and the client chooses (ConsumerManageProcessor, checkInDiskByConsumeOffset).
            if hot is not True:
                connection.answer(Refused(command.ticket, failure))
            else:
                connection.answer(Offset(command.ticket, 0))

        self._positions.offset(command.group, command.topic, command.queue_id, found)

    def _may_begin_at_zero(self, connection: ClientConnection, command: QueryOffset) -> bool:
        """True when the queue exists and the client accepts offset 0 for a group without a position."""
        wanted = command.zero_if_absent and self._illegal(command.topic, command.queue_id, 0) is None
        return wanted and not self._by_time(connection, command)

    def _by_time(self, connection: ClientConnection, command: QueryOffset) -> bool:
        """True when the client searches its first offset by time. It does so only when no position is stored.

        By the VIP channel it asks on a connection without heartbeats: members of a group begin alike, so any of them says it.
        """
        members = self._registry.members(command.group)
        member = members.get(connection.client_id)
        if member is None and not connection.client_id:
            member = next(iter(members.values()), None)
        return member is not None and member.membership.from_where == "CONSUME_FROM_TIMESTAMP"

    def _bounds(self, connection: ClientConnection, command: QueryBounds) -> None:
        topic = self._topics.to_read(command.topic)
        if topic is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
            connection.answer(Refused(command.ticket, failure))
            return
        if command.queue_id >= max(topic.read_queues, topic.write_queues):
            failure = Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {command.topic} has no queue {command.queue_id}")
            connection.answer(Refused(command.ticket, failure))
            return
        answer_bounds(self._log, self._questions, connection, command, topic)

    def _search(self, connection: ClientConnection, command: SearchOffset) -> None:
        failure = self._illegal(command.topic, command.queue_id, 0)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return

        def found(result: int | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                connection.answer(Offset(command.ticket, result))

        self._log.search(command.topic, command.queue_id, command.timestamp_ms, command.upper, found)
