"""One Pull command: it reads a queue by offset, and waits at its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import final

from domain import limits
from domain.command import Pull
from domain.delivery.expiry import unexpired
from domain.delivery.retry_owner import kept
from domain.errors import Failure
from domain.event import Event, Pulled, Refused
from domain.message.record import Record
from domain.ports import Clock
from domain.replication.reads import PulledBy
from domain.store.message_store import MessageStore
from domain.store.store_ports import Leases, ReadResult
from domain.store.store_request import PullRequest, ReadRequest
from domain.topic import lite
from domain.topic.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.attempt_limit import AttemptLimit, leased
from gateway.usecase.consume.leasing_call import LeasingContext
from gateway.usecase.consume.offload import Offload
from gateway.usecase.membership.members import Registry
from gateway.usecase.membership.pending_resets import PendingResets
from gateway.usecase.waiting.long_polls import LiveTails, LongPolls, WaitingCall


@final
class ParkedPulls:
    """The pulls that wait at the end of a queue. Each has a key of its own, so that no reader waits behind another."""

    def __init__(self, clock: Clock, tails: LiveTails | None) -> None:
        self.polls = LongPolls(clock, tails=tails)
        self._serial = 0
        self._lite_count = 0
        self._of_members: dict[tuple[str, str], dict[PullPoll, None]] = {}

    def park(self, poll: PullPoll) -> bool:
        """Park one pull for its wait time. Returns False when too many are parked."""
        self._serial += 1
        command = poll.command
        if not poll.park((f"\x00{self._serial}", command.topic, command.queue_id), command.wait_ms):
            return False
        self._lite_count += command.topic.startswith(lite.PREFIX)
        if command.member:
            self._of_members.setdefault((command.group, command.topic), {})[poll] = None
        return True

    def forget(self, poll: PullPoll) -> None:
        """Wake a pull no more that was parked and is answered."""
        command = poll.command
        self._lite_count -= command.topic.startswith(lite.PREFIX)
        key = (command.group, command.topic)
        waiting = self._of_members.get(key)
        if waiting is not None:
            waiting.pop(poll, None)
            if not waiting:
                del self._of_members[key]

    def wake_lite(self, parent: str, name: str) -> None:
        """Serve the pulls that wait at the end of one lite topic's queue."""
        if self._lite_count:
            self.polls.wake(lite.queue_name(parent, name), 0)

    def wake_members(self, group: str, topic: str) -> None:
        """Serve the pulls of members of `group`, which are given messages whose leases have ended."""
        for poll in list(self._of_members.get((group, topic), ())):
            if poll.key is not None:
                self.polls.serve(poll.key)


@final
class PullContext:
    """The collaborators of all pulls of a node.

    positions       commits the offsets of readers that are no members
    pulls           reads and leases messages for members, and commits their offsets
    leasing         the collaborators of all calls that lease
    attempt_limit   moves leased messages whose attempts are used up to dead letters
    resets          positions that were set and that readers have still to take over
    expired         expired messages that were passed over
    offload         sends readers that are far behind to replicas that follow; None: it is not replicated
    """

    __slots__ = (
        "attempt_limit", "expired", "find_group", "leasing", "log", "offload", "parked", "positions", "pulls", "registry",
        "resets",
    )  # fmt: skip

    def __init__(
        self, store: MessageStore, leasing: LeasingContext, registry: Registry, resets: PendingResets,
        tails: LiveTails | None,
    ) -> None:  # fmt: skip
        self.log = store.log
        self.positions = store.positions
        self.pulls = store.pulls
        self.find_group: Callable[[str], Group | None] = store.metadata.group
        self.leasing = leasing
        self.attempt_limit = AttemptLimit(leasing.groups, leasing.dead_letters)
        self.registry = registry
        self.resets = resets
        self.parked = ParkedPulls(leasing.clock, tails)
        self.expired = 0
        self.offload: Offload | None = None

    def refusal(self, command: Pull) -> Failure | None:
        """The reason for which the group may not read the topic now; None: it may."""
        return self.leasing.rights.refusal(command.group, command.topic, command.broadcast)

    def reset_offset(self, command: Pull) -> int | None:
        """The offset that the reader has to go on at since its group's position was reset; None: at the one it asks for."""
        return self.resets.required_offset(command.group, command.topic, command.queue_id, command.offset)


def answer_moved(receiver: ClientConnection | PullPoll, command: Pull, offset: int, bounds: tuple[int, int] | Failure) -> None:
    """Answer a pull whose group's position was reset to `offset`: its own is out of range, since `bounds` are the queue's."""
    if isinstance(bounds, Failure):
        receiver.answer(Refused(command.ticket, bounds))
        return
    status = "TOO_LARGE" if command.offset > offset else "TOO_SMALL"
    receiver.answer(Pulled(command.ticket, status, [], offset, *bounds))


