"""One FollowTopic command: it reads the queues of a topic, and waits at their ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain import limits
from domain.command import FollowTopic
from domain.delivery.expiry import unexpired
from domain.delivery.retry_owner import retry_filter
from domain.errors import ErrorCode, Failure
from domain.event import TopicFollowed
from domain.filter.filter import Filter
from domain.filter.stored_path_filter import path_filter
from domain.message.record import Record
from domain.ports import Clock
from domain.store.store_ports import MessageLog, ReadResult
from domain.store.store_request import ReadRequest
from domain.topic.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.waiting.fan_in import FanIn
from gateway.usecase.waiting.long_polls import LiveTails, LongPolls, WaitingCall
from gateway.usecase.waiting.read_turns import ReadTurns

PASSED_OVER_BYTES: Final = 64 * 1024
"""Bytes counted for a read that passes over messages that are not wanted, and finds none."""


@final
class FollowContext:
    """The collaborators of all FollowTopic commands of a node.

    clock       decides which messages have expired
    reads       bounds the bytes that are read and answered in one turn
    polls       the commands that wait, by topic
    expired     expired messages that were passed over
    """

    __slots__ = ("clock", "expired", "find_group", "log", "polls", "reads")

    def __init__(
        self,
        log: MessageLog,
        clock: Clock,
        reads: ReadTurns,
        find_group: Callable[[str], Group | None],
        tails: LiveTails | None,
    ) -> None:
        self.log = log
        self.find_group = find_group
        self.clock = clock
        self.reads = reads
        self.polls = LongPolls(clock, limits.LONG_POLLS_MAX, tails)
        self.expired = 0


@final
class FollowCall(WaitingCall[FollowTopic]):
    """A command is reading, parked, or answered. It stays parked while it reads new messages.

    _offsets     queue id -> offset to go on at
    _dirty       queues that may have messages, in the order in which they are read
    _fresh       records that have just arrived, by queue, for a parked command; shared with all others
    _records     messages for the answer
    _size        their bytes
    _scanned     bytes of records that were read for it, wanted or not
    _wanted      the path filter, when the command has another filter too
    _read_by     the filter that the store applies
    _reading     True: the store has not answered the last read
    _calling     True: the call of that read has not returned
    """

    __slots__ = (
        "_calling", "_context", "_dirty", "_epoch", "_fresh", "_offsets", "_read_by", "_reading", "_records", "_scanned",
        "_size", "_wanted",
    )  # fmt: skip

    def __init__(self, context: FollowContext, connection: ClientConnection, command: FollowTopic, epoch: int) -> None:
        super().__init__(context.polls, connection, command)
        self._context = context
        self._epoch = epoch
        self._offsets: dict[int, int] = {}
        self._dirty: dict[int, None] = {}
        self._fresh: list[tuple[int, Sequence[bytes]]] = []
        self._records: list[bytes] = []
        self._size = self._scanned = 0
        self._reading = self._calling = False
        by_path = path_filter(command.topic, (command.pattern,)) if command.pattern else None
        self._wanted: Filter | None = by_path if command.filter is not None else None
        read_by = command.filter if command.filter is not None else by_path
        self._read_by = retry_filter(command.topic, "", context.find_group, inner=read_by)

    def begin(self, queues: Sequence[int]) -> None:
        """Find where to begin in queues that have no offset yet, and read."""
        command = self.command
        missing = queues if command.start else [queue for queue in queues if queue not in command.offsets]
        self._offsets = {queue: command.offsets[queue] for queue in queues if queue in command.offsets}
        ahead = [queue for queue in queues if queue >= command.first_queue]
        self._dirty = dict.fromkeys([*ahead, *(queue for queue in queues if queue < command.first_queue)])
        if missing:
            FanIn(self._context.log.bounds, self._bounded).start([(command.topic, queue) for queue in missing])
        else:
            self._start()

    def _bounded(self, found: dict[tuple[str, int], tuple[int, int]], failure: Failure | None) -> None:
        if failure is not None:
            self.refuse(failure)
            return
        command = self.command
        for (_, queue), (low, high) in found.items():
            at = command.offsets.get(queue)
            if command.start == "last":
                self._offsets[queue] = high
            elif command.start == "first" or at is None:
                self._offsets[queue] = low
            elif not low <= at <= high:
                self._notify("TOO_SMALL" if at < low else "TOO_LARGE")
                return
        self._start()

    def _start(self) -> None:
        self.in_turn(self._context.reads, self._read_all)

    def _read_all(self) -> None:
        """Read the queues that may have messages, one after the other: a store elsewhere answers later."""
        while self._dirty and not self.is_answered and not self.connection.closed:
            if len(self._records) >= self.command.limit or self._scanned >= self.command.max_bytes:
                break
            queue = next(iter(self._dirty))
            del self._dirty[queue]
            self._reading = True
            command = self.command
            request = ReadRequest(
                command.topic, queue, self._offsets[queue], command.limit - len(self._records),
                max(1, command.max_bytes - self._size), self._read_by,
            )  # fmt: skip
            self._calling = True
            self._context.log.read(request, partial(self._found, queue))
            self._calling = False
            if self._reading:
                return
        if not self.is_answered:
            self._finish()

    def _found(self, queue: int, result: ReadResult | Failure) -> None:
        self._reading = False
        if self.is_answered:
            return
        if isinstance(result, Failure):
            self.refuse(result)
            return
        if result.status in ("TOO_SMALL", "TOO_LARGE"):
            self._notify(result.status)
            return
        if result.next_offset > self._offsets[queue]:
            self._offsets[queue] = result.next_offset
            if result.next_offset < result.max_offset:
                self._dirty[queue] = None
            if not result.records:
                self._scanned += PASSED_OVER_BYTES
        self._keep(result.records)
        if not self._calling:
            self._read_all()

    def _keep(self, records: Sequence[bytes]) -> None:
        if not records:
            return
        context = self._context
        self._scanned += sum(map(len, records))
        kept, _ = unexpired(records, context.clock.wall_ms())
        context.expired += len(records) - len(kept)
        if self._wanted is not None:
            kept = [data for data in kept if self._wanted.matches(Record(data).properties)]
        self._records += kept
        self._size += sum(map(len, kept))

    def _finish(self) -> None:
        """All queues are read, or enough is found: answer, or wait."""
        if self._records or self._dirty or self.command.wait_ms <= 0:
            self._notify("FOUND" if self._records else "EMPTY")
        elif self.key is not None:
            self._serve_fresh()
        else:
            self._wait()

    def _wait(self) -> None:
        if not self.park(("", self.command.topic, -1), self.command.wait_ms):
            self.refuse(Failure(ErrorCode.POLLING_FULL, "too many readers wait: come again later"))
            return
        self._dirty = {}  # an emptied one keeps its room, and thousands wait
        if self.polls.begin_tail(self):
            self._dirty = dict.fromkeys(self._offsets)
            self._read_all()

    def arrived(self, queue: int, records: Sequence[bytes]) -> bool:
        """Keep records that arrived in a queue, for a parked command. Returns True when it wants to be served."""
        if queue not in self._offsets:
            # A queue that the topic was given meanwhile: the next command begins it at its first message.
            return self.command.queue_id < 0
        self._fresh.append((queue, records))
        return True

    def serve(self) -> None:
        """Answer with the records that have arrived, if they are wanted; else go on waiting."""
        if self.is_answered or self._reading:
            return
        if not self._fresh:
            # A queue that the topic was given meanwhile.
            self._notify("EMPTY", len(self._offsets))
            return
        self._serve_fresh()

    def _serve_fresh(self) -> None:
        """Take records that follow on the offset; other queues are read."""
        fresh, self._fresh = self._fresh, []
        if not fresh:
            return
        for queue, records in fresh:
            wanted: list[bytes] = []
            at = self._offsets[queue]
            full = len(self._records) >= self.command.limit or self._scanned >= self.command.max_bytes
            if queue in self._dirty or full or Record(records[0]).queue_offset != at:
                if Record(records[-1]).queue_offset >= at:
                    self._dirty[queue] = None
                continue
            for data in records:
                record = Record(data)
                if record.queue_offset != at or len(self._records) + len(wanted) >= self.command.limit:
                    self._dirty[queue] = None
                    break
                at += 1
                if self._read_by is None or self._read_by.matches(record.properties):
                    wanted.append(data)
            self._offsets[queue] = at
            self._keep(wanted)
        self._start()

    def expire(self) -> None:
        """Answer that nothing has arrived."""
        self._notify("EMPTY")

    def _notify(self, status: str, next_queue: int = -1) -> None:
        command = self.command
        if self._scanned:
            self._context.reads.count(self._scanned)
        next_queue = next(iter(self._dirty), next_queue)
        self.answer(TopicFollowed(command.ticket, status, self._records, self._offsets, self._epoch, next_queue))
