"""How far groups are, in offsets and in time; and a look at what comes next without taking it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from domain import limits
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.inspect import Progress, QueryProgress
from domain.ports import MessageStore, Metadata, ReadResult
from domain.record import Record
from domain.statistics import (
    Backlog,
    Peek,
    Peeked,
    QueryBacklog,
    QuerySpans,
    QueryTopicState,
    Span,
    Spans,
    TopicState,
)
from gateway.session import Session
from gateway.usecase.handler import Verb
from gateway.usecase.tally import Tally

QUEUES_MAX: Final = 65_536
PEEK_QUEUES_MAX: Final = 64
"""Queues that one Peek of any queue looks into."""

Place = tuple[str, str, int]
"""(group, topic, queue id)."""
Position = tuple[str, str, int, int, int]
"""(group, topic, queue id, next offset of the queue, the group's position)."""


class Progressing:
    """QueryProgress, QueryBacklog, QuerySpans, QueryTopicState, Peek."""

    def __init__(self, store: MessageStore, metadata: Metadata, tally: Tally) -> None:
        self._store = store
        self._metadata = metadata
        self._tally = tally

    def verbs(self) -> Mapping[type[Command], Verb]:
        """The five of them."""
        return {
            QueryProgress: self._progress,
            QueryBacklog: self._backlog,
            QuerySpans: self._spans,
            QueryTopicState: self._state,
            Peek: self._peek,
        }

    def _unknown(self, group: str, topic: str) -> Failure | None:
        if self._metadata.group(group) is None:
            return Failure(ErrorCode.GROUP_NOT_FOUND, f"group {group} does not exist")
        if topic and self._metadata.topic(topic) is None:
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {topic} does not exist")
        return None

    def _queues_of(self, name: str) -> list[tuple[str, int]]:
        topics = [topic for topic in self._metadata.topics() if name in ("", topic.name)]
        every = ((topic.name, queue_id) for topic in topics for queue_id in range(max(topic.read_queues, topic.write_queues)))
        return list(islice(every, QUEUES_MAX))

    def _given(self, found: list[Position]) -> dict[str, dict[tuple[str, int], int]]:
        """How far groups were given messages, where that is beyond their position."""
        given: dict[str, dict[tuple[str, int], int]] = {}
        for group, topic, queue_id, _, position in found:
            reached = self._store.outlook.given(group, topic, queue_id)
            if reached > position:
                given.setdefault(group, {})[topic, queue_id] = reached
        return given

    def _progress(self, session: Session, command: QueryProgress) -> None:
        failure = self._unknown(command.group, command.topic)
        if failure is not None:
            session.answer(Refused(command.ticket, failure))
            return

        def looked(found: list[Position]) -> None:
            queues = [each[1:] for each in found]
            given = self._given(found).get(command.group, {})
            rate = self._tally.per_second(command.group)
            if not command.times:
                session.answer(Progress(command.ticket, queues, rate, given=given))
                return
            wanted = [(topic, queue_id, position - 1) for topic, queue_id, _, position in queues if position > 0]

            def timed(times: list[int]) -> None:
                known = {(topic, queue_id): ms for (topic, queue_id, _), ms in zip(wanted, times, strict=True) if ms >= 0}
                session.answer(Progress(command.ticket, queues, rate, known, given))

            _Times(self._store, wanted, timed).start()

        _Look(self._store, looked).start([(command.group, *each) for each in self._queues_of(command.topic)])

    def _backlog(self, session: Session, command: QueryBacklog) -> None:
        def looked(found: list[Position]) -> None:
            groups: dict[str, list[tuple[str, int, int, int]]] = {}
            for each in found:
                groups.setdefault(each[0], []).append(each[1:])
            begun = [each for each in found if each[4] > 0]

            def timed(times: list[int]) -> None:
                known: dict[str, dict[tuple[str, int], int]] = {}
                for (group, topic, queue_id, _, _), ms in zip(begun, times, strict=True):
                    if ms >= 0:
                        known.setdefault(group, {})[topic, queue_id] = ms
                session.answer(Backlog(command.ticket, groups, known, self._given(found)))

            _Times(self._store, [(topic, queue_id, position - 1) for _, topic, queue_id, _, position in begun], timed).start()

        names = [group.name for group in self._metadata.groups() if group.orderly == command.orderly]
        queues = self._queues_of("")
        every = ((name, topic, queue_id) for name in names for topic, queue_id in queues)
        _Look(self._store, looked).start(list(islice(every, QUEUES_MAX)))

    def _spans(self, session: Session, command: QuerySpans) -> None:
        failure = self._unknown(command.group, command.topic)
        if failure is not None:
            session.answer(Refused(command.ticket, failure))
            return
        queues = self._queues_of(command.topic)
        positions: dict[int, int] = {}

        def looked(found: list[Position]) -> None:
            positions.update({queue_id: position for _, _, queue_id, _, position in found})
            _Bounds(self._store, queues, bounded).start()

        def bounded(bounds: dict[int, tuple[int, int]]) -> None:
            wanted: list[tuple[str, int, int]] = []
            for topic, queue_id in queues:
                first, end = bounds.get(queue_id, (0, 0))
                position = positions.get(queue_id, -1)
                wanted += [
                    (topic, queue_id, first if first < end else -1),
                    (topic, queue_id, end - 1 if first < end else -1),
                    (topic, queue_id, position - 1 if first < position <= end else -1),
                    (topic, queue_id, position if first <= position < end else -1),
                ]
            _Times(self._store, wanted, timed).start()

        def timed(times: list[int]) -> None:
            spans = [Span(queue_id, *times[4 * at : 4 * at + 4]) for at, (_, queue_id) in enumerate(queues)]
            session.answer(Spans(command.ticket, spans))

        _Look(self._store, looked).start([(command.group, *each) for each in queues])

    def _state(self, session: Session, command: QueryTopicState) -> None:
        if self._metadata.topic(command.topic) is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
            session.answer(Refused(command.ticket, failure))
            return
        queues = self._queues_of(command.topic)

        def bounded(found: dict[int, tuple[int, int]]) -> None:
            wanted = [(topic, queue_id, found[queue_id][1] - 1) for topic, queue_id in queues if queue_id in found]

            def timed(times: list[int]) -> None:
                rows = [
                    (queue_id, *found[queue_id], ms) for (_, queue_id, _), ms in zip(wanted, times, strict=True)
                ]
                session.answer(TopicState(command.ticket, rows, self._tally.put_per_second(command.topic)))

            _Times(self._store, wanted, timed).start()

        _Bounds(self._store, queues, bounded).start()

    def _peek(self, session: Session, command: Peek) -> None:
        topic = self._metadata.topic(command.topic)
        failure: Failure | None = None
        if topic is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        elif command.queue_id >= topic.read_queues:
            failure = Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {command.topic} has no queue {command.queue_id}")
        if failure is not None or topic is None:
            session.answer(Refused(command.ticket, failure or Failure(ErrorCode.INTERNAL)))
            return
        queues = [command.queue_id] if command.queue_id >= 0 else list(range(min(topic.read_queues, PEEK_QUEUES_MAX)))
        _Peeking(self._store, session, command, queues).start()


class _Look:
    """Positions of groups, and the ends of the queues on which they have one."""

    __slots__ = ("_found", "_left", "_store", "_then")

    def __init__(self, store: MessageStore, then: Callable[[list[Position]], None]) -> None:
        self._store = store
        self._then = then
        self._found: list[Position] = []
        self._left = 0

    def start(self, places: Sequence[Place]) -> None:
        # One more than there are places, so that answers which come at once do not end the look early.
        self._left = len(places) + 1
        for group, topic, queue_id in places:
            self._store.offset(group, topic, queue_id, self._positioned(group, topic, queue_id))
        self._over()

    def _positioned(self, group: str, topic: str, queue_id: int) -> Callable[[int | Failure], None]:
        def positioned(position: int | Failure) -> None:
            if isinstance(position, Failure):
                self._over()
                return

            def bounded(bounds: tuple[int, int] | Failure) -> None:
                if not isinstance(bounds, Failure):
                    self._found.append((group, topic, queue_id, bounds[1], position))
                self._over()

            self._store.bounds(topic, queue_id, bounded)

        return positioned

    def _over(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._then(sorted(self._found))


class _Bounds:
    """Bounds of queues of one topic by queue id; those that cannot be told are left out."""

    __slots__ = ("_found", "_left", "_queues", "_store", "_then")

    def __init__(
        self,
        store: MessageStore,
        queues: Sequence[tuple[str, int]],
        then: Callable[[dict[int, tuple[int, int]]], None],
    ) -> None:
        self._store = store
        self._queues = queues
        self._then = then
        self._found: dict[int, tuple[int, int]] = {}
        self._left = len(queues) + 1

    def start(self) -> None:
        for topic, queue_id in self._queues:
            self._store.bounds(topic, queue_id, self._bounded(queue_id))
        self._over()

    def _bounded(self, queue_id: int) -> Callable[[tuple[int, int] | Failure], None]:
        def bounded(bounds: tuple[int, int] | Failure) -> None:
            if not isinstance(bounds, Failure):
                self._found[queue_id] = bounds
            self._over()

        return bounded

    def _over(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._then(self._found)


class _Times:
    """Store times of messages by their place, in order; -1 where there is none, and for offset -1."""

    __slots__ = ("_left", "_store", "_then", "_times", "_wanted")

    def __init__(
        self, store: MessageStore, wanted: Sequence[tuple[str, int, int]], then: Callable[[list[int]], None]
    ) -> None:
        self._store = store
        self._wanted = wanted
        self._then = then
        self._times = [-1] * len(wanted)
        self._left = len(wanted) + 1

    def start(self) -> None:
        for at, (topic, queue_id, offset) in enumerate(self._wanted):
            if offset < 0:
                self._over()
            else:
                self._store.read(topic, queue_id, offset, 1, 1, None, self._read(at, offset))
        self._over()

    def _read(self, at: int, offset: int) -> Callable[[ReadResult | Failure], None]:
        def read(result: ReadResult | Failure) -> None:
            if not isinstance(result, Failure) and result.records:
                record = Record(result.records[0])
                if record.queue_offset == offset:
                    self._times[at] = record.store_ms
            self._over()

        return read

    def _over(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._then(self._times)


class _Peeking:
    """One Peek: queue by queue, until there is enough."""

    __slots__ = ("_command", "_queues", "_records", "_rest", "_session", "_store")

    def __init__(self, store: MessageStore, session: Session, command: Peek, queues: list[int]) -> None:
        self._store = store
        self._session = session
        self._command = command
        self._queues = queues[::-1]
        self._records: list[bytes] = []
        self._rest = 0

    def start(self) -> None:
        command = self._command
        if not self._queues or len(self._records) >= command.limit:
            self._session.answer(Peeked(command.ticket, self._records, self._rest))
            return
        queue_id = self._queues.pop()
        room = command.limit - len(self._records)

        def positioned(position: int | Failure) -> None:
            begin = 0 if isinstance(position, Failure) else position
            self._store.read(command.topic, queue_id, begin, room, limits.PULL_BYTES_MAX, None, read)

        def read(result: ReadResult | Failure) -> None:
            if isinstance(result, Failure):
                self.start()
            elif result.status == "TOO_SMALL":
                self._store.read(command.topic, queue_id, result.min_offset, room, limits.PULL_BYTES_MAX, None, taken)
            else:
                taken(result)

        def taken(result: ReadResult | Failure) -> None:
            if not isinstance(result, Failure) and result.records:
                self._records += result.records
                self._rest += result.max_offset - Record(result.records[-1]).queue_offset - 1
            self.start()

        self._store.offset(command.group, command.topic, queue_id, positioned)
