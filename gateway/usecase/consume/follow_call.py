"""One FollowTopic command from its first look at the queues to its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain import limits
from domain.command import FollowTopic
from domain.delivery.expiry import unexpired
from domain.delivery.retry_owner import retry_filter
from domain.errors import ErrorCode, Failure
from domain.event import Refused, TopicFollowed
from domain.filter.filter import Filter
from domain.filter.path_filter import path_filter
from domain.ports import Clock, Timer
from domain.record import Record
from domain.store_ports import MessageLog, ReadResult
from domain.store_request import ReadRequest
from domain.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.fan_in import FanIn
from gateway.usecase.waiting.read_turns import ReadTurns

PASSED_OVER_BYTES: Final = 64 * 1024
"""What a read counts that passes over messages that are not wanted, and finds none."""


class FollowContext:
    """What all FollowTopic commands of a node work with.

    log      reads messages
    find_group  the group of a name
    clock    tells which messages have expired
    reads    bounds the bytes that are read and answered in one turn
    parked   topic -> the commands that wait for its messages
    waiting  how many wait, at most `waiting_max`
    expired  expired messages that were passed over
    waits    called with the topic of a command that is parked. True: its messages are told from now on, and it reads once more
    interest called with that topic and False when the command is answered
    """

    def __init__(self, log: MessageLog, clock: Clock, reads: ReadTurns, find_group: Callable[[str], Group | None]) -> None:
        self.log = log
        self.find_group = find_group
        self.clock = clock
        self.reads = reads
        self.parked: dict[str, dict[FollowCall, None]] = {}
        self.waiting = 0
        self.waiting_max = limits.LONG_POLLS_MAX
        self.expired = 0
        self.waits: Callable[[str], bool] = _told_anyway
        self.interest: Callable[[str, bool], None] = _nobody


@final
class FollowCall:
    """A command is reading, parked (`_parked`), or answered (`done`).

    connection   where the answer goes
    command      the client's command
    done         True: the answer is given, or the connection has closed
    _epoch       the topic's epoch
    _offsets     queue id -> offset to go on at
    _dirty       queues that may have messages, in the order in which they are read
    _fresh       records that have just arrived, by queue, for a parked command; shared with all others
    _records     what is found
    _size        bytes of it
    _scanned     bytes of records that were read for it, wanted or not
    _wanted      the path filter, when the command has another filter too
    _read_by     the filter that the store applies
    _reading     True: the store has not answered the last read
    _calling     True: the call of that read has not returned
    _timer       runs when the wait time is over
    _follows     True: `FollowContext.waits` said that the topic is followed for this command
    """

    __slots__ = (
        "_calling", "_context", "_dirty", "_epoch", "_follows", "_fresh", "_offsets", "_parked", "_read_by", "_reading",
        "_records", "_scanned", "_size", "_timer", "_wanted", "command", "connection", "done",
    )  # fmt: skip

    def __init__(self, context: FollowContext, connection: ClientConnection, command: FollowTopic, epoch: int) -> None:
        self._context = context
        self.connection = connection
        self.command = command
        self.done = False
        self._epoch = epoch
        self._offsets: dict[int, int] = {}
        self._dirty: dict[int, None] = {}
        self._fresh: list[tuple[int, Sequence[bytes]]] = []
        self._records: list[bytes] = []
        self._size = self._scanned = 0
        self._reading = self._calling = self._parked = self._follows = False
        self._timer: Timer | None = None
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
            self._answer(Refused(self.command.ticket, failure))
            return
        command = self.command
        for (_, queue), (low, high) in found.items():
            at = command.offsets.get(queue)
            if command.start == "last":
                self._offsets[queue] = high
            elif command.start == "first" or at is None:
                self._offsets[queue] = low
            elif not low <= at <= high:
                self._tell("TOO_SMALL" if at < low else "TOO_LARGE")
                return
        self._start()

    def _start(self) -> None:
        reads = self._context.reads
        if reads.crowded:
            reads.add(self.connection, self._read_all)
        else:
            self._read_all()

    def _read_all(self) -> None:
        """Read the queues that may have messages, one after the other: a store elsewhere answers later."""
        while self._dirty and not self.done and not self.connection.closed:
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
        if not self.done:
            self._finish()

    def _found(self, queue: int, result: ReadResult | Failure) -> None:
        self._reading = False
        if self.done:
            return
        if isinstance(result, Failure):
            self._answer(Refused(self.command.ticket, result))
            return
        if result.status in ("TOO_SMALL", "TOO_LARGE"):
            self._tell(result.status)
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
            self._tell("FOUND" if self._records else "EMPTY")
        elif self._parked:
            self._serve_fresh()
        else:
            self._park()

    def _park(self) -> None:
        context, command = self._context, self.command
        if context.waiting >= context.waiting_max:
            self._answer(Refused(command.ticket, Failure(ErrorCode.POLLING_FULL, "too many readers wait: come again later")))
            return
        self._parked = True
        self._dirty = {}  # an emptied one keeps its room, and thousands wait
        context.waiting += 1
        context.parked.setdefault(command.topic, {})[self] = None
        wait_ms = min(command.wait_ms, limits.WAIT_MS_MAX)
        due_ns = context.clock.monotonic_ns() + wait_ms * limits.MILLISECOND_NS
        self._timer = context.clock.call_at(due_ns, self._overdue)
        self.connection.on_close.append(self.abandon)
        if context.waits(command.topic):
            self._follows = True
            self._dirty = dict.fromkeys(self._offsets)
            self._read_all()

    def told(self, queue: int, records: Sequence[bytes]) -> bool:
        """Records have arrived in a queue, for a parked command. Returns True when it wants to be served."""
        if queue not in self._offsets:
            # A queue that the topic was given meanwhile: the next command begins it at its first message.
            return self.command.queue_id < 0
        self._fresh.append((queue, records))
        return True

    def serve(self) -> None:
        """Answer with what has arrived, if it is wanted; else go on waiting."""
        if self.done or self._reading:
            return
        if not self._fresh:
            # A queue that the topic was given meanwhile.
            self._tell("EMPTY", len(self._offsets))
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

    def _overdue(self) -> None:
        self._timer = None
        if not self.done:
            self._tell("EMPTY")

    def refuse(self, failure: Failure) -> None:
        """Answer Refused: the client may not read these messages any more."""
        self._answer(Refused(self.command.ticket, failure))

    def abandon(self) -> None:
        """Leave the commands that wait: the connection has closed."""
        self._leave()

    def _leave(self) -> None:
        self.done = True
        if not self._parked:
            return
        self._parked = False
        context, topic = self._context, self.command.topic
        context.waiting -= 1
        calls = context.parked[topic]
        del calls[self]
        if not calls:
            del context.parked[topic]
        if self._timer is not None:
            self._timer.cancel()
        if self._follows:
            context.interest(topic, False)

    def _tell(self, status: str, next_queue: int = -1) -> None:
        command = self.command
        if self._scanned:
            self._context.reads.count(self._scanned)
        next_queue = next(iter(self._dirty), next_queue)
        self._answer(TopicFollowed(command.ticket, status, self._records, self._offsets, self._epoch, next_queue))

    def _answer(self, event: TopicFollowed | Refused) -> None:
        if self.done:
            return
        if self._parked and self.abandon in self.connection.on_close:
            self.connection.on_close.remove(self.abandon)
        self._leave()
        self.connection.answer(event)


def _told_anyway(_topic: str) -> bool:
    """Default of `FollowContext.waits`."""
    return False


def _nobody(_topic: str, _begins: bool) -> None:
    """Default of `FollowContext.interest`."""
