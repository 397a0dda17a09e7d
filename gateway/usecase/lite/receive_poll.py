"""One ReceiveLite command from its first lease to its answer, and the polls that are parked."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Final, final

from domain import limits, lite
from domain.delivery.expiry import has_expired
from domain.errors import ErrorCode, Failure
from domain.event import Leased, Received, Refused
from domain.lite import LiteLeaseResult, LiteQueues, ReceiveLite
from domain.ports import Clock, Timer
from domain.receipt import Receipt
from domain.record import Record
from domain.store_ports import Leases, Metadata
from domain.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.catalog.counters import MessageCounters
from gateway.usecase.consume.dead_letter_batch import ExhaustedMessage, ordering_key, store_dead_letters
from gateway.usecase.consume.dead_letters import DeadLetters
from gateway.usecase.lite.subscriptions import LiteSubscriber, Subscriptions
from gateway.usecase.waiting.long_polls import REVIEWED_PER_TURN, RightsCheck
from gateway.usecase.waiting.read_turns import ReadTurns

NAMES_PER_ATTEMPT_MAX: Final = 256
"""Lite topics that one attempt of a poll looks at."""
POLLS_MAX: Final = 64
"""Polls of one client that may be parked."""


@final
class LitePolls:
    """The polls that are parked, by group and client. At most POLLS_MAX a client, and LONG_POLLS_MAX clients."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_client: dict[tuple[str, str], list[LitePoll]] = {}

    def park(self, poll: LitePoll) -> bool:
        """Park a poll. Returns False when too many polls of its client, or polls of too many clients, are parked."""
        polls = self._by_client.setdefault((poll.command.group, poll.command.client_id), [])
        if len(polls) >= POLLS_MAX or len(self._by_client) > limits.LONG_POLLS_MAX:
            return False
        polls.append(poll)
        return True

    def leave(self, poll: LitePoll) -> None:
        """Remove a poll; harmless when it is not parked."""
        key = (poll.command.group, poll.command.client_id)
        polls = self._by_client.get(key, [])
        if poll in polls:
            polls.remove(poll)
        if not polls:
            self._by_client.pop(key, None)

    def of(self, subscriber: LiteSubscriber) -> list[LitePoll]:
        """The parked polls of one subscriber, the oldest first."""
        return list(self._by_client.get((subscriber.group, subscriber.client_id), ()))

    def review(self, check: RightsCheck) -> None:
        """Check the rights of every parked poll again and refuse those that fail, REVIEWED_PER_TURN a turn."""
        self._review(check, [poll for polls in self._by_client.values() for poll in polls])

    def _review(self, check: RightsCheck, polls: list[LitePoll]) -> None:
        for poll in polls[:REVIEWED_PER_TURN]:
            failure = None if poll.is_answered else check(poll.connection, poll.command)
            if failure is not None:
                poll.refuse(failure)
        rest = polls[REVIEWED_PER_TURN:]
        if rest:
            self._clock.call_at(self._clock.monotonic_ns() + limits.MILLISECOND_NS, lambda: self._review(check, rest))


@final
class LiteReceiveContext:
    """What all polls of lite topics work with.

    leases          settles messages and ends leases
    queues          the queues of lite topics, which lease messages
    metadata        tells the limit of attempts of a group
    subscriptions   tells the lite topics of a client, and which of them may have messages
    dead_letters    takes messages whose attempts are used up
    clock           time
    counters        counts the messages that groups receive
    reads           shares the turns between reads of messages
    parked          the polls that wait
    """

    __slots__ = ("clock", "counters", "dead_letters", "leases", "metadata", "parked", "queues", "reads", "subscriptions")

    def __init__(
        self, leases: Leases, queues: LiteQueues, metadata: Metadata, subscriptions: Subscriptions,
        dead_letters: DeadLetters, clock: Clock, counters: MessageCounters, reads: ReadTurns,
    ) -> None:  # fmt: skip
        self.leases = leases
        self.queues = queues
        self.metadata = metadata
        self.subscriptions = subscriptions
        self.dead_letters = dead_letters
        self.clock = clock
        self.counters = counters
        self.reads = reads
        self.parked = LitePolls(clock)


