"""Reads of a replica that follows. It has the confirmed messages, does not know the end of the log, and has no leases.

So it never answers that an offset is out of range or that a queue has ended, nor lets anybody wait: a reader of
other offsets is sent to the leader.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar, final

from domain import limits
from domain.admin.message import Viewed, ViewMessage
from domain.admin.topic import EarliestStoreTime, QueryBounds, QueryEarliestStoreTime, SearchOffset
from domain.command import Pull
from domain.delivery.expiry import unexpired
from domain.delivery.retry_owner import kept
from domain.errors import ErrorCode, Failure
from domain.event import Offset, Refused
from domain.message.record import Record
from domain.ports import Clock
from domain.replication.reads import ELSEWHERE, LogReads, PulledBy
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from domain.topic.topic import PERM_READ, Group, Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.pull_poll import read_request
from gateway.usecase.handler import Verbs
from gateway.usecase.topics_and_groups.bounds import answer_bounds
from gateway.usecase.topics_and_groups.rights import Rights
from gateway.usecase.topics_and_groups.topics import Topics
from gateway.usecase.waiting.long_questions import LongQuestions
from gateway.usecase.waiting.read_turns import ReadTurns

STAY_NS: Final = 5 * limits.SECOND_NS
"""Time after which a reader is sent to the leader, which knows of resets, and whether the group has receivers."""
AGAIN_NS: Final = 1 * limits.SECOND_NS
"""A reader that asks for the same again within this time does not know who leads: a refusal has it wait (SDKs do so for 3 s),
where "ask the leader" would have it ask at once, and again."""
STAYS_MAX: Final = 1_024
"""Queues of one connection whose time is known; with more of them, all times begin again."""
LEADERLESS: Final = Failure(
    ErrorCode.STORE_UNAVAILABLE,
    "this replica follows, and does not have that yet: ask the leader, as soon as the route tells it",
)
UNKNOWN: Final = Failure(ErrorCode.STORE_UNAVAILABLE, "this replica follows, and does not have that yet: ask the leader")

Place = tuple[str, str, int]
"""(group, topic, queue id)."""
Known = TypeVar("Known")


@final
class FollowerReading:
    """The verbs Pull, ViewMessage, QueryBounds, SearchOffset and QueryEarliestStoreTime.

    served     messages that readers were given
    elsewhere  pulls that were sent to the leader
    _stays     when each reader has begun to read each queue
    _sent_on   (offset, when) of the newest pull of each that was sent to the leader
    """

    def __init__(
        self, log: LogReads, end: Callable[[], int], topics: Topics, rights: Rights, clock: Clock, own: Callable[[], int],
        near_bytes: int, find_group: Callable[[str], Group | None],
    ) -> None:  # fmt: skip
        """A reader that is at most `near_bytes` before the end is sent to the leader.

        end   up to where the log is applied
        own   number of this replica
        """
        self.served = 0
        self.elsewhere = 0
        self._log = log
        self._end = end
        self._topics = topics
        self._rights = rights
        self._clock = clock
        self._own = own
        self._find_group = find_group
        self._near_bytes = near_bytes
        self._reads = ReadTurns(clock)
        self._questions = LongQuestions(clock)
        self._stays: dict[ClientConnection, dict[Place, int]] = {}
        self._sent_on: dict[ClientConnection, dict[Place, tuple[int, int]]] = {}
        self.verbs: Verbs = {
            Pull: self._pull,
            ViewMessage: self._view,
            QueryBounds: self._bounds,
            SearchOffset: self._search,
            QueryEarliestStoreTime: self._earliest,
        }

    def _topic(self, name: str, queue_id: int) -> Topic | None:
        """A topic that has this queue, as far as it is known here; a queue below 0 is any."""
        topic = self._topics.to_read(name)
        return topic if topic is not None and queue_id < max(topic.read_queues, topic.write_queues, 1) else None

    # Pulls

    def _pull(self, connection: ClientConnection, command: Pull) -> None:
        topic = self._topic(command.topic, command.queue_id)
        if topic is None or command.queue_id < 0 or command.epoch not in (-1, topic.created_ms) or command.subscribed:
            self._send_on(connection, command, None)
            return
        failure = self._rights.refusal(command.group, command.topic, command.broadcast)
        if failure is None and not topic.perm & PERM_READ:
            failure = Failure(ErrorCode.NOT_ALLOWED, f"topic {command.topic} cannot be read")
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
        else:
            self._in_turn(connection, partial(self._read, connection, command))

    def _in_turn(self, connection: ClientConnection, read: Callable[[], None]) -> None:
        """Read, when this turn may read more messages; else in a later one."""
        if self._reads.crowded:
            self._reads.add(connection, read)
        else:
            read()

    def _read(self, connection: ClientConnection, command: Pull) -> None:
        if connection.closed:
            return
        self._log.read(read_request(command), partial(self._found, connection, command))

    def _found(self, connection: ClientConnection, command: Pull, result: ReadResult | Failure) -> None:
        if isinstance(result, Failure):
            connection.answer(Refused(command.ticket, result))
            return
        if result.status not in ("FOUND", "NO_MATCH") or result.next_offset <= command.offset:
            self._send_on(connection, command, result)
            return
        records, unmarked = result.records, False
        if records:
            self._reads.count(sum(map(len, records)))
            records = kept(records, command.topic, command.group, self._find_group)
        reader = self._reader(connection, command, records)
        if records and not command.whole:
            records, marked = unexpired(records, self._clock.wall_ms())
            unmarked = not marked
        self.served += len(records)
        connection.answer(
            PulledBy(
                command.ticket, "FOUND" if records else "NO_MATCH", records, result.next_offset, result.min_offset,
                result.max_offset, unmarked, reader,
            )
        )  # fmt: skip

    def _send_on(self, connection: ClientConnection, command: Pull, result: ReadResult | None) -> None:
        """Send a reader to the leader with the same offset; one that was sent there within AGAIN_NS is refused."""
        self.elsewhere += 1
        place, now = (command.group, command.topic, command.queue_id), self._clock.monotonic_ns()
        self._leaves(connection, place)
        sent_on = _of(self._sent_on, connection, place)
        offset, when_ns = sent_on.get(place, (-1, 0))
        sent_on[place] = command.offset, now
        if offset == command.offset and now - when_ns < AGAIN_NS:
            connection.answer(Refused(command.ticket, LEADERLESS))
            return
        low, high = (0, 0) if result is None else (result.min_offset, result.max_offset)
        connection.answer(PulledBy(command.ticket, ELSEWHERE, [], command.offset, low, high))

    def _reader(self, connection: ClientConnection, command: Pull, records: list[bytes]) -> int:
        """The replica to ask next: this one, or 0, the leader, when the reader is near the end or has been here for long."""
        place = (command.group, command.topic, command.queue_id)
        if records and self._end() - Record(records[-1]).physical_offset <= self._near_bytes:
            self._leaves(connection, place)
            return 0
        now = self._clock.monotonic_ns()
        stays = _of(self._stays, connection, place)
        if now - stays.setdefault(place, now) < STAY_NS:
            return self._own()
        del stays[place]
        return 0

    def _leaves(self, connection: ClientConnection, place: Place) -> None:
        self._stays.get(connection, {}).pop(place, None)

    # Other questions

    def _view(self, connection: ClientConnection, command: ViewMessage) -> None:
        def viewed(result: bytes | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, _known(result)))
            else:
                self._reads.count(len(result))
                connection.answer(Viewed(command.ticket, result))

        self._in_turn(connection, lambda: self._log.record_at(command.physical_offset, viewed))

    def _bounds(self, connection: ClientConnection, command: QueryBounds) -> None:
        """Answer with the bounds of this replica. A later answer of the leader may have a higher end, never a lower one."""
        topic = self._topic(command.topic, command.queue_id)
        if topic is None:
            connection.answer(Refused(command.ticket, UNKNOWN))
            return
        answer_bounds(self._log, self._questions, connection, command, topic)

    def _search(self, connection: ClientConnection, command: SearchOffset) -> None:
        """An offset by time, unless it is the end of the queue here: the leader may have more."""
        if self._topic(command.topic, command.queue_id) is None or command.queue_id < 0:
            connection.answer(Refused(command.ticket, UNKNOWN))
            return

        def found(end: int, result: int | Failure) -> None:
            if isinstance(result, Failure) or result + command.upper >= end:
                connection.answer(Refused(command.ticket, result if isinstance(result, Failure) else UNKNOWN))
            else:
                connection.answer(Offset(command.ticket, result))

        def bounded(bounds: tuple[int, int] | Failure) -> None:
            if isinstance(bounds, Failure):
                connection.answer(Refused(command.ticket, bounds))
            else:
                then = partial(found, bounds[1])
                self._log.search(command.topic, command.queue_id, command.timestamp_ms, command.upper, then)

        self._log.bounds(command.topic, command.queue_id, bounded)

    def _earliest(self, connection: ClientConnection, command: QueryEarliestStoreTime) -> None:
        """Store time of the first message; a queue that is empty here may not be empty at the leader."""

        def bounded(bounds: tuple[int, int] | Failure) -> None:
            if isinstance(bounds, Failure) or bounds[0] >= bounds[1]:
                connection.answer(Refused(command.ticket, bounds if isinstance(bounds, Failure) else UNKNOWN))
            else:
                self._log.read(ReadRequest(command.topic, command.queue_id, bounds[0], 1, 1), read)

        def read(result: ReadResult | Failure) -> None:
            if isinstance(result, Failure) or not result.records:
                connection.answer(Refused(command.ticket, result if isinstance(result, Failure) else UNKNOWN))
            else:
                connection.answer(EarliestStoreTime(command.ticket, Record(result.records[0]).store_ms))

        if self._topic(command.topic, command.queue_id) is None or command.queue_id < 0:
            connection.answer(Refused(command.ticket, UNKNOWN))
        else:
            self._log.bounds(command.topic, command.queue_id, bounded)


def _of(known: dict[ClientConnection, dict[Place, Known]], connection: ClientConnection, place: Place) -> dict[Place, Known]:
    """The entries of the queues of a connection, kept until it closes; all are dropped when there is no room for one more."""
    found = known.get(connection)
    if found is None:
        found = known[connection] = {}

        def forget() -> None:
            known.pop(connection, None)

        connection.on_close.append(forget)
    if len(found) >= STAYS_MAX and place not in found:
        found.clear()
    return found


def _known(failure: Failure) -> Failure:
    """The failure for the client: a message that is not found here may be at the leader."""
    return UNKNOWN if failure.code is ErrorCode.MESSAGE_NOT_FOUND else failure
