"""Questions about the progress of groups, in offsets and in time, and Peek: the next messages without a lease."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

from domain import limits
from domain.admin.message import Peek, Peeked
from domain.admin.position import Backlog, Progress, QueryBacklog, QueryProgress, QueryTimeSpans, QueueTimeSpan, TimeSpans
from domain.admin.topic import QueryTopicState, TopicState
from domain.delivery.retry_owner import kept
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.message.record import Record
from domain.store.outlook import Outlook
from domain.store.store_ports import GroupPositions, MessageLog, Metadata, ReadResult
from domain.store.store_request import ReadRequest
from domain.topic.topic import PERM_READ
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.topics_and_groups import every
from gateway.usecase.topics_and_groups.counters import MessageCounters
from gateway.usecase.topics_and_groups.rights import Rights
from gateway.usecase.waiting.fan_in import FanIn
from gateway.usecase.waiting.long_questions import STEP_ITEMS, LongQuestions, Steps

QUEUES_MAX: Final = 65_536
"""Queues that one question looks at."""
PEEK_QUEUES_MAX: Final = 64
"""Queues that one Peek of any queue looks into."""

Queue = tuple[str, int]
"""(topic, queue id)."""
MessagePlace = tuple[str, int, int]
"""(topic, queue id, offset)."""
Place = tuple[str, str, int]
"""(group, topic, queue id)."""
Position = tuple[str, str, int, int, int]
"""(group, topic, queue id, next offset of the queue, the group's position)."""


class ProgressQueries:
    """The verbs QueryProgress, QueryBacklog, QueryTimeSpans, QueryTopicState and Peek."""

    def __init__(
        self,
        log: MessageLog,
        positions: GroupPositions,
        outlook: Outlook,
        metadata: Metadata,
        counters: MessageCounters,
        rights: Rights,
        questions: LongQuestions,
    ) -> None:
        self._log = log
        self._positions = positions
        self._outlook = outlook
        self._metadata = metadata
        self._counters = counters
        self._rights = rights
        self._questions = questions
        self.verbs: Verbs = {
            QueryProgress: self._progress,
            QueryBacklog: self._backlog,
            QueryTimeSpans: self._spans,
            QueryTopicState: self._state,
            Peek: self._peek,
        }

    def _unknown(self, group: str, topic: str) -> Failure | None:
        if self._metadata.group(group) is None:
            return Failure(ErrorCode.GROUP_NOT_FOUND, f"group {group} does not exist")
        if topic and self._metadata.topic(topic) is None:
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {topic} does not exist")
        return None

    def _queues_of(self, name: str) -> Iterator[Queue]:
        """Queues of a topic, or of all topics; QUEUES_MAX at most."""
        named = self._metadata.topic(name)
        topics = (named,) if named is not None else every.topics(self._metadata) if name == "" else ()
        queues = ((topic.name, queue_id) for topic in topics for queue_id in range(max(topic.read_queues, topic.write_queues)))
        return islice(queues, QUEUES_MAX)

    def _positions_at(
        self, connection: ClientConnection, places: Iterable[Place], then: Callable[[list[Position]], Steps]
    ) -> None:
        """`then` gets the places at which groups have a position, with that and the queue's next offset, in their order."""

        def positioned(positions: dict[Place, int], _: Failure | None) -> None:
            def bounded(bounds: dict[Queue, tuple[int, int]], _: Failure | None) -> None:
                self._questions.go_on(connection, joined(bounds))

            def joined(bounds: dict[Queue, tuple[int, int]]) -> Steps:
                found: list[Position] = []
                for at, (place, position) in enumerate(positions.items(), 1):
                    if place[1:] in bounds:
                        found.append((*place, bounds[place[1:]][1], position))
                    if at % STEP_ITEMS == 0:
                        yield
                yield from then(found)

            self._questions.go_on(connection, FanIn(self._log.bounds, bounded).steps(place[1:] for place in positions))

        self._questions.ask(connection, FanIn(self._positions.offset, positioned).steps(places))

    def _store_times(
        self,
        connection: ClientConnection,
        wanted: Iterable[MessagePlace],
        then: Callable[[dict[MessagePlace, int]], Steps],
    ) -> None:
        """`then` gets the store times (epoch ms) of the messages at `wanted` that are stored."""

        def timed(times: dict[MessagePlace, int], _: Failure | None) -> None:
            self._questions.go_on(connection, then(times))

        fan_in = FanIn(self._stored_ms, timed)
        self._questions.go_on(connection, fan_in.steps(place for place in wanted if place[2] >= 0))

    def _stored_ms(self, topic: str, queue_id: int, offset: int, done: Callable[[int | Failure], None]) -> None:
        def read(result: ReadResult | Failure) -> None:
            if isinstance(result, Failure):
                done(result)
                return
            record = Record(result.records[0]) if result.records else None
            if record is None or record.queue_offset != offset:
                done(Failure(ErrorCode.MESSAGE_NOT_FOUND, f"{topic} has no message {offset} in queue {queue_id}"))
            else:
                done(record.store_ms)

        self._log.read(ReadRequest(topic, queue_id, offset, 1, 1), read)

    def _delivered(self, found: Sequence[Position], given: dict[str, dict[Queue, int]]) -> Steps:
        """Add to `given`: group -> queue -> offset up to which messages were delivered, where that is beyond its position."""
        for at, (group, topic, queue_id, _, position) in enumerate(found, 1):
            reached = self._outlook.delivered_below(group, topic, queue_id)
            if reached > position:
                given.setdefault(group, {})[topic, queue_id] = reached
            if at % STEP_ITEMS == 0:
                yield

    def _progress(self, connection: ClientConnection, command: QueryProgress) -> None:
        failure = self._unknown(command.group, command.topic)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return

        def found_positions(found: list[Position]) -> Steps:
            queues = [each[1:] for each in found]
            given: dict[str, dict[Queue, int]] = {}
            yield from self._delivered(found, given)
            rate = self._counters.per_second(command.group)
            delivered = given.get(command.group, {})
            if not command.times:
                connection.answer(Progress(command.ticket, queues, rate, given=delivered))
                return

            def timed(times: dict[MessagePlace, int]) -> Steps:
                known = {place[:2]: ms for place, ms in times.items()}
                yield
                connection.answer(Progress(command.ticket, queues, rate, known, delivered))

            wanted = ((topic, queue_id, position - 1) for topic, queue_id, _, position in queues)
            self._store_times(connection, wanted, timed)

        places = ((command.group, *each) for each in self._queues_of(command.topic))
        self._positions_at(connection, places, found_positions)

    def _backlog(self, connection: ClientConnection, command: QueryBacklog) -> None:
        def found_positions(found: list[Position]) -> Steps:
            groups: dict[str, list[tuple[str, int, int, int]]] = {}
            for at, each in enumerate(found, 1):
                groups.setdefault(each[0], []).append(each[1:])
                if at % STEP_ITEMS == 0:
                    yield

            def timed(times: dict[MessagePlace, int]) -> Steps:
                known: dict[str, dict[Queue, int]] = {}
                for at, (group, topic, queue_id, _, position) in enumerate(found, 1):
                    ms = times.get((topic, queue_id, position - 1), -1)
                    if ms >= 0:
                        known.setdefault(group, {})[topic, queue_id] = ms
                    if at % STEP_ITEMS == 0:
                        yield
                given: dict[str, dict[Queue, int]] = {}
                yield from self._delivered(found, given)
                connection.answer(Backlog(command.ticket, groups, known, given))

            self._store_times(connection, ((each[1], each[2], each[4] - 1) for each in found), timed)

        places = islice(filter(partial(self._is_listed, command.ordered), self._places()), QUEUES_MAX)
        self._positions_at(connection, places, found_positions)

    def _places(self) -> Iterator[Place]:
        """Every queue in which a group has a position. Positions made or removed during the walk may be missed."""
        place: Place | None = None
        while found := self._outlook.places_after(place, STEP_ITEMS):
            yield from found
            place = found[-1]

    def _is_listed(self, ordered: bool, place: Place) -> bool:
        topic = self._metadata.topic(place[1])
        return topic is not None and self._metadata.group(place[0]) is not None and (topic.order or not ordered)

    def _spans(self, connection: ClientConnection, command: QueryTimeSpans) -> None:
        failure = self._unknown(command.group, command.topic)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return
        positions: dict[Queue, int] = {}

        def found_positions(found: list[Position]) -> Steps:
            positions.update({(topic, queue_id): position for _, topic, queue_id, _, position in found})
            yield from FanIn(self._log.bounds, bounded).steps(self._queues_of(command.topic))

        def bounded(bounds: dict[Queue, tuple[int, int]], _: Failure | None) -> None:
            def wanted() -> Iterator[tuple[Queue, tuple[int, int, int, int]]]:
                return ((queue, _edges(*found, positions.get(queue, -1))) for queue, found in bounds.items())

            def timed(times: dict[MessagePlace, int]) -> Steps:
                spans: list[QueueTimeSpan] = []
                for at, (queue, edges) in enumerate(wanted(), 1):
                    spans.append(QueueTimeSpan(queue[1], *(times.get((*queue, offset), -1) for offset in edges)))
                    if at % STEP_ITEMS == 0:
                        yield
                connection.answer(TimeSpans(command.ticket, spans))

            self._store_times(connection, ((*queue, offset) for queue, edges in wanted() for offset in edges), timed)

        places = ((command.group, *each) for each in self._queues_of(command.topic))
        self._positions_at(connection, places, found_positions)

    def _state(self, connection: ClientConnection, command: QueryTopicState) -> None:
        if self._metadata.topic(command.topic) is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
            connection.answer(Refused(command.ticket, failure))
            return

        def bounded(found: dict[Queue, tuple[int, int]], _: Failure | None) -> None:
            def timed(times: dict[MessagePlace, int]) -> Steps:
                rows: list[tuple[int, int, int, int]] = []
                for at, (queue, (first, end)) in enumerate(found.items(), 1):
                    rows.append((queue[1], first, end, times.get((*queue, end - 1), -1)))
                    if at % STEP_ITEMS == 0:
                        yield
                connection.answer(TopicState(command.ticket, rows, self._counters.put_per_second(command.topic)))

            self._store_times(connection, ((*queue, end - 1) for queue, (_, end) in found.items()), timed)

        self._questions.ask(connection, FanIn(self._log.bounds, bounded).steps(self._queues_of(command.topic)))

    def _peek(self, connection: ClientConnection, command: Peek) -> None:
        topic = self._metadata.topic(command.topic)
        failure: Failure | None = None
        if topic is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        elif command.queue_id >= topic.read_queues:
            failure = Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {command.topic} has no queue {command.queue_id}")
        elif not topic.perm & PERM_READ:
            failure = Failure(ErrorCode.NOT_ALLOWED, f"topic {command.topic} cannot be read")
        else:
            failure = self._rights.refusal(command.group, command.topic)
        if failure is not None or topic is None:
            connection.answer(Refused(command.ticket, failure or Failure(ErrorCode.INTERNAL)))
            return
        queues = [command.queue_id] if command.queue_id >= 0 else list(range(min(topic.read_queues, PEEK_QUEUES_MAX)))
        _PeekCall(self._log, self._positions, self._metadata, connection, command, queues).start()


def _edges(first: int, end: int, position: int) -> tuple[int, int, int, int]:
    """Offsets of the oldest message, the newest, the last before `position` and the first from it on; -1: no such message."""
    return (
        first if first < end else -1,
        end - 1 if first < end else -1,
        position - 1 if first < position <= end else -1,
        position if first <= position < end else -1,
    )


class _PeekCall:
    """One Peek: reads queue by queue from the group's positions on, until it has as many messages as were asked for."""

    __slots__ = ("_command", "_connection", "_log", "_metadata", "_positions", "_queues", "_records", "_rest")

    def __init__(
        self, log: MessageLog, positions: GroupPositions, metadata: Metadata, connection: ClientConnection, command: Peek,
        queues: list[int],
    ) -> None:  # fmt: skip
        self._log = log
        self._positions = positions
        self._metadata = metadata
        self._connection = connection
        self._command = command
        self._queues = queues[::-1]
        self._records: list[bytes] = []
        self._rest = 0

    def start(self) -> None:
        command = self._command
        if not self._queues or len(self._records) >= command.limit:
            self._connection.answer(Peeked(command.ticket, self._records, self._rest))
            return
        queue_id = self._queues.pop()
        room = command.limit - len(self._records)

        def positioned(position: int | Failure) -> None:
            begin = 0 if isinstance(position, Failure) else position
            self._log.read(ReadRequest(command.topic, queue_id, begin, room, limits.PULL_BYTES_MAX), read)

        def read(result: ReadResult | Failure) -> None:
            if isinstance(result, Failure):
                self.start()
            elif result.status == "TOO_SMALL":
                self._log.read(ReadRequest(command.topic, queue_id, result.min_offset, room, limits.PULL_BYTES_MAX), taken)
            else:
                taken(result)

        def taken(result: ReadResult | Failure) -> None:
            if not isinstance(result, Failure) and result.records:
                self._records += kept(result.records, command.topic, command.group, self._metadata.group)
                self._rest += result.max_offset - Record(result.records[-1]).queue_offset - 1
            self.start()

        self._positions.offset(command.group, command.topic, queue_id, positioned)