@final
class LitePoll:
    """A poll is leasing (`_is_leasing`), parked (`_timer` is set), or answered.

    connection   where the answer goes
    command      the client's command
    group        the consumer group as it was when the poll began
    is_answered  the answer is given, or the connection has closed

    _is_leasing  an attempt is under way, or waits for a turn that may read more
    _is_late     the wait time ended during an attempt, which ends the poll
    _taken       the lite topics that the attempt looks at
    _timer       runs when the wait time is over, since the poll was parked
    """

    __slots__ = (
        "_context", "_is_late", "_is_leasing", "_taken", "_timer", "command", "connection", "group", "is_answered",
    )  # fmt: skip

    def __init__(self, context: LiteReceiveContext, connection: ClientConnection, command: ReceiveLite, group: Group) -> None:
        self._context = context
        self.connection = connection
        self.command = command
        self.group = group
        self.is_answered = False
        self._is_leasing = False
        self._is_late = False
        self._taken: list[str] = []
        self._timer: Timer | None = None

    def attempt(self) -> None:
        """Lease messages of the lite topics that are ready for the client, or park the poll when none is.

        A lite topic that was looked at is ready again when a message arrives in it or a lease of it ends.
        """
        if self._is_leasing or self.is_answered or self.connection.closed:
            return
        if self._ready_subscriber() is None:
            self._wait()
            return
        self._is_leasing = True
        reads = self._context.reads
        if reads.crowded:
            reads.add(self.connection, self._lease_in_turn)
        else:
            self._lease_in_turn()

    def _lease_in_turn(self) -> None:
        command = self.command
        subscriber = self._ready_subscriber()
        if self.is_answered or self.connection.closed or subscriber is None:
            self._is_leasing = False
            if self._is_late:
                self._answer_nothing()
            elif not self.is_answered and not self.connection.closed:
                self._wait()
            return
        self._context.reads.expect(self.connection.host)
        taken = self._taken = list(islice(subscriber.ready, NAMES_PER_ATTEMPT_MAX))
        for name in taken:
            del subscriber.ready[name]
        self._context.queues.lease(
            command.group, command.topic, taken, command.limit, command.invisible_ms, command.attempt_id, self._leased
        )

    def expire(self) -> None:
        """Answer without messages: the wait time is over. An attempt that is under way is waited for."""
        self._is_late = True
        if not self._is_leasing:
            self._answer_nothing()

    def refuse(self, failure: Failure) -> None:
        """Answer Refused: the client may not receive these messages any more. What an attempt still leases is given back."""
        self._answer(Refused(self.command.ticket, failure))

    def abandon(self) -> None:
        """Leave the parked polls: the connection has closed."""
        self.is_answered = True
        if self._timer is not None:
            self._timer.cancel()
            self._context.parked.leave(self)

    def _subscriber(self) -> LiteSubscriber | None:
        return self._context.subscriptions.find(self.command.group, self.command.client_id)

    def _ready_subscriber(self) -> LiteSubscriber | None:
        """The subscriber, when it has lite topics that may have messages."""
        subscriber = self._subscriber()
        return subscriber if subscriber is not None and subscriber.topic == self.command.topic and subscriber.ready else None

    def _leased(self, result: LiteLeaseResult | Failure) -> None:
        """Take what the attempt has leased. Lite topics that it did not come to are ready again, before all others."""
        command = self.command
        subscriber = self._subscriber()
        looked = 0 if isinstance(result, Failure) else result.looked
        if subscriber is not None and looked < len(self._taken):
            rest = dict.fromkeys(self._taken[looked:])
            rest.update(subscriber.ready)
            subscriber.ready.clear()
            subscriber.ready.update(rest)
        if isinstance(result, Failure):
            self._is_leasing = False
            self._answer(Refused(command.ticket, result))
        elif self.is_answered or not result.messages:
            self._deliver(result, result.messages)
        else:
            self._complete(result)

    def _complete(self, result: LiteLeaseResult) -> None:
        """Deliver what may be delivered of the leased messages: settle expired ones, move exhausted ones to dead letters.

        The answer waits until the dead letters are stored.
        """
        context, command = self._context, self.command
        now = context.clock.wall_ms()
        group = context.metadata.group(command.group) or self.group
        kept: list[Leased] = []
        exhausted: list[ExhaustedMessage] = []
        expired: dict[str, list[Receipt]] = {}
        for message in result.messages:
            queue = self._queue(message)
            if has_expired(message.record, now):
                expired.setdefault(queue, []).append(message.receipt)
            elif message.attempt > group.retry_max + 1:
                exhausted.append((queue, message.receipt, message.record))
            else:
                kept.append(message)
        for queue, receipts in expired.items():
            context.leases.settle(command.group, queue, receipts, _ignore)
        unblocked = partial(self._deliver_unblocked, result, kept)
        if exhausted:
            store_dead_letters(context.dead_letters, command.group, exhausted, unblocked)
        else:
            unblocked(set())

    def _deliver_unblocked(self, result: LiteLeaseResult, kept: list[Leased], blocked_keys: set[bytes]) -> None:
        """Deliver `kept` without the messages that follow a dead letter that could not be stored; their leases end at once."""
        context, command = self._context, self.command
        found = [message for message in kept if ordering_key(message.record) not in blocked_keys] if blocked_keys else kept
        for message in kept if blocked_keys else ():
            if message not in found:
                context.leases.withdraw(command.group, self._queue(message), [message.receipt])
        if found:
            context.counters.received(command.group, command.topic, found)
        self._deliver(result, found)

    def _deliver(self, result: LiteLeaseResult, kept: list[Leased]) -> None:
        """Answer with `kept`; without messages, try again or park the poll."""
        self._is_leasing = False
        command = self.command
        subscriber = self._subscriber()
        size = sum([len(message.record) for message in kept])
        self._context.reads.came(self.connection.host, size)
        if self.is_answered:
            for message in kept:
                self._context.leases.extend(command.group, self._queue(message), [message.receipt], 0, _ignore)
        elif kept:
            self._answer(Received(command.ticket, kept, result.pop_ms, command.invisible_ms, 0), size)
        elif self._is_late:
            self._answer_nothing()
        elif subscriber is not None and (subscriber.ready or result.messages):
            self._context.clock.call_soon(self.attempt)
        else:
            self._wait()

    def _queue(self, message: Leased) -> str:
        return lite.queue_name(self.command.topic, lite.name_in(Record(message.record).properties))

    def _wait(self) -> None:
        """Park the poll for its wait time. POLLING_FULL when too many are parked."""
        context, command = self._context, self.command
        if self._timer is not None:
            return
        if command.wait_ms <= 0:
            self._answer_nothing()
        elif not context.parked.park(self):
            failure = Failure(ErrorCode.POLLING_FULL, f"too many requests of client {command.client_id} wait")
            self._answer(Refused(command.ticket, failure))
        else:
            wait_ns = min(command.wait_ms, limits.WAIT_MS_MAX) * limits.MILLISECOND_NS
            self._timer = context.clock.call_at(context.clock.monotonic_ns() + wait_ns, self.expire)
            self.connection.on_close.append(self.abandon)

    def _answer_nothing(self) -> None:
        command = self.command
        self._answer(Received(command.ticket, [], self._context.clock.wall_ms(), command.invisible_ms, 0))

    def _answer(self, event: Received | Refused, size: int = 0) -> None:
        """Answer, with messages of `size` bytes: the leases of one turn are written together, large answers are not made so."""
        if self.is_answered:
            return
        self.is_answered = True
        if self._timer is not None:
            self._timer.cancel()
            self._context.parked.leave(self)
            if self.abandon in self.connection.on_close:
                self.connection.on_close.remove(self.abandon)
        if isinstance(event, Received) and event.messages:
            subscriber = self._subscriber()
            if subscriber is not None:
                subscriber.received_ms = event.pop_ms
        if size > limits.SMALL_ANSWER_BYTES and self._context.reads.crowded:
            self._context.reads.add(self.connection, partial(self._tell, event, size))
        else:
            self._tell(event, size)

    def _tell(self, event: Received | Refused, size: int) -> None:
        self._context.reads.count(size)
        self.connection.answer(event)


def _ignore(_result: object) -> None:
    """Ignore the result: a message that cannot be settled or given back is delivered again when its lease ends."""
