"""One Receive command from its first lease to its answer."""

from __future__ import annotations

from functools import partial
from typing import final

from domain import limits
from domain.command import Receive
from domain.delivery.expiry import has_expired
from domain.delivery.retry_owner import retry_filter
from domain.errors import ErrorCode, Failure
from domain.event import Leased, Received, Refused
from domain.ports import Clock
from domain.receipt import Receipt
from domain.store_ports import LeaseResult, Leases
from domain.store_request import LeaseRequest
from domain.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.catalog.counters import MessageCounters
from gateway.usecase.catalog.groups import Groups
from gateway.usecase.catalog.policy import NodePolicy
from gateway.usecase.catalog.priority import PriorityReads
from gateway.usecase.catalog.rights import Rights
from gateway.usecase.catalog.topics import RetryTopic, Topics, retry_topics
from gateway.usecase.consume.dead_letter_batch import ExhaustedMessage, ordering_key, store_dead_letters
from gateway.usecase.consume.dead_letters import DeadLetters, leased_topic
from gateway.usecase.waiting.long_polls import LongPoll, LongPolls
from gateway.usecase.waiting.read_turns import ReadTurns
from gateway.usecase.waiting.search_turns import SearchTurns


@final
class ReceiveContext:
    """What all receive calls of a node work with.

    leases          leases and settles messages
    topics          tells which topics exist
    groups          tells the limit of attempts of a group
    rights          tells whether a group may read a topic
    dead_letters    takes messages whose attempts are used up
    clock           time
    counters        counts the messages that groups receive
    priorities      chooses the queue of a receive from a topic of type PRIORITY
    long_polls      the calls that wait for messages
    searches        the calls that look for wanted messages behind thousands that are not
    reads           bounds the bytes that are read and answered in one turn
    expired         messages that were settled instead of delivered, since their expiry was over
    """

    __slots__ = (
        "clock", "counters", "dead_letters", "expired", "groups", "leases", "long_polls", "priorities", "reads", "rights",
        "searches", "topics",
    )  # fmt: skip

    def __init__(
        self, leases: Leases, topics: Topics, groups: Groups, rights: Rights, dead_letters: DeadLetters, clock: Clock,
        counters: MessageCounters, policy: NodePolicy, reads: ReadTurns,
    ) -> None:  # fmt: skip
        self.leases = leases
        self.topics = topics
        self.groups = groups
        self.rights = rights
        self.dead_letters = dead_letters
        self.clock = clock
        self.counters = counters
        self.priorities = PriorityReads(policy)
        self.long_polls = LongPolls(clock)
        self.searches = SearchTurns(clock)
        self.reads = reads
        self.expired = 0