@final
class PullPoll(WaitingCall[Pull]):
    """A pull is reading (`_is_reading`), parked, or answered. It stays parked while it reads again.

    The store answers a plain read before the call returns, and a read with leases when these are written. The command's offset
    moves on over messages that the filter does not want.

    _is_reading   the store has not answered the last read
    _is_missed    the pull was woken while it was reading
    _last         the last result without messages, for the answer at the end of the wait time
    _unmarked     `Pulled.unmarked` of the last result
    _was_parked   the pull is parked, or was until it expired or was answered
    """

    __slots__ = ("_context", "_is_missed", "_is_reading", "_last", "_unmarked", "_was_parked")

    def __init__(self, context: PullContext, connection: ClientConnection, command: Pull) -> None:
        super().__init__(context.parked.polls, connection, command)
        self._context = context
        self._is_reading = False
        self._is_missed = False
        self._last: ReadResult | None = None
        self._unmarked = False
        self._was_parked = False

    def read(self) -> None:
        """Read, when this turn may read more messages; else in a later one."""
        self._is_reading = True
        self.in_turn(self._context.leasing.reads, self._read_in_turn)

    def _read_in_turn(self) -> None:
        """Read from the command's offset; a member of the group leases the messages where others receive."""
        context, command = self._context, self.command
        if self.is_answered or self.connection.closed:
            self._is_reading = False
            return
        member = context.registry.members(command.group).get(command.member) if command.member else None
        request = read_request(command)
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
            context.log.bounds(command.topic, command.queue_id, partial(answer_moved, self, command, offset))
        return self.is_answered

    def expire(self) -> None:
        """Answer with the last result without messages."""
        last = self._last
        if last is not None:
            self.answer(self._pulled(last))

    def abandon(self) -> None:
        """Leave the parked pulls: the connection has closed."""
        super().abandon()
        self._forget()

    def answer(self, event: Event) -> None:
        """Give the answer and leave the parked pulls."""
        if isinstance(event, Pulled) and event.records:
            leasing = self._context.leasing
            size = 0
            for record in event.records:
                size += len(record)
            leasing.counters.pulled(self.command.group, self.command.topic, len(event.records), size)
            leasing.reads.count(size)
        super().answer(event)
        self._forget()

    def _forget(self) -> None:
        if self._was_parked:
            self._was_parked = False
            self._context.parked.forget(self)

    def _found(self, result: ReadResult | Failure) -> None:
        """Take the messages read; of leased ones, those whose attempts are used up become dead letters first."""
        if isinstance(result, Failure):
            self._is_reading = False
            if not self.is_answered:
                self.refuse(result)
            return
        if result.records:
            result = self._own(result)
        if result.records and not self.command.whole:
            result = self._unexpired(result)
        if result.pop_ms and not self.is_answered:
            self._context.attempt_limit.pulled(self.command, result, self._deliver)
        else:
            self._deliver(result)

    def _unexpired(self, result: ReadResult) -> ReadResult:
        """`result` without its expired messages; of leased ones, the leases are settled."""
        context = self._context
        left, marked = unexpired(result.records, context.leasing.clock.wall_ms())
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
            context.leasing.leases.settle(command.group, command.topic, receipts, _settled)
        return result.left(left, "NO_MATCH")

    def _deliver(self, result: ReadResult) -> None:
        """Answer with `result`; at the end of the queue, park the pull instead."""
        command = self.command
        self._is_reading = False
        if self.is_answered or self.connection.closed:
            withdraw(self._context.leasing.leases, command, result)
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
            if self._was_parked:
                return
            self._was_parked = self._context.parked.park(self)
            if self._was_parked:
                if self.polls.begin_tail(self):
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
        self.answer(self._pulled(result, self._unmarked))

    def _pulled(self, result: ReadResult, unmarked: bool = False) -> Pulled:
        return Pulled(
            self.command.ticket, result.status, result.records, result.next_offset, result.min_offset, result.max_offset,
            unmarked,
        )  # fmt: skip


def read_request(command: Pull) -> ReadRequest:
    """The read of a pull, within the bounds of one pull."""
    limit = max(1, min(command.limit, limits.BATCH_MESSAGES_MAX))
    size = min(command.max_bytes, limits.PULL_BYTES_MAX) if command.max_bytes > 0 else limits.PULL_BYTES_MAX
    return ReadRequest(command.topic, command.queue_id, command.offset, limit, size, command.filter)


def _settled(_result: list[Failure | None] | Failure) -> None:
    """Called when expired messages are settled. One whose settlement has failed is settled by the member's next commit."""


def withdraw(leases: Leases, command: Pull, result: ReadResult) -> None:
    """End the leases of messages that came too late for an answer. Does nothing for messages that were only read."""
    if result.pop_ms and result.records:
        receipts = [leased(command, result, Record(data)) for data in result.records]
        leases.withdraw(command.group, command.topic, receipts, True)
