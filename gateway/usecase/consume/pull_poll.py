"""One Pull command from its first read to its answer, and the pulls that are parked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import final

from domain import limits, lite
from domain.command import Pull
from domain.delivery.expiry import unexpired
from domain.delivery.retry_owner import kept
from domain.errors import Failure
from domain.event import Pulled, Refused
from domain.message_store import MessageStore
from domain.ports import Clock
from domain.record import Record
from domain.replication.reads import PulledBy
from domain.store_ports import Leases, ReadResult
from domain.store_request import PullRequest, ReadRequest
from domain.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.catalog.counters import MessageCounters
from gateway.usecase.catalog.rights import Rights
from gateway.usecase.consume.attempt_limit import AttemptLimit, leased
from gateway.usecase.consume.offload import Offload
from gateway.usecase.membership.members import Registry
from gateway.usecase.membership.pending_resets import PendingResets
from gateway.usecase.waiting.long_polls import LongPoll, LongPolls, RightsCheck
from gateway.usecase.waiting.read_turns import ReadTurns


@final
class ParkedPulls:
    """The pulls that wait at the end of a queue. Each has a key of its own, so that no reader waits behind another.

    waits     called with the topic of a pull that is parked. True: its messages are told from now on, and it reads once more
    interest  called with that topic and False when the pull is answered
    """

    def __init__(self, clock: Clock) -> None:
        self.waits: Callable[[str], bool] = _told_anyway
        self.interest: Callable[[str, bool], None] = _nobody
        self._followed: set[LongPoll] = set()
        self._long_polls = LongPolls(clock)
        self._serial = 0
        self._lite_count = 0
        self._of_members: dict[tuple[str, str], dict[LongPoll, None]] = {}

    def __len__(self) -> int:
        return len(self._long_polls)

    def park(self, poll: PullPoll) -> LongPoll | None:
        """Park one pull for its wait time. Returns None when too many are parked."""
        self._serial += 1
        command = poll.command
        key = (f"\x00{self._serial}", command.topic, command.queue_id)
        place = self._long_polls.park(key, min(command.wait_ms, limits.WAIT_MS_MAX), poll)
        if place is not None:
            self._lite_count += command.topic.startswith(lite.PREFIX)
            if command.member:
                self._of_members.setdefault((command.group, command.topic), {})[place] = None
        return place

    def follows(self, command: Pull, place: LongPoll) -> bool:
        """Follow the topic of a pull that was parked. True: what came before that is to be read."""
        if not self.waits(command.topic):
            return False
        self._followed.add(place)
        return True

    def leave(self, command: Pull, place: LongPoll) -> None:
        """Remove a pull that was parked, also when its long poll is done."""
        self._long_polls.leave(place)
        if place in self._followed:
            self._followed.discard(place)
            self.interest(command.topic, False)
        self._lite_count -= command.topic.startswith(lite.PREFIX)
        key = (command.group, command.topic)
        waiting = self._of_members.get(key)
        if waiting is not None:
            waiting.pop(place, None)
            if not waiting:
                del self._of_members[key]

    def wake(self, topic: str, queue_id: int) -> None:
        """Serve the pulls that wait at the end of one queue."""
        self._long_polls.wake(topic, queue_id)

    def wake_lite(self, parent: str, name: str) -> None:
        """Serve the pulls that wait at the end of one lite topic's queue."""
        if self._lite_count:
            self._long_polls.wake(lite.queue_name(parent, name), 0)

    def wake_members(self, group: str, topic: str) -> None:
        """Serve the pulls of members of `group`, which are given messages whose leases have ended."""
        for place in list(self._of_members.get((group, topic), ())):
            self._long_polls.wake_one(place)

    def review(self, check: RightsCheck) -> None:
        """Refuse the parked pulls that `check` forbids."""
        self._long_polls.review(check)


