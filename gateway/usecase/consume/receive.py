"""Receiving: message-level balance (POP). Each call leases what is free; a call that finds nothing waits its turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from domain import address, limits
from domain.admin.group import CountWaitingMessages, WaitingCount
from domain.command import Command, Receive
from domain.errors import ErrorCode, Failure
from domain.event import Leased, Received, Refused
from domain.expiry import has_expired
from domain.ports import Clock, LeaseResult, MessageStore
from domain.receipt import RETRY_V1, Receipt
from domain.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.catalog.counters import MessageCounters
from gateway.usecase.catalog.groups import Groups
from gateway.usecase.catalog.policy import NodePolicy
from gateway.usecase.catalog.priority import PriorityReads
from gateway.usecase.catalog.rights import Rights
from gateway.usecase.catalog.topics import Topics
from gateway.usecase.consume.dead_letter_batch import ExhaustedMessage, ordering_key, store_dead_letters
from gateway.usecase.consume.dead_letters import DeadLetters, leased_topic
from gateway.usecase.consume.long_polls import LongPoll, LongPolls, RightsCheck
from gateway.usecase.handler import Verb


class Receiving:
    """The Receive verb.

    expired   messages settled because their time was over
    wakes     how often something arrived or became free
    """

    def __init__(
        self, store: MessageStore, topics: Topics, groups: Groups, dead_letters: DeadLetters, clock: Clock,
        counters: MessageCounters, policy: NodePolicy, rights: Rights,
    ) -> None:  # fmt: skip
        self._store = store
        self._topics = topics
        self._groups = groups
        self._rights = rights
        self._dead_letters = dead_letters
        self._clock = clock
        self._long_polls = LongPolls(clock)
        self._priorities = PriorityReads(policy)
        self.counters = counters
        self.expired = 0
        self.wakes = 0
        store.listen(self)

    def verbs(self) -> Mapping[type[Command], Verb]:
        """Receive and CountWaiting."""
        return {Receive: self._receive, CountWaitingMessages: self._count}

    def _count(self, connection: ClientConnection, command: CountWaitingMessages) -> None:
        failure = self._topics.unreadable(command.topic, command.queue_id) or self._rights.refusal(command.group, command.topic)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return
        count = self._long_polls.waiting((command.group, command.topic, command.queue_id))
        connection.answer(WaitingCount(command.ticket, count))

    def waiting(self) -> int:
        """Receives parked now."""
        return len(self._long_polls)

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Wake the members that wait for `topic`; for a retry topic, those that wait for what it retries."""
        self.wakes += 1
        self._long_polls.wake(topic, queue_id)
        for group, origin in address.retried_by_pop(topic):
            self._long_polls.wake_group(group, origin)

    def freed(self, group: str, topic: str) -> None:
        """Leases of `group` have ended."""
        self.wakes += 1
        self._long_polls.wake_group(group, topic)
        for _, origin in address.retried_by_pop(topic):
            self._long_polls.wake_group(group, origin)

    def _receive(self, connection: ClientConnection, command: Receive) -> None:
        failure = self._topics.unreadable(command.topic, command.queue_id) or _illegal(command)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return

        def ready(group: Group | Failure) -> None:
            if isinstance(group, Failure):
                connection.answer(Refused(command.ticket, group))
            else:
                # Who asks without order would break it for all the others.
                command.ordered = command.ordered or group.orderly
                _Call(self, connection, command, group).lease()

        self._groups.ensure(command.group, ready)

    def refusal(self, command: Receive) -> Failure | None:
        """Why the group may not read the topic now, None: it may."""
        return self._rights.refusal(command.group, command.topic)

    def lease(self, call: _Call) -> None:
        """Lease for one call from the topic itself."""
        command = call.command
        queue_id = self._priorities.queue_id(self._topics.find(command.topic), call.group, command)
        self._store.lease(
            command.group, command.topic, queue_id, command.limit, command.invisible_ms, command.filter,
            command.from_first, command.ordered, command.attempt_id, command.fleeting, call.leased,
        )  # fmt: skip

    def lease_retries(self, call: _Call, room: int) -> bool:
        """Lease for one call from the group's retry topic, when there is one and the call takes from any queue."""
        command = call.command
        retry_topic = address.pop_retry_topic(command.group, command.topic)
        if command.ordered or command.queue_id >= 0 or self._topics.find(retry_topic) is None:
            return False
        self._store.lease(
            command.group, retry_topic, -1, room, command.invisible_ms, None, True, False, "", command.fleeting,
            call.leased_retries,
        )  # fmt: skip
        return True

    def deliver(self, call: _Call, messages: list[Leased], then: Callable[[list[Leased]], None]) -> None:
        """`then` gets what is to be delivered. Expired messages are settled; what has used up its attempts is a dead letter.

        In an ordered group `then` is called when dead letters are stored, without what they hold back when they cannot be.
        """
        command, group = call.command, call.group
        now = self._clock.wall_ms()
        # A call may have waited while a tool changed its group.
        most = (self._groups.find(command.group) or group).retry_max + 1
        kept: list[Leased] = []
        exhausted: list[ExhaustedMessage] = []
        expired: dict[str, list[Receipt]] = {}
        for message in messages:
            if has_expired(message.record, now):
                topic = leased_topic(command.group, command.topic, message.receipt)
                expired.setdefault(topic, []).append(message.receipt)
            elif message.attempt > most:
                exhausted.append((command.topic, message.receipt, message.record))
            else:
                kept.append(message)
        for topic, receipts in expired.items():
            self.expired += len(receipts)
            self._store.settle(command.group, topic, receipts, _settled)
        if exhausted and command.ordered and kept:
            store_dead_letters(self._dead_letters, command.group, exhausted, partial(self._free, command, kept, then))
            return
        for topic, receipt, record in exhausted:
            self._dead_letters.move(command.group, topic, receipt, record, None)
        then(kept)

    def _free(
        self, command: Receive, kept: list[Leased], then: Callable[[list[Leased]], None], blocked_keys: set[bytes]
    ) -> None:
        """Dead letters are stored, except those of the ordering keys `blocked_keys`."""
        held = [message for message in kept if ordering_key(message.record) in blocked_keys] if blocked_keys else []
        if held:
            self._store.withdraw(command.group, command.topic, [message.receipt for message in held])
        then([message for message in kept if message not in held] if held else kept)

    def due_ns(self, wait_ms: int) -> int:
        """When a call that begins now and may wait `wait_ms` has to be answered."""
        return self._clock.monotonic_ns() + min(wait_ms, limits.WAIT_MS_MAX) * limits.MILLISECOND_NS

    def park(self, call: _Call, due_ns: int) -> LongPoll | None:
        """Park one call until `due_ns`, behind the other members of its group."""
        command = call.command
        key = (command.group, command.topic, command.queue_id)
        left_ms = max((due_ns - self._clock.monotonic_ns()) // limits.MILLISECOND_NS, 0)
        return self._long_polls.park(key, left_ms, call.retry, call.give_up, call)

    def review(self, judge: RightsCheck) -> None:
        """Rights have changed."""
        self._long_polls.review(judge)

    def leave(self, waiter: LongPoll) -> None:
        """Take a parked call out."""
        self._long_polls.leave(waiter)

    def later(self, attempt: Callable[[], None]) -> None:
        """Run `attempt` after what is handled in this turn."""
        self._clock.call_soon(attempt)

    def wall_ms(self) -> int:
        """For empty answers, which have no lease to tell the time."""
        return self._clock.wall_ms()


def _illegal(command: Receive) -> Failure | None:
    if not 0 < command.limit <= limits.RECEIVE_MESSAGES_MAX:
        return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"{command.limit} messages were asked for, 1 to 32 are allowed")
    if not 0 < command.invisible_ms <= limits.INVISIBLE_MS_MAX:
        return Failure(ErrorCode.ARGUMENT_ILLEGAL, "the invisible time is above 0 and at most 12 hours")
    return None


