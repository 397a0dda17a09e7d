"""Calls that lease messages for a group: of a topic (Receive), or of a client's lite topics (ReceiveLite)."""

from __future__ import annotations

from functools import partial
from typing import TypeVar, final

from domain import limits
from domain.command import Receive
from domain.delivery.expiry import has_expired
from domain.errors import ErrorCode, Failure
from domain.event import Event, Leased, Received
from domain.message.receipt import Receipt
from domain.ports import Clock
from domain.store.store_ports import LeaseResult, Leases
from domain.topic.lite import ReceiveLite
from domain.topic.topic import Group
from domain.turn import SEARCHES_NS
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.dead_letter_batch import ExhaustedMessage, ordering_key, store_dead_letters
from gateway.usecase.consume.dead_letters import DeadLetters, leased_topic
from gateway.usecase.topics_and_groups.counters import MessageCounters
from gateway.usecase.topics_and_groups.groups import Groups
from gateway.usecase.topics_and_groups.rights import Rights
from gateway.usecase.waiting.long_polls import Key, LongPolls, WaitingCall
from gateway.usecase.waiting.long_questions import LongQuestions
from gateway.usecase.waiting.read_turns import ReadTurns

Leasing_co = TypeVar("Leasing_co", bound=Receive | ReceiveLite, covariant=True)


@final
class LeasingContext:
    """The collaborators of all calls of a node that lease messages.

    groups          returns the limit of attempts of a group
    rights          decides whether a group may read a topic
    dead_letters    stores messages whose attempts are used up
    counters        counts the messages that groups receive
    reads           bounds the bytes that are read and answered in one turn
    searches        the calls that search for wanted messages behind thousands that are not
    expired         messages that were settled instead of delivered, since their expiry was over
    """

    __slots__ = ("clock", "counters", "dead_letters", "expired", "groups", "leases", "reads", "rights", "searches")

    def __init__(
        self, leases: Leases, groups: Groups, rights: Rights, dead_letters: DeadLetters, clock: Clock,
        counters: MessageCounters, reads: ReadTurns,
    ) -> None:  # fmt: skip
        self.leases = leases
        self.groups = groups
        self.rights = rights
        self.dead_letters = dead_letters
        self.clock = clock
        self.counters = counters
        self.reads = reads
        self.searches = LongQuestions(clock, SEARCHES_NS)
        self.expired = 0