@final
class PullContext:
    """What all pulls of a node work with.

    log             reads messages
    leases          ends the leases of messages that come too late
    positions       commits the offsets of readers that are no members
    pulls           reads and leases messages for members, and commits their offsets
    registry        the members of groups
    rights          tells whether a group may read a topic
    resets          positions that were set and that readers have still to take over
    attempt_limit   moves leased messages whose attempts are used up to dead letters
    counters        counts the messages that groups pull
    parked          the pulls that wait
    clock           tells which messages have expired
    find_group      the group of a name
    reads           bounds the bytes that are read and answered in one turn
    expired         expired messages that were passed over
    offload         sends readers that are far behind to replicas that follow; None: it is not replicated
    """

    __slots__ = (
        "attempt_limit", "clock", "counters", "expired", "find_group", "leases", "log", "offload", "parked", "positions",
        "pulls", "reads", "registry", "resets", "rights",
    )  # fmt: skip

    def __init__(
        self, store: MessageStore, registry: Registry, rights: Rights, resets: PendingResets, attempt_limit: AttemptLimit,
        clock: Clock, counters: MessageCounters, reads: ReadTurns,
    ) -> None:  # fmt: skip
        self.log = store.log
        self.leases = store.leases
        self.positions = store.positions
        self.pulls = store.pulls
        self.registry = registry
        self.rights = rights
        self.resets = resets
        self.attempt_limit = attempt_limit
        self.counters = counters
        self.parked = ParkedPulls(clock)
        self.reads = reads
        self.clock = clock
        self.find_group: Callable[[str], Group | None] = store.metadata.group
        self.expired = 0
        self.offload: Offload | None = None

    def refusal(self, command: Pull) -> Failure | None:
        """Why the group may not read the topic now, None when it may."""
        return self.rights.refusal(command.group, command.topic, command.broadcast)

    def reset_offset(self, command: Pull) -> int | None:
        """The offset that the reader has to go on at since its group's position was reset; None: at the one it asks for."""
        return self.resets.required_offset(command.group, command.topic, command.queue_id, command.offset)


@final
class OffsetMoved:
    """Answers a pull whose group's position was reset: the offset is out of range, and the reset one is next."""

    __slots__ = ("_command", "_offset", "_receiver")

    def __init__(self, receiver: ClientConnection | PullPoll, command: Pull, offset: int) -> None:
        self._receiver = receiver
        self._command = command
        self._offset = offset

    def answer(self, bounds: tuple[int, int] | Failure) -> None:
        """Answer with `bounds`, the lowest and the next offset of the queue."""
        command = self._command
        if isinstance(bounds, Failure):
            self._receiver.answer(Refused(command.ticket, bounds))
            return
        status = "TOO_LARGE" if command.offset > self._offset else "TOO_SMALL"
        self._receiver.answer(Pulled(command.ticket, status, [], self._offset, *bounds))


