"""Resetting positions: stored at once, and members that are there are told to go on from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Done, Event, Refused
from domain.ports import MessageStore, Metadata
from domain.relay import PositionsMoved
from domain.reset import ClonePositions, PositionsReset, ResetPositions
from domain.topic import Topic
from gateway.session import Session
from gateway.usecase.handler import Verb
from gateway.usecase.members import Registry
from gateway.usecase.pull import Pulling
from gateway.usecase.receive import Receiving
from gateway.usecase.resets import Resets

END: Final = -1
"""The timestamp that stands for the end of a queue."""

Offsets = list[tuple[str, int, int]]
"""(topic, queue id, offset)."""


class Resetting:
    """ResetPositions and ClonePositions."""

    def __init__(
        self,
        store: MessageStore,
        metadata: Metadata,
        registry: Registry,
        resets: Resets,
        pulling: Pulling,
        receiving: Receiving,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._registry = registry
        self._resets = resets
        self._pulling = pulling
        self._receiving = receiving

    def verbs(self) -> Mapping[type[Command], Verb]:
        """Both of them."""
        return {ResetPositions: self._reset, ClonePositions: self._clone}

    def _reset(self, session: Session, command: ResetPositions) -> None:
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
            session.answer(Refused(command.ticket, failure or Failure(ErrorCode.INTERNAL)))
            return

        def found(offsets: list[tuple[int, int]] | Failure) -> None:
            if isinstance(offsets, Failure):
                session.answer(Refused(command.ticket, offsets))
                return
            places = [(command.topic, queue_id, offset) for queue_id, offset in offsets]
            answer = PositionsReset(command.ticket, offsets)
            self._set(session, command.ticket, command.group, places, command.timestamp_ms, answer)

        wanted = [command.queue_id] if command.queue_id >= 0 else list(range(topic.read_queues))
        _Search(self._store, command, found).start(wanted)

    def _set(
        self, session: Session, ticket: object, group: str, offsets: Offsets, timestamp_ms: int, answer: Event
    ) -> None:
        """Store positions, then tell who is there, then answer."""

        def stored(result: None | Failure) -> None:
            if result is not None:
                session.answer(Refused(ticket, result))
                return
            self._tell(group, offsets, timestamp_ms)
            session.answer(answer)

        if not offsets:
            session.answer(answer)
            return
        members = self._registry.members(group)
        for topic, queue_id, offset in offsets if members else ():
            self._resets.put(group, topic, queue_id, offset)
        self._store.reset(group, offsets, stored)

    def _tell(self, group: str, offsets: Offsets, timestamp_ms: int) -> None:
        by_topic: dict[str, list[tuple[int, int]]] = {}
        for topic, queue_id, offset in offsets:
            by_topic.setdefault(topic, []).append((queue_id, offset))
        for topic, places in by_topic.items():
            for _, member in sorted(self._registry.members(group).items()):
                member.session.answer(PositionsMoved(None, group, topic, timestamp_ms, places))
            for queue_id, _ in places:
                self._pulling.arrived(topic, queue_id, ())
            self._receiving.freed(group, topic)

    def _clone(self, session: Session, command: ClonePositions) -> None:
        failure: Failure | None = None
        for group in (command.source, command.target):
            if self._metadata.group(group) is None:
                failure = Failure(ErrorCode.GROUP_NOT_FOUND, f"the consumer group <{group}> does not exist")
        if command.topic and self._metadata.topic(command.topic) is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        if failure is not None:
            session.answer(Refused(command.ticket, failure))
            return
        topics = [topic for topic in self._metadata.topics() if command.topic in ("", topic.name)]
        places = [(topic.name, queue_id) for topic in topics for queue_id in range(_queues(topic))]
        found: Offsets = []
        # One more than there are places, so that answers which come at once do not end it early.
        left = len(places) + 1

        def over() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self._set(session, command.ticket, command.target, sorted(found), END, Done(command.ticket))

        def positioned(topic: str, queue_id: int) -> Callable[[int | Failure], None]:
            def take(position: int | Failure) -> None:
                if not isinstance(position, Failure):
                    found.append((topic, queue_id, position))
                over()

            return take

        for topic, queue_id in places:
            self._store.offset(command.source, topic, queue_id, positioned(topic, queue_id))
        over()


def _queues(topic: Topic) -> int:
    return max(topic.read_queues, topic.write_queues)


class _Search:
    """The new position of every queue of one ResetPositions."""

    __slots__ = ("_command", "_failure", "_found", "_left", "_store", "_then")

    def __init__(
        self, store: MessageStore, command: ResetPositions, then: Callable[[list[tuple[int, int]] | Failure], None]
    ) -> None:
        self._store = store
        self._command = command
        self._then = then
        self._found: dict[int, int] = {}
        self._failure: Failure | None = None
        self._left = 0

    def start(self, queues: list[int]) -> None:
        # One more than there are queues, so that answers which come at once do not end the search early.
        self._left = len(queues) + 1
        for queue_id in queues:
            self._store.bounds(self._command.topic, queue_id, self._bounded(queue_id))
        self._over()

    def _bounded(self, queue_id: int) -> Callable[[tuple[int, int] | Failure], None]:
        def bounded(bounds: tuple[int, int] | Failure) -> None:
            command = self._command
            if isinstance(bounds, Failure):
                self._fail(bounds)
            elif command.offset >= 0:
                if bounds[0] <= command.offset <= bounds[1]:
                    self._take(queue_id, command.offset)
                else:
                    text = f"offset {command.offset} is out of queue {queue_id}, which has {bounds[0]} to {bounds[1]}"
                    self._fail(Failure(ErrorCode.ARGUMENT_ILLEGAL, text))
            elif command.timestamp_ms == END:
                self._take(queue_id, bounds[1])
            else:
                self._store.search(command.topic, queue_id, command.timestamp_ms, False, searched)

        def searched(offset: int | Failure) -> None:
            if isinstance(offset, Failure):
                self._fail(offset)
            else:
                self._take(queue_id, offset)

        return bounded

    def _take(self, queue_id: int, offset: int) -> None:
        if self._command.force or self._command.offset >= 0:
            self._found[queue_id] = offset
            self._over()
            return

        def positioned(position: int | Failure) -> None:
            self._found[queue_id] = offset if isinstance(position, Failure) else min(position, offset)
            self._over()

        self._store.offset(self._command.group, self._command.topic, queue_id, positioned)

    def _fail(self, failure: Failure) -> None:
        self._failure = failure
        self._over()

    def _over(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._then(self._failure if self._failure is not None else sorted(self._found.items()))