@final
class ReceiveCall:
    """A receive call is leasing, parked (`_poll` is set), or answered.

    The store answers a lease without messages before the call of `lease` returns. It answers a lease with messages when the
    lease is written; the call is not parked meanwhile, and the next member of the group is served.

    connection   where the answer goes
    command      the client's command
    group        the consumer group as it was when the call began

    _due_ns      monotonic time at which a parked call is answered without messages
    _poll        the long poll while the call is parked
    _place       the long poll under which an attempt began; it is used again when the attempt finds nothing
    _request     what is leased from the topic itself; its queue is chosen anew for each attempt
    _found       what the topic had, and those of the group's retry topics that have been asked
    _retries     the group's retry topics that are still to be asked
    _wake_count  `LongPolls.wake_count` when the last attempt began
    _is_followed the connection calls `abandon` when it closes
    _is_answered the answer is given
    """

    __slots__ = (
        "_context", "_due_ns", "_found", "_is_answered", "_is_followed", "_place", "_poll", "_request", "_retries",
        "_wake_count", "command", "connection", "group",
    )  # fmt: skip

    def __init__(self, context: ReceiveContext, connection: ClientConnection, command: Receive, group: Group) -> None:
        self._context = context
        self.connection = connection
        self.command = command
        self.group = group
        self._request = LeaseRequest(
            command.group,
            command.topic,
            command.limit,
            command.invisible_ms,
            wanted=retry_filter(command.topic, command.group, context.groups.find, inner=command.filter),
            from_first=command.from_first,
            ordered=command.ordered,
            attempt_id=command.attempt_id,
            fleeting=command.fleeting,
        )
        wait_ns = min(command.wait_ms, limits.WAIT_MS_MAX) * limits.MILLISECOND_NS
        self._due_ns = context.clock.monotonic_ns() + wait_ns
        self._poll: LongPoll | None = None
        self._place: LongPoll | None = None
        self._is_followed = False
        self._is_answered = False
        self._wake_count = 0
        self._found: LeaseResult | None = None
        self._retries: list[RetryTopic] = []

    def begin(self) -> None:
        """`lease`, when this turn may read more messages; else in a later one."""
        reads = self._context.reads
        if reads.crowded:
            reads.add(self.connection, self._lease_in_turn)
        else:
            self._lease_in_turn()

    def _lease_in_turn(self) -> None:
        self._context.reads.expect(self.connection.host)
        self.lease()

    def lease(self) -> None:
        """Lease messages of the topic. Does nothing when the call is answered or its connection is closed."""
        if self._is_answered or self.connection.closed:
            return
        context, command = self._context, self.command
        failure = context.rights.refusal(command.group, command.topic)
        if failure is not None:
            self.refuse(failure)
            return
        self._wake_count = context.long_polls.wake_count
        request = self._request
        request.queue_id = context.priorities.queue_id(context.topics.find(command.topic), self.group, command)
        context.leases.lease(request, self._leased)

    def attempt(self) -> bool:
        """Lease again for a parked call. Returns True when it is parked no more: it is answered, or waits for a write."""
        self._place = self._poll
        self._poll = None
        self.lease()
        self._place = None
        return not self._is_parked()

    def expire(self) -> None:
        """Answer a parked call without messages: its wait time is over."""
        command = self.command
        self._poll = None
        self._answer(Received(command.ticket, [], self._context.clock.wall_ms(), command.invisible_ms, 0))

    def refuse(self, failure: Failure) -> None:
        """Answer Refused: the client may not receive these messages any more."""
        self._poll = None
        self._answer(Refused(self.command.ticket, failure))

    def abandon(self) -> None:
        """Leave the long polls: the connection has closed."""
        if self._poll is not None:
            self._context.long_polls.leave(self._poll)

    def _is_parked(self) -> bool:
        """A method, since mypy takes `_poll` for unchanged by the lease that an attempt makes."""
        return self._poll is not None

    def _leased(self, result: LeaseResult | Failure) -> None:
        """Take what the topic had, and fill up from the group's retry topics."""
        if isinstance(result, Failure):
            self._answer(Refused(self.command.ticket, result))
            return
        command = self.command
        self._retries = retry_topics(self._context.topics, command.group, command.topic) if command.queue_id < 0 else []
        self._fill_up(result)

    def _fill_up(self, found: LeaseResult) -> None:
        """Lease from the next retry topic what the answer has room for; without one, or without room, complete the call."""
        context, command = self._context, self.command
        room = max(command.limit - len(found.messages), 0)
        # A repeated attempt gets back what it holds of a retry topic, even where new messages have filled the answer.
        if not self._retries or (room == 0 and not command.attempt_id):
            self._complete(found)
            return
        self._found = found
        name, version, rest = self._retries.pop()
        request = LeaseRequest(
            command.group,
            name,
            room,
            command.invisible_ms,
            wanted=retry_filter(name, command.group, context.groups.find, rest),
            from_first=True,
            ordered=command.ordered,
            attempt_id=command.attempt_id,
            fleeting=command.fleeting,
        )
        context.leases.lease(request, partial(self._retries_leased, version))

    def _retries_leased(self, version: int, result: LeaseResult | Failure) -> None:
        """Add what a retry topic had. When that lease failed, the messages of the others are delivered alone."""
        found = self._found
        assert found is not None
        if isinstance(result, Failure):
            self._fill_up(found)
            return
        for message in result.messages:
            message.receipt.retry = version
        pop_ms = found.pop_ms if found.messages else result.pop_ms
        messages = found.messages + result.messages
        unfinished = found.unfinished or result.unfinished
        self._fill_up(LeaseResult(messages, pop_ms, found.remaining + result.remaining, unfinished))

    def _complete(self, result: LeaseResult) -> None:
        """Deliver what may be delivered of the leased messages: settle expired ones, move exhausted ones to dead letters.

        The answer waits until the dead letters are stored and settled: a call that goes on waiting leases again what its
        attempt still holds, and would move it once more.
        """
        if not result.messages:
            self._deliver(result, [])
            return
        context, command = self._context, self.command
        now = context.clock.wall_ms()
        # The group may have changed while the call was parked.
        attempts_max = (context.groups.find(command.group) or self.group).retry_max + 1
        kept: list[Leased] = []
        exhausted: list[ExhaustedMessage] = []
        expired: dict[str, list[Receipt]] = {}
        for message in result.messages:
            if has_expired(message.record, now):
                topic = leased_topic(command.group, command.topic, message.receipt)
                expired.setdefault(topic, []).append(message.receipt)
            elif message.attempt > attempts_max:
                exhausted.append((command.topic, message.receipt, message.record))
            else:
                kept.append(message)
        for topic, receipts in expired.items():
            context.expired += len(receipts)
            context.leases.settle(command.group, topic, receipts, _settled)
        if exhausted:
            deliver = self._deliver_unblocked if command.ordered and kept else self._deliver_all
            store_dead_letters(context.dead_letters, command.group, exhausted, partial(deliver, result, kept))
        else:
            self._deliver(result, kept)

    def _deliver_all(self, result: LeaseResult, kept: list[Leased], _: set[bytes]) -> None:
        """Deliver `kept`, whatever became of the dead letters."""
        self._deliver(result, kept)

    def _deliver_unblocked(self, result: LeaseResult, kept: list[Leased], blocked_keys: set[bytes]) -> None:
        """Deliver `kept` without the messages that follow a dead letter that could not be stored; their leases end at once."""
        held = [message for message in kept if ordering_key(message.record) in blocked_keys] if blocked_keys else []
        parts: dict[str, list[Receipt]] = {}
        for message in held:
            topic = leased_topic(self.command.group, self.command.topic, message.receipt)
            parts.setdefault(topic, []).append(message.receipt)
        for topic, receipts in parts.items():
            self._context.leases.withdraw(self.command.group, topic, receipts)
        self._deliver(result, [message for message in kept if message not in held] if held else kept)

    def _deliver(self, result: LeaseResult, kept: list[Leased]) -> None:
        """Answer with `kept`; without messages, try again or park the call."""
        command = self.command
        if kept or (command.wait_ms <= 0 and not result.messages and not result.unfinished):
            self._answer(Received(command.ticket, kept, result.pop_ms, command.invisible_ms, result.remaining))
        elif self._place is not None and not result.messages and not result.unfinished:
            self._poll = self._place
        elif result.messages or result.unfinished or self._wake_count != self._context.long_polls.wake_count:
            # There may be messages behind those that were not for delivery, or messages arrived since the lease began:
            # no later wake would tell this call of them.
            if result.unfinished:
                self._context.searches.add(self.lease)
            else:
                self._context.clock.call_soon(self.lease)
        else:
            self._park()

    def _park(self) -> None:
        """Park the call until its due time, behind the other members of its group. POLLING_FULL when too many wait."""
        context, command = self._context, self.command
        left_ms = max((self._due_ns - context.clock.monotonic_ns()) // limits.MILLISECOND_NS, 0)
        self._poll = context.long_polls.park((command.group, command.topic, command.queue_id), left_ms, self)
        if self._poll is None:
            failure = Failure(ErrorCode.POLLING_FULL, f"too many requests wait for {command.topic} in {command.group}")
            self._answer(Refused(command.ticket, failure))
        elif not self._is_followed:
            self._is_followed = True
            self.connection.on_close.append(self.abandon)

    def _answer(self, event: Received | Refused) -> None:
        self._is_answered = True
        size = 0
        if isinstance(event, Received):
            if event.messages:
                size = self._context.counters.received(self.command.group, self.command.topic, event.messages)
            self._context.reads.came(self.connection.host, size)
        if self._is_followed and self.abandon in self.connection.on_close:
            self.connection.on_close.remove(self.abandon)
        if size > limits.SMALL_ANSWER_BYTES and self._context.reads.crowded:
            # The leases of a turn are written together: their answers are not made together.
            self._context.reads.add(self.connection, partial(self._tell, event, size))
        else:
            self._tell(event, size)

    def _tell(self, event: Received | Refused, size: int) -> None:
        self._context.reads.count(size)
        self.connection.answer(event)


def _settled(_result: list[Failure | None] | Failure) -> None:
    """Ignore the result: an expired message whose settlement fails is leased again when its lease ends, and settled then."""
