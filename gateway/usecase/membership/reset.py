"""Resetting positions of groups: the new ones are stored, and members that pull are sent there by the answers to their pulls.

Like Apache's broker, the node does not notify them (request 220): a member that follows an answer and a notification would
begin twice from the new position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from domain.admin.position import ClonePositions, PositionsReset, ResetPositions
from domain.errors import ErrorCode, Failure
from domain.event import Done, Event, Refused
from domain.store.store_ports import GroupPositions, MessageLog, Metadata
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.pull import Pulling
from gateway.usecase.consume.receive import Receiving
from gateway.usecase.handler import Verbs
from gateway.usecase.membership.members import Registry
from gateway.usecase.membership.pending_resets import PendingResets
from gateway.usecase.topics_and_groups import every
from gateway.usecase.waiting.fan_in import FanIn
from gateway.usecase.waiting.long_questions import LongQuestions

END: Final = -1
"""The timestamp that means the end of a queue."""
POSITION_BYTES: Final = 64
"""Bytes that a stored position counts for."""

Queue = tuple[str, int]
"""(topic, queue id)."""
Offsets = list[tuple[str, int, int]]
"""(topic, queue id, offset)."""


class Resetting:
    """The verbs ResetPositions and ClonePositions."""

    def __init__(
        self,
        log: MessageLog,
        positions: GroupPositions,
        metadata: Metadata,
        registry: Registry,
        resets: PendingResets,
        pulling: Pulling,
        receiving: Receiving,
        questions: LongQuestions,
    ) -> None:
        self._log = log
        self._positions = positions
        self._metadata = metadata
        self._registry = registry
        self._pending_resets = resets
        self._pulling = pulling
        self._receiving = receiving
        self._questions = questions
        self.verbs: Verbs = {ResetPositions: self._reset, ClonePositions: self._clone}

    def _reset(self, connection: ClientConnection, command: ResetPositions) -> None:
        topic = self._metadata.topic(command.topic)
        failure: Failure | None = None
        if topic is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        elif self._metadata.group(command.group) is None:
            failure = Failure(ErrorCode.GROUP_NOT_FOUND, f"the consumer group <{command.group}> does not exist")
        elif command.queue_id >= max(topic.read_queues, 1):
            failure = Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {command.topic} has no queue {command.queue_id}")
        elif command.offset >= 0 and command.queue_id < 0:
            failure = Failure(ErrorCode.ARGUMENT_ILLEGAL, "an offset is of one queue: name it")
        if failure is not None or topic is None:
            connection.answer(Refused(command.ticket, failure or Failure(ErrorCode.INTERNAL)))
            return

        def found(targets: dict[Queue, int], failure: Failure | None) -> None:
            if failure is not None:
                connection.answer(Refused(command.ticket, failure))
                return
            places = [(topic, queue_id, offset) for (topic, queue_id), offset in targets.items()]
            answer = PositionsReset(command.ticket, [place[1:] for place in places])
            self._set(connection, command.ticket, command.group, places, answer)

        wanted = [command.queue_id] if command.queue_id >= 0 else range(topic.read_queues)
        _NewPositions(self._log, self._positions, command, found).start(wanted)

    def _set(self, connection: ClientConnection, ticket: object, group: str, offsets: Offsets, answer: Event) -> None:
        """Store positions, then answer the pulls and receives that wait, then answer."""

        def stored(result: None | Failure) -> None:
            if result is not None:
                connection.answer(Refused(ticket, result))
                return
            self._wake(group, offsets)
            connection.answer(answer)

        if not offsets:
            connection.answer(answer)
            return
        members = self._registry.members(group)
        for topic, queue_id, offset in offsets if members else ():
            self._pending_resets.put(group, topic, queue_id, offset)
        connection.wrote(POSITION_BYTES * len(offsets))
        self._positions.reset(group, offsets, stored)

    def _wake(self, group: str, offsets: Offsets) -> None:
        for topic, queue_id, _ in offsets:
            self._pulling.arrived(topic, queue_id, ())
        for topic in dict.fromkeys([place[0] for place in offsets]):
            self._receiving.freed(group, topic)

    def _clone(self, connection: ClientConnection, command: ClonePositions) -> None:
        failure: Failure | None = None
        for group in (command.source, command.target):
            if self._metadata.group(group) is None:
                failure = Failure(ErrorCode.GROUP_NOT_FOUND, f"the consumer group <{group}> does not exist")
        if command.topic and self._metadata.topic(command.topic) is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return
        named = self._metadata.topic(command.topic)
        places = (
            (command.source, topic.name, queue_id)
            for topic in (every.topics(self._metadata) if named is None else (named,))
            for queue_id in range(max(topic.read_queues, topic.write_queues))
        )

        def positioned(positions: dict[tuple[str, str, int], int], _: Failure | None) -> None:
            found = sorted((*place[1:], position) for place, position in positions.items())
            self._set(connection, command.ticket, command.target, found, Done(command.ticket))

        self._questions.ask(connection, FanIn(self._positions.offset, positioned).steps(places))


class _NewPositions:
    """Finds the new position of every queue of one ResetPositions. `then` gets the positions, or the first failure."""

    __slots__ = ("_command", "_log", "_positions", "_then")

    def __init__(
        self,
        log: MessageLog,
        positions: GroupPositions,
        command: ResetPositions,
        then: Callable[[dict[Queue, int], Failure | None], None],
    ) -> None:
        self._log = log
        self._positions = positions
        self._command = command
        self._then = then

    def start(self, queues: Iterable[int]) -> None:
        FanIn(self._log.bounds, self._bounded).start([(self._command.topic, queue_id) for queue_id in queues])

    def _bounded(self, found: dict[Queue, tuple[int, int]], failure: Failure | None) -> None:
        command = self._command
        if failure is not None:
            self._then({}, failure)
        elif command.offset >= 0:
            outside = [_outside(command.offset, queue[1], *bounds) for queue, bounds in found.items()]
            self._then(dict.fromkeys(found, command.offset), next(filter(None, outside), None))
        elif command.timestamp_ms == END:
            self._limited({queue: bounds[1] for queue, bounds in found.items()}, None)
        else:
            FanIn(self._search, self._limited).start(found)

    def _search(self, topic: str, queue_id: int, done: Callable[[int | Failure], None]) -> None:
        self._log.search(topic, queue_id, self._command.timestamp_ms, False, done)

    def _limited(self, targets: dict[Queue, int], failure: Failure | None) -> None:
        if failure is not None or self._command.force:
            self._then(targets, failure)
            return

        def positioned(positions: dict[tuple[str, str, int], int], _: Failure | None) -> None:
            for place, position in positions.items():
                targets[place[1:]] = min(targets[place[1:]], position)
            self._then(targets, None)

        FanIn(self._positions.offset, positioned).start([(self._command.group, *queue) for queue in targets])


def _outside(offset: int, queue_id: int, first: int, end: int) -> Failure | None:
    if first <= offset <= end:
        return None
    return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"offset {offset} is out of queue {queue_id}, which has {first} to {end}")
