"""Receiving: message-level balance (POP). Each call leases what is free; a call that finds nothing waits its turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from domain import address, limits
from domain.command import Command, Receive
from domain.errors import ErrorCode, Failure
from domain.event import Leased, Received, Refused
from domain.ports import Clock, LeaseResult, MessageStore
from domain.receipt import RETRY_V1
from domain.topic import PERM_READ, Group
from gateway.session import Session
from gateway.usecase.deadletter import DeadLetters
from gateway.usecase.groups import Groups
from gateway.usecase.handler import Verb
from gateway.usecase.parking import Parking, Waiter
from gateway.usecase.topics import Topics


class Receiving:
    """The Receive verb."""

    def __init__(
        self, store: MessageStore, topics: Topics, groups: Groups, dead_letters: DeadLetters, clock: Clock
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._dead_letters = dead_letters
        self._clock = clock
        self._parking = Parking(clock)
        store.listen(self)

    def verbs(self) -> Mapping[type[Command], Verb]:
        """Receive."""
        return {Receive: self._receive}

    def waiting(self) -> int:
        """Receives parked now."""
        return len(self._parking)

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Wake the members that wait for `topic`; for a retry topic, those that wait for what it retries."""
        self._parking.wake(topic, queue_id)
        if topic.startswith(address.RETRY_PREFIX):
            for group, origin in self._retried(topic):
                self._parking.wake_group(group, origin)

    def freed(self, group: str, topic: str) -> None:
        """Leases of `group` have ended."""
        self._parking.wake_group(group, topic)
        if topic.startswith(address.RETRY_PREFIX):
            for _, origin in self._retried(topic):
                self._parking.wake_group(group, origin)

    def _retried(self, retry_topic: str) -> list[tuple[str, str]]:
        """(group, topic) pairs that `retry_topic` may stand for: the name alone does not tell where the group ends."""
        name = retry_topic[len(address.RETRY_PREFIX) :]
        return [(name[:at], name[at + 1 :]) for at, letter in enumerate(name) if letter == "_" and 0 < at < len(name) - 1]

    def _receive(self, session: Session, command: Receive) -> None:
        topic = self._topics.find(command.topic)
        failure: Failure | None = None
        if topic is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        elif not topic.perm & PERM_READ:
            failure = Failure(ErrorCode.NOT_ALLOWED, f"topic {command.topic} cannot be read")
        elif command.queue_id >= topic.read_queues:
            failure = Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {command.topic} has no queue {command.queue_id}")
        elif not 0 < command.limit <= limits.RECEIVE_MESSAGES_MAX:
            failure = Failure(ErrorCode.ARGUMENT_ILLEGAL, f"{command.limit} messages were asked for, 1 to 32 are allowed")
        elif not 0 < command.invisible_ms <= limits.INVISIBLE_MS_MAX:
            failure = Failure(ErrorCode.ARGUMENT_ILLEGAL, "the invisible time is above 0 and at most 12 hours")
        if failure is not None:
            session.answer(Refused(command.ticket, failure))
            return

        def ready(group: Group | Failure) -> None:
            if isinstance(group, Failure):
                session.answer(Refused(command.ticket, group))
            elif not group.consume_enable:
                failure = Failure(ErrorCode.NOT_ALLOWED, f"group {group.name} may not consume")
                session.answer(Refused(command.ticket, failure))
            else:
                _Call(self, session, command, group).start()

        self._groups.ensure(command.group, ready)

    def lease(self, call: _Call) -> None:
        """Lease for one call from the topic itself."""
        command = call.command
        self._store.lease(
            command.group, command.topic, command.queue_id, command.limit, command.invisible_ms, command.filter,
            command.from_first, command.ordered, command.attempt_id, call.leased,
        )  # fmt: skip

    def lease_retries(self, call: _Call, room: int) -> bool:
        """Lease for one call from the group's retry topic, when there is one and the call takes from any queue."""
        command = call.command
        retry_topic = address.pop_retry_topic(command.group, command.topic)
        if command.ordered or command.queue_id >= 0 or self._topics.find(retry_topic) is None:
            return False
        self._store.lease(
            command.group, retry_topic, -1, room, command.invisible_ms, None, True, False, "", call.leased_retries
        )
        return True

    def over_limit(self, command: Receive, group: Group, messages: list[Leased]) -> list[Leased]:
        """Messages still to be delivered; those whose attempts are used up go to the dead-letter topic instead."""
        most = group.retry_max + 1
        kept = [message for message in messages if message.attempt <= most]
        if len(kept) < len(messages):
            for message in messages:
                if message.attempt > most:
                    self._dead_letters.bury(command.group, command.topic, message.receipt, message.record, None)
        return kept

    def park(self, call: _Call) -> Waiter | None:
        """Park one call behind the other members of its group."""
        command = call.command
        key = (command.group, command.topic, command.queue_id)
        waiter = self._parking.park(key, min(command.wait_ms, limits.WAIT_MS_MAX), call.retry, call.give_up)
        if waiter is not None:
            call.session.on_close.append(call.abandon)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Take a parked call out."""
        self._parking.leave(waiter)

    def wall_ms(self) -> int:
        """For empty answers, which have no lease to tell the time."""
        return self._clock.wall_ms()


class _Call:
    """One Receive from its first lease to its answer."""

    __slots__ = ("_answered", "_first", "_group", "_receiving", "_waiter", "command", "session")

    def __init__(self, receiving: Receiving, session: Session, command: Receive, group: Group) -> None:
        self._receiving = receiving
        self.session = session
        self.command = command
        self._group = group
        self._waiter: Waiter | None = None
        self._answered = False
        self._first: LeaseResult | None = None

    def start(self) -> None:
        self._receiving.lease(self)

    def leased(self, result: LeaseResult | Failure) -> None:
        if isinstance(result, Failure):
            self._answer(Refused(self.command.ticket, result))
            return
        self._first = result
        room = self.command.limit - len(result.messages)
        if room == 0 or not self._receiving.lease_retries(self, room):
            self._complete(result.messages, result.pop_ms, result.rest)

    def leased_retries(self, result: LeaseResult | Failure) -> None:
        first = self._first
        assert first is not None
        if isinstance(result, Failure):
            self._complete(first.messages, first.pop_ms, first.rest)
            return
        for message in result.messages:
            message.receipt.retry = RETRY_V1
        pop_ms = first.pop_ms if first.messages else result.pop_ms
        self._complete(first.messages + result.messages, pop_ms, first.rest + result.rest)

    def _complete(self, messages: list[Leased], pop_ms: int, rest: int) -> None:
        command = self.command
        kept = self._receiving.over_limit(command, self._group, messages)
        if not kept and command.wait_ms > 0:
            if self._waiter is not None:
                return
            self._waiter = self._receiving.park(self)
            if self._waiter is None:
                failure = Failure(ErrorCode.POLLING_FULL, f"too many requests wait for {command.topic} in {command.group}")
                self._answer(Refused(command.ticket, failure))
            return
        self._answer(Received(command.ticket, kept, pop_ms, command.invisible_ms, rest))

    def retry(self) -> bool:
        self._receiving.lease(self)
        return self._answered

    def give_up(self) -> None:
        command = self.command
        self._answer(Received(command.ticket, [], self._receiving.wall_ms(), command.invisible_ms, 0))

    def abandon(self) -> None:
        if self._waiter is not None and not self._answered:
            self._receiving.leave(self._waiter)

    def _answer(self, event: Received | Refused) -> None:
        self._answered = True
        if self._waiter is not None and self.abandon in self.session.on_close:
            self.session.on_close.remove(self.abandon)
        self.session.answer(event)