@final
class PullPoll:
    """A pull is reading (`_is_reading`), parked (`_place` is set), or answered.

    The store answers a plain read before the call returns, and a read with leases when these are written.

    connection    where the answer goes
    command       the client's command; its offset moves on over messages that the filter does not want

    _place        the long poll since the pull was parked
    _is_answered  the answer is given
    _is_reading   the store has not answered the last read
    _is_missed    the pull was woken while it was reading
    _last         the last result without messages, for the answer at the end of the wait time
    _unmarked     `Pulled.unmarked` of the last result
    """

    __slots__ = (
        "_context", "_is_answered", "_is_missed", "_is_reading", "_last", "_place", "_unmarked", "command", "connection",
    )  # fmt: skip

    def __init__(self, context: PullContext, connection: ClientConnection, command: Pull) -> None:
        self._context = context
        self.connection = connection
        self.command = command
        self._place: LongPoll | None = None
        self._is_answered = False
        self._is_reading = False
        self._is_missed = False
        self._last: ReadResult | None = None
        self._unmarked = False

    def read(self) -> None:
        """Read, when this turn may read more messages; else in a later one."""
        self._is_reading = True
        reads = self._context.reads
        if reads.crowded:
            reads.add(self.connection, self._read_in_turn)
        else:
            self._read_in_turn()

    def _read_in_turn(self) -> None:
        """Read from the command's offset; a member of the group leases what it reads where others receive."""
        context, command = self._context, self.command
        if self._is_answered or self.connection.closed:
            self._is_reading = False
            return
        limit = max(1, min(command.limit, limits.BATCH_MESSAGES_MAX))
        size = min(command.max_bytes, limits.PULL_BYTES_MAX) if command.max_bytes > 0 else limits.PULL_BYTES_MAX
        member = context.registry.members(command.group).get(command.member) if command.member else None
        request = ReadRequest(command.topic, command.queue_id, command.offset, limit, size, command.filter)
        if member is None:
            context.log.read(request, self._found)
        else:
            context.pulls.pull(PullRequest(command.group, command.member, member.retry_topic, request), self._found)

    def attempt(self) -> bool:
        """Read again for a parked pull, or send its reader to a reset offset. Returns True when it is answered."""
        context = self._context
        offset = context.reset_offset(self.command)
        failure = context.refusal(self.command)
        if failure is not None:
            self.refuse(failure)
        elif self._is_reading:
            self._is_missed = True
        elif offset is None:
            self.read()
        else:
            command = self.command
            context.log.bounds(command.topic, command.queue_id, OffsetMoved(self, command, offset).answer)
        return self._is_answered

    def expire(self) -> None:
        """Answer with the last result without messages: the wait time is over."""
        last = self._last
        if last is not None:
            self.answer(
                Pulled(self.command.ticket, last.status, [], last.next_offset, last.min_offset, last.max_offset)
            )  # fmt: skip

    def refuse(self, failure: Failure) -> None:
        """Answer Refused: the client may not read these messages any more."""
        self.answer(Refused(self.command.ticket, failure))

    def abandon(self) -> None:
        """Leave the parked pulls: the connection has closed."""
        if self._place is not None and not self._is_answered:
            self._is_answered = True
            self._context.parked.leave(self.command, self._place)

    def answer(self, event: Pulled | Refused) -> None:
        """Give the answer and leave the parked pulls."""
        self._is_answered = True
        context = self._context
        if isinstance(event, Pulled) and event.records:
            size = 0
            for record in event.records:
                size += len(record)
            context.counters.pulled(self.command.group, self.command.topic, len(event.records), size)
            context.reads.count(size)
        if self._place is not None:
            context.parked.leave(self.command, self._place)
            if self.abandon in self.connection.on_close:
                self.connection.on_close.remove(self.abandon)
        self.connection.answer(event)

    def _found(self, result: ReadResult | Failure) -> None:
        """Take what the store has read; of leased messages, those whose attempts are used up become dead letters first."""
        if isinstance(result, Failure):
            self._is_reading = False
            if not self._is_answered:
                self.answer(Refused(self.command.ticket, result))
            return
        if result.records:
            result = self._own(result)
        if result.records and not self.command.whole:
            result = self._unexpired(result)
        if result.pop_ms and not self._is_answered:
            self._context.attempt_limit.pulled(self.command, result, self._deliver)
        else:
            self._deliver(result)

    def _unexpired(self, result: ReadResult) -> ReadResult:
        """`result` without its expired messages; of leased ones, the leases are settled."""
        context = self._context
        left, marked = unexpired(result.records, context.clock.wall_ms())
        self._unmarked = not marked
        context.expired += len(result.records) - len(left)
        return self._with(result, left)

    def _own(self, result: ReadResult) -> ReadResult:
        """`result` without the messages of a retry topic that are for other groups."""
        command = self.command
        return self._with(result, kept(result.records, command.topic, command.group, self._context.find_group))

    def _with(self, result: ReadResult, left: list[bytes]) -> ReadResult:
        """`result` with those of its messages that are `left`; of leased ones, the leases of the others are settled."""
        context, command = self._context, self.command
        if len(left) == len(result.records):
            return result
        gone = set(result.records).difference(left)
        if result.pop_ms:
            receipts = [leased(command, result, Record(data)) for data in result.records if data in gone]
            context.leases.settle(command.group, command.topic, receipts, _settled)
        return replace(result, records=left, status="FOUND" if left else "NO_MATCH")

    def _deliver(self, result: ReadResult) -> None:
        """Answer with `result`; at the end of the queue, park the pull instead."""
        command = self.command
        self._is_reading = False
        if self._is_answered:
            withdraw(self._context.leases, command, result)
            return
        if self._is_missed and not result.records:
            self._is_missed = False
            self.read()
            return
        at_end = result.status == "EMPTY" or (result.status == "NO_MATCH" and result.next_offset >= result.max_offset)
        if at_end and command.wait_ms > 0:
            self._last = result
            # The next attempt begins behind the messages that the filter did not want.
            command.offset = max(command.offset, result.next_offset)
            if self._place is not None:
                return
            self._place = self._context.parked.park(self)
            if self._place is not None:
                self.connection.on_close.append(self.abandon)
                if self._context.parked.follows(command, self._place):
                    self.read()
                return
        offload = self._context.offload
        reader = 0 if offload is None else offload.reader(self.connection, result)
        if reader:
            self.answer(
                PulledBy(
                    command.ticket, result.status, result.records, result.next_offset, result.min_offset, result.max_offset,
                    self._unmarked, reader,
                )
            )  # fmt: skip
            return
        self.answer(
            Pulled(
                command.ticket, result.status, result.records, result.next_offset, result.min_offset, result.max_offset,
                self._unmarked,
            )
        )  # fmt: skip


def _told_anyway(_topic: str) -> bool:
    """Default of `ParkedPulls.waits`."""
    return False


def _nobody(_topic: str, _begins: bool) -> None:
    """Default of `ParkedPulls.interest`."""


def _settled(_result: list[Failure | None] | Failure) -> None:
    """Called when expired messages are settled. One whose settlement has failed is settled by the member's next commit."""


def withdraw(leases: Leases, command: Pull, result: ReadResult) -> None:
    """End the leases of messages that came too late for an answer. Does nothing for messages that were only read."""
    if result.pop_ms and result.records:
        receipts = [leased(command, result, Record(data)) for data in result.records]
        leases.withdraw(command.group, command.topic, receipts)