def _settled(_result: list[Failure | None] | Failure) -> None:
    """An expired message whose settlement fails comes again when its lease ends, and is settled then."""


class _Call:
    """One Receive from its first lease to its answer.

    It is either leasing, or parked (`_waiter`), or answered. The store answers an empty lease at once, and one that found
    something when that is written: then the call is no longer parked, and the next member of the group has its turn.
    """

    __slots__ = (
        "_answered",
        "_due_ns",
        "_first",
        "_known",
        "_place",
        "_receiving",
        "_waiter",
        "_wakes",
        "command",
        "connection",
        "group",
    )  # fmt: skip

    def __init__(self, receiving: Receiving, connection: ClientConnection, command: Receive, group: Group) -> None:
        self._receiving = receiving
        self.connection = connection
        self.command = command
        self.group = group
        self._due_ns = receiving.due_ns(command.wait_ms)
        self._waiter: LongPoll | None = None
        self._place: LongPoll | None = None
        self._known = False
        self._answered = False
        self._wakes = 0
        self._first: LeaseResult | None = None

    def lease(self) -> None:
        """Look for messages, unless it is too late for that, or not allowed any more."""
        if not self._answered and not self.connection.closed:
            failure = self._receiving.refusal(self.command)
            if failure is not None:
                self.refuse(failure)
                return
            self._wakes = self._receiving.wakes
            self._receiving.lease(self)

    def leased(self, result: LeaseResult | Failure) -> None:
        """What the topic itself had."""
        if isinstance(result, Failure):
            self._answer(Refused(self.command.ticket, result))
            return
        self._first = result
        room = self.command.limit - len(result.messages)
        if room == 0 or not self._receiving.lease_retries(self, room):
            self._complete(result)

    def leased_retries(self, result: LeaseResult | Failure) -> None:
        """What the group's retry topic had."""
        first = self._first
        assert first is not None
        if isinstance(result, Failure):
            self._complete(first)
            return
        for message in result.messages:
            message.receipt.retry = RETRY_V1
        pop_ms = first.pop_ms if first.messages else result.pop_ms
        messages = first.messages + result.messages
        self._complete(LeaseResult(messages, pop_ms, first.rest + result.rest, first.unfinished))

    def _complete(self, result: LeaseResult) -> None:
        if result.messages:
            self._receiving.deliver(self, result.messages, partial(self._deliver, result))
        else:
            self._deliver(result, [])

    def _deliver(self, result: LeaseResult, kept: list[Leased]) -> None:
        command = self.command
        if kept or (command.wait_ms <= 0 and not result.messages and not result.unfinished):
            self._answer(Received(command.ticket, kept, result.pop_ms, command.invisible_ms, result.rest))
        elif self._place is not None and not result.messages and not result.unfinished:
            self._waiter = self._place
        elif result.messages or result.unfinished or self._wakes != self._receiving.wakes:
            # There may be more behind what was not for delivery, or there is since; nothing else would wake this call.
            self._receiving.later(self.lease)
        else:
            self._park()

    def _park(self) -> None:
        command = self.command
        self._waiter = self._receiving.park(self, self._due_ns)
        if self._waiter is None:
            failure = Failure(ErrorCode.POLLING_FULL, f"too many requests wait for {command.topic} in {command.group}")
            self._answer(Refused(command.ticket, failure))
        elif not self._known:
            self._known = True
            self.connection.on_close.append(self.abandon)

    def retry(self) -> bool:
        """Something is there for a parked call. True: it has found something, and is no longer parked."""
        self._place = self._waiter
        self._waiter = None
        self.lease()
        self._place = None
        return not self._is_parked()

    def _is_parked(self) -> bool:
        """Asked by a call, since what was known of `_waiter` before a lease is not true after it."""
        return self._waiter is not None

    def give_up(self) -> None:
        """The time of a parked call is over."""
        command = self.command
        self._waiter = None
        self._answer(Received(command.ticket, [], self._receiving.wall_ms(), command.invisible_ms, 0))

    def refuse(self, failure: Failure) -> None:
        """A parked call may not have it any more."""
        self._waiter = None
        self._answer(Refused(self.command.ticket, failure))

    def abandon(self) -> None:
        """The client has gone."""
        if self._waiter is not None:
            self._receiving.leave(self._waiter)

    def _answer(self, event: Received | Refused) -> None:
        self._answered = True
        if isinstance(event, Received) and event.messages:
            self._receiving.counters.received(self.command.group, self.command.topic, event.messages)
        if self._known and self.abandon in self.connection.on_close:
            self.connection.on_close.remove(self.abandon)
        self.connection.answer(event)