class LeasingCall(WaitingCall[Leasing_co]):
    """A call that leases: it is leasing, parked, or answered.

    The store answers a lease without messages before the call of `lease` returns. It answers a lease with messages when the
    lease is written; the call is not parked meanwhile, and the next member of the group is served.

    group          the consumer group as it was when the call began

    _due_ns        monotonic time at which the call is answered without messages
    _is_attempt    an attempt of the parked call is under way and has not found nothing
    _is_ordered    messages of one ordering key are delivered in order
    _wake_count    `LongPolls.wake_count` when the last lease began
    """

    __slots__ = ("_due_ns", "_is_attempt", "_is_ordered", "_wake_count", "context", "group")

    def __init__(
        self, context: LeasingContext, polls: LongPolls, connection: ClientConnection, command: Leasing_co, group: Group,
        ordered: bool,
    ) -> None:  # fmt: skip
        super().__init__(polls, connection, command)
        self.context = context
        self.group = group
        wait_ns = min(command.wait_ms, limits.WAIT_MS_MAX) * limits.MILLISECOND_NS
        self._due_ns = context.clock.monotonic_ns() + wait_ns
        self._is_attempt = False
        self._is_ordered = ordered
        self._wake_count = 0

    def lease_messages(self) -> None:
        """Lease from the store, then call `complete` with the result, or `refuse`."""
        raise NotImplementedError

    def parking_key(self) -> Key:
        """The key under which the call waits."""
        raise NotImplementedError

    def full(self) -> str:
        """The text of POLLING_FULL."""
        raise NotImplementedError

    def queue_of(self, message: Leased) -> str:
        """The topic or lite queue of a leased message; the retry flag of its receipt may mark it as one of a retry topic."""
        raise NotImplementedError

    def begin(self) -> None:
        """`lease`, when this turn may read more messages; else in a later one."""
        self.in_turn(self.context.reads, self.lease_in_turn)

    def lease_in_turn(self) -> None:
        """`lease`, with an answer of unknown size."""
        self.context.reads.expect(self.connection.host)
        self.lease()

    def lease(self) -> None:
        """Lease messages. Does nothing when the call is answered or its connection is closed."""
        if self.is_answered or self.connection.closed:
            return
        failure = self.context.rights.refusal(self.command.group, self.command.topic)
        if failure is not None:
            self.refuse(failure)
            return
        self._wake_count = self.polls.wake_count
        self.lease_messages()

    def attempt(self) -> bool:
        """Lease again for a parked call. Returns True when it is parked no more: it is answered, or waits for a write."""
        self._is_attempt = True
        self.lease()
        leaves = self._is_attempt
        self._is_attempt = False
        return leaves

    def expire(self) -> None:
        """Answer without messages."""
        command = self.command
        self.answer(Received(command.ticket, [], self.context.clock.wall_ms(), command.invisible_ms, 0))

    def complete(self, result: LeaseResult) -> None:
        """Deliver what may be delivered of the leased messages: settle expired ones, move exhausted ones to dead letters.

        The answer waits until the dead letters are stored and settled: a call that goes on waiting leases the messages of its
        attempt again, and would move them once more.
        """
        if not result.messages:
            self._deliver(result, [])
            return
        context, command = self.context, self.command
        now = context.clock.wall_ms()
        # The group may have changed while the call was parked.
        attempts_max = (context.groups.find(command.group) or self.group).attempts_max
        kept: list[Leased] = []
        exhausted: list[ExhaustedMessage] = []
        expired: list[Leased] = []
        for message in result.messages:
            if has_expired(message.record, now):
                expired.append(message)
            elif message.attempt > attempts_max:
                exhausted.append((self.queue_of(message), message.receipt, message.record))
            else:
                kept.append(message)
        if expired:
            context.expired += len(expired)
            for topic, receipts in self._receipts(expired).items():
                context.leases.settle(command.group, topic, receipts, _settled)
        if exhausted:
            deliver = self._deliver_unblocked if self._is_ordered and kept else self._deliver_all
            store_dead_letters(context.dead_letters, command.group, exhausted, partial(deliver, result, kept))
        else:
            self._deliver(result, kept)

    def _receipts(self, messages: list[Leased]) -> dict[str, list[Receipt]]:
        """The receipts of messages by the topic or queue that they were leased from."""
        found: dict[str, list[Receipt]] = {}
        for message in messages:
            topic = leased_topic(self.command.group, self.queue_of(message), message.receipt)
            found.setdefault(topic, []).append(message.receipt)
        return found

    def _withdraw(self, messages: list[Leased], wake: bool) -> None:
        """End the leases of messages that are not delivered. `wake`: other calls may lease them at once."""
        for topic, receipts in self._receipts(messages).items():
            self.context.leases.withdraw(self.command.group, topic, receipts, wake)

    def _deliver_all(self, result: LeaseResult, kept: list[Leased], _: set[bytes]) -> None:
        """Deliver `kept`, whether or not the exhausted messages could be stored as dead letters."""
        self._deliver(result, kept)

    def _deliver_unblocked(self, result: LeaseResult, kept: list[Leased], blocked_keys: set[bytes]) -> None:
        """Deliver `kept` without the messages that follow a dead letter that could not be stored; their leases end at once."""
        held = [message for message in kept if ordering_key(message.record) in blocked_keys] if blocked_keys else []
        self._withdraw(held, False)
        self._deliver(result, [message for message in kept if message not in held] if held else kept)

    def _deliver(self, result: LeaseResult, kept: list[Leased]) -> None:
        """Answer with `kept`; without messages, try again or park the call."""
        command = self.command
        if self.connection.closed:
            self._withdraw(kept, True)
        elif kept or (command.wait_ms <= 0 and not result.messages and not result.unfinished):
            self.answer(Received(command.ticket, kept, result.pop_ms, command.invisible_ms, result.remaining))
        elif self._is_attempt and not result.messages and not result.unfinished:
            self._is_attempt = False
        elif result.unfinished:
            self.context.searches.later(self.connection, self.lease)
        elif result.messages or self._wake_count != self.polls.wake_count:
            # There may be messages behind those that were not for delivery, or messages arrived since the lease began:
            # no later wake would notify this call of them.
            self.context.clock.call_soon(self.lease)
        else:
            # Behind the other members of its group, until its due time.
            left_ms = max((self._due_ns - self.context.clock.monotonic_ns()) // limits.MILLISECOND_NS, 0)
            if not self.park(self.parking_key(), left_ms):
                self.refuse(Failure(ErrorCode.POLLING_FULL, self.full()))

    def answer(self, event: Event) -> None:
        """Give the answer: the leases of a turn are written together, their large answers are not made together."""
        size = 0
        reads = self.context.reads
        if isinstance(event, Received):
            if event.messages:
                size = self.context.counters.received(self.command.group, self.command.topic, event.messages)
            reads.came(self.connection.host, size)
        if size > limits.SMALL_ANSWER_BYTES and reads.crowded:
            reads.add(self.connection, partial(self._answer, event, size))
        else:
            self._answer(event, size)

    def _answer(self, event: Event, size: int) -> None:
        self.context.reads.count(size)
        super().answer(event)


def illegal_lease(limit: int, invisible_ms: int) -> Failure | None:
    """ARGUMENT_ILLEGAL for a number of messages or a length of leases that no call may ask for."""
    if not 0 < limit <= limits.RECEIVE_MESSAGES_MAX:
        return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"{limit} messages were asked for, 1 to 32 are allowed")
    if not 0 < invisible_ms <= limits.INVISIBLE_MS_MAX:
        return Failure(ErrorCode.ARGUMENT_ILLEGAL, "the invisible time is above 0 and at most 12 hours")
    return None


def _settled(_result: list[Failure | None] | Failure) -> None:
    """Ignore the result: an expired message whose settlement fails is leased again when its lease ends, and settled then."""
