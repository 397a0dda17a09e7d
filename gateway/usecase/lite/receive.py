"""Receiving from lite topics: one poll of a client takes from all that are ready for it, each in its own order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice

from domain import limits, lite
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Leased, Received, Refused
from domain.expiry import has_expired
from domain.lite import LiteLeases, LiteQueues, ReceiveLite
from domain.ports import Clock, MessageStore, Metadata, Timer
from domain.receipt import Receipt
from domain.record import Record
from domain.topic import PERM_READ, Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.catalog.counters import MessageCounters
from gateway.usecase.catalog.rights import Rights
from gateway.usecase.consume.dead_letter_batch import ExhaustedMessage, ordering_key, store_dead_letters
from gateway.usecase.consume.dead_letters import DeadLetters
from gateway.usecase.consume.long_polls import REVIEWED_PER_TURN, RightsCheck
from gateway.usecase.handler import Verb
from gateway.usecase.lite import configuration
from gateway.usecase.lite.subscriptions import LiteSubscriber, Subscriptions

LOOKS_MAX = 256
"""Lite topics that one attempt of a receive looks at."""
POLLS_MAX = 64
"""Receives that may wait for one client."""


class LiteReceiving:
    """ReceiveLite, and what is ready for whom."""

    def __init__(
        self,
        store: MessageStore,
        lights: LiteQueues,
        metadata: Metadata,
        subscriptions: Subscriptions,
        dead_letters: DeadLetters,
        clock: Clock,
        counters: MessageCounters,
        rights: Rights,
    ) -> None:
        self._store = store
        self.lights = lights
        self._metadata = metadata
        self.subscriptions = subscriptions
        self._dead_letters = dead_letters
        self._clock = clock
        self._counters = counters
        self._rights = rights
        self._polls: dict[tuple[str, str], list[_LitePoll]] = {}
        lights.listen(self)

    def verbs(self) -> Mapping[type[Command], Verb]:
        """ReceiveLite."""
        return {ReceiveLite: self._receive}

    # What is ready

    def light_arrived(self, parent: str, lite_topic: str) -> None:
        """A message has arrived: whoever has subscribed to its lite topic may have it."""
        for subscriber in self.subscriptions.of(parent, lite_topic):
            self.ready(subscriber, lite_topic)

    def light_freed(self, group: str, parent: str, lite_topic: str) -> None:
        """A lite topic goes on for a group."""
        for subscriber in self.subscriptions.of(parent, lite_topic, group):
            self.ready(subscriber, lite_topic)

    def ready(self, subscriber: LiteSubscriber, lite_topic: str) -> None:
        """There may be something in `lite_topic` for a subscriber."""
        subscriber.ready[lite_topic] = None
        self._serve(subscriber)

    def look_again(self, subscriber: LiteSubscriber) -> int:
        """Everything that the subscriber has and that is not consumed is ready; how much that is."""
        names = self.lights.names(subscriber.topic) if subscriber.wildcard else iter(list(subscriber.names))
        found = [name for name in names if self._is_behind(subscriber.group, lite.queue_name(subscriber.topic, name))]
        for name in found:
            subscriber.ready[name] = None
        self._serve(subscriber)
        return len(found)

    def _is_behind(self, group: str, queue: str) -> bool:
        """True when `group` has not settled all of a light queue. The answers come at once: the queues are on this node."""
        bounds: list[tuple[int, int] | Failure] = []
        position: list[int | Failure] = []
        self._store.bounds(queue, 0, bounds.append)
        self._store.offset(group, queue, 0, position.append)
        if not bounds or isinstance(bounds[0], Failure) or not position:
            return True
        first, end = bounds[0]
        at = position[0]
        return end > (first if isinstance(at, Failure) else at)

    def _serve(self, subscriber: LiteSubscriber) -> None:
        """Let polls that wait look at what is ready; where a group has everything, those of all its members."""
        clients = self.subscriptions.of_group(subscriber.group) if subscriber.wildcard else [subscriber]
        for each in clients:
            for poll in list(self._polls.get((each.group, each.client_id), ())):
                if not subscriber.ready:
                    return
                poll.attempt()

    # Polls

    def _receive(self, connection: ClientConnection, command: ReceiveLite) -> None:
        group = self._checked(command)
        if isinstance(group, Failure):
            connection.answer(Refused(command.ticket, group))
        else:
            _LitePoll(self, connection, command, group).attempt()

    def _checked(self, command: ReceiveLite) -> Group | Failure:
        topic = configuration.topic_of(self._metadata, command.topic)
        if isinstance(topic, Failure):
            return topic
        if not topic.perm & PERM_READ:
            return Failure(ErrorCode.NOT_ALLOWED, f"topic {command.topic} cannot be read")
        group = configuration.group_of(self._metadata, command.group, command.topic)
        if isinstance(group, Failure):
            return group
        failure = self._rights.refusal(command.group, command.topic)
        if failure is not None:
            return failure
        if not 0 < command.limit <= limits.RECEIVE_MESSAGES_MAX:
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"{command.limit} messages were asked for, 1 to 32 are allowed")
        if not 0 < command.invisible_ms <= limits.INVISIBLE_MS_MAX:
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, "the invisible time is above 0 and at most 12 hours")
        return group

    def park(self, poll: _LitePoll) -> bool:
        """Hold a poll until something is ready; False when too many of the client wait."""
        waiting = self._polls.setdefault((poll.command.group, poll.command.client_id), [])
        if len(waiting) >= POLLS_MAX or len(self._polls) > limits.WAITERS_MAX:
            return False
        waiting.append(poll)
        return True

    def leave(self, poll: _LitePoll) -> None:
        """A poll waits no more."""
        key = (poll.command.group, poll.command.client_id)
        waiting = self._polls.get(key, [])
        if poll in waiting:
            waiting.remove(poll)
        if not waiting:
            self._polls.pop(key, None)

    def review(self, check: RightsCheck) -> None:
        """Rights have changed: refuse the polls of those who may not have what they wait for, so many a turn."""
        self._review(check, [poll for waiting in self._polls.values() for poll in waiting])

    def _review(self, check: RightsCheck, polls: list[_LitePoll]) -> None:
        for poll in polls[:REVIEWED_PER_TURN]:
            failure = None if poll.answered else check(poll.connection, poll.command)
            if failure is not None:
                poll.refuse(failure)
        rest = polls[REVIEWED_PER_TURN:]
        if rest:
            self._clock.call_at(self._clock.monotonic_ns() + limits.MILLISECOND_NS, lambda: self._review(check, rest))

    def timer(self, wait_ms: int, poll: _LitePoll) -> Timer:
        """When a poll that begins now is over."""
        wait_ns = min(wait_ms, limits.WAIT_MS_MAX) * limits.MILLISECOND_NS
        return self._clock.call_at(self._clock.monotonic_ns() + wait_ns, poll.give_up)

    def later(self, poll: _LitePoll) -> None:
        """Let a poll look again, after what is handled in this turn."""
        self._clock.call_soon(poll.attempt)

    def wall_ms(self) -> int:
        """For answers without a lease."""
        return self._clock.wall_ms()

    def give_back(self, command: ReceiveLite, messages: list[Leased]) -> None:
        """Nobody is there to hear of them."""
        for message in messages:
            queue = lite.queue_name(command.topic, lite.name_in(Record(message.record).properties))
            self._store.extend(command.group, queue, [message.receipt], 0, _nobody)

    def deliver(self, poll: _LitePoll, messages: list[Leased], then: Callable[[list[Leased]], None]) -> None:
        """`then` gets what is to be delivered: expired messages are settled, those with no attempts left become dead letters.

        It gets it when these are stored, without what they hold back when they cannot be.
        """
        command, now = poll.command, self._clock.wall_ms()
        group = self._metadata.group(command.group) or poll.group
        kept: list[Leased] = []
        exhausted: list[ExhaustedMessage] = []
        expired: dict[str, list[Receipt]] = {}
        for message in messages:
            queue = lite.queue_name(command.topic, lite.name_in(Record(message.record).properties))
            if has_expired(message.record, now):
                expired.setdefault(queue, []).append(message.receipt)
            elif message.attempt > group.retry_max + 1:
                exhausted.append((queue, message.receipt, message.record))
            else:
                kept.append(message)
        for queue, receipts in expired.items():
            self._store.settle(command.group, queue, receipts, _nobody)

        def settled(blocked_keys: set[bytes]) -> None:
            found = [message for message in kept if ordering_key(message.record) not in blocked_keys] if blocked_keys else kept
            for message in kept if blocked_keys else ():
                if message not in found:
                    queue = lite.queue_name(command.topic, lite.name_in(Record(message.record).properties))
                    self._store.withdraw(command.group, queue, [message.receipt])
            if found:
                self._counters.received(command.group, command.topic, found)
            then(found)

        if exhausted:
            store_dead_letters(self._dead_letters, command.group, exhausted, settled)
        else:
            settled(set())


def _nobody(_result: object) -> None:
    """What cannot be settled or given back now is leased again when its time is over."""


class _LitePoll:
    """One ReceiveLite: looking (`_busy`), waiting among the polls of its client, or answered."""

    __slots__ = ("_busy", "_over", "_receiving", "_taken", "_timer", "answered", "command", "connection", "group")

    def __init__(self, receiving: LiteReceiving, connection: ClientConnection, command: ReceiveLite, group: Group) -> None:
        self._receiving = receiving
        self.connection = connection
        self.command = command
        self.group = group
        self._busy = False
        self._over = False
        self.answered = False
        self._taken: list[str] = []
        self._timer: Timer | None = None

    def attempt(self) -> None:
        """Take what is ready. What was looked at is ready again when it arrives or is freed, not before."""
        if self._busy or self.answered or self.connection.closed:
            return
        command = self.command
        subscriber = self._receiving.subscriptions.find(command.group, command.client_id)
        if subscriber is None or subscriber.topic != command.topic or not subscriber.ready:
            self._wait()
            return
        taken = self._taken = list(islice(subscriber.ready, LOOKS_MAX))
        for name in taken:
            del subscriber.ready[name]
        self._busy = True
        self._receiving.lights.lease(
            command.group, command.topic, taken, command.limit, command.invisible_ms, command.attempt_id, self._leased
        )

    def _leased(self, result: LiteLeases | Failure) -> None:
        command = self.command
        subscriber = self._receiving.subscriptions.find(command.group, command.client_id)
        looked = 0 if isinstance(result, Failure) else result.looked
        if subscriber is not None and looked < len(self._taken):
            # In front of what has become ready since: nobody waits for ever.
            rest = dict.fromkeys(self._taken[looked:])
            rest.update(subscriber.ready)
            subscriber.ready.clear()
            subscriber.ready.update(rest)
        if isinstance(result, Failure):
            self._busy = False
            self._answer(Refused(command.ticket, result))
        elif self.answered or not result.messages:
            self._deliver(result, result.messages)
        else:
            self._receiving.deliver(self, result.messages, partial(self._deliver, result))

    def _deliver(self, result: LiteLeases, kept: list[Leased]) -> None:
        self._busy = False
        command = self.command
        subscriber = self._receiving.subscriptions.find(command.group, command.client_id)
        if self.answered:
            self._receiving.give_back(command, kept)
        elif kept:
            self._answer(Received(command.ticket, kept, result.pop_ms, command.invisible_ms, 0))
        elif self._over:
            self._nothing()
        elif subscriber is not None and (subscriber.ready or result.messages):
            self._receiving.later(self)
        else:
            self._wait()

    def _wait(self) -> None:
        if self._timer is not None:
            return
        if self.command.wait_ms <= 0:
            self._nothing()
        elif not self._receiving.park(self):
            failure = Failure(ErrorCode.POLLING_FULL, f"too many requests of client {self.command.client_id} wait")
            self._answer(Refused(self.command.ticket, failure))
        else:
            self._timer = self._receiving.timer(self.command.wait_ms, self)
            self.connection.on_close.append(self.abandon)

    def give_up(self) -> None:
        """The time is over; an attempt that is under way ends the poll."""
        self._over = True
        if not self._busy:
            self._nothing()

    def refuse(self, failure: Failure) -> None:
        """It may not be had any more; what an attempt that is under way brings is given back."""
        self._answer(Refused(self.command.ticket, failure))

    def abandon(self) -> None:
        """The client has gone."""
        self.answered = True
        if self._timer is not None:
            self._timer.cancel()
            self._receiving.leave(self)

    def _nothing(self) -> None:
        command = self.command
        self._answer(Received(command.ticket, [], self._receiving.wall_ms(), command.invisible_ms, 0))

    def _answer(self, event: Received | Refused) -> None:
        if self.answered:
            return
        self.answered = True
        if self._timer is not None:
            self._timer.cancel()
            self._receiving.leave(self)
            if self.abandon in self.connection.on_close:
                self.connection.on_close.remove(self.abandon)
        if isinstance(event, Received) and event.messages:
            subscriber = self._receiving.subscriptions.find(self.command.group, self.command.client_id)
            if subscriber is not None:
                subscriber.received_ms = event.pop_ms
        self.connection.answer(event)
