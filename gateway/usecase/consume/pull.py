"""Pulling: reading a queue by offset, and waiting at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from domain import limits, lite
from domain.admin.message import Viewed, ViewMessage
from domain.command import Command, Pull
from domain.errors import ErrorCode, Failure
from domain.event import Pulled, Refused
from domain.filter.expression import Expressions
from domain.lite import queue_name
from domain.ports import Clock, MessageStore, ReadResult
from domain.record import Record
from domain.topic import PERM_READ
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.catalog.counters import MessageCounters
from gateway.usecase.catalog.rights import Rights
from gateway.usecase.catalog.topics import Topics
from gateway.usecase.consume.attempt_limit import AttemptLimit, leased
from gateway.usecase.consume.long_polls import LongPoll, LongPolls, RightsCheck
from gateway.usecase.handler import Verb
from gateway.usecase.membership.members import Registry
from gateway.usecase.membership.pending_resets import PendingResets


class Pulling:
    """Pull and ViewMessage. A pull that finds nothing is parked as a waiter of its own."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        registry: Registry,
        rights: Rights,
        resets: PendingResets,
        attempt_limit: AttemptLimit,
        clock: Clock,
        counters: MessageCounters,
    ) -> None:
        self._store = store
        self._topics = topics
        self._registry = registry
        self._rights = rights
        self._pending_resets = resets
        self.counters = counters
        self._expressions = Expressions()
        self._attempt_limit = attempt_limit
        self._long_polls = LongPolls(clock)
        self._polls = 0
        self._lights = 0
        self._members: dict[tuple[str, str], dict[LongPoll, None]] = {}
        store.listen(self)

    def verbs(self) -> Mapping[type[Command], Verb]:
        """Pull, ViewMessage."""
        return {Pull: self._pull, ViewMessage: self._view}

    def waiting(self) -> int:
        """Pulls parked now."""
        return len(self._long_polls)

    def review(self, judge: RightsCheck) -> None:
        """Rights have changed."""
        self._long_polls.review(judge)

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Wake whoever waits at the end of that queue."""
        self._long_polls.wake(topic, queue_id)

    def freed(self, group: str, topic: str) -> None:
        """Leases are no matter of a reader by offset, but of members that pull."""
        for waiter in list(self._members.get((group, topic), ())):
            self._long_polls.wake_one(waiter)

    def light_arrived(self, parent: str, lite: str) -> None:
        """LightListener: wake whoever waits at the end of that light queue."""
        if self._lights:
            self._long_polls.wake(queue_name(parent, lite), 0)

    def light_freed(self, group: str, parent: str, lite: str) -> None:
        """LightListener: of no interest to readers by offset."""

    def _pull(self, connection: ClientConnection, command: Pull) -> None:
        topic = self._topics.to_read(command.topic)
        if command.topic.startswith(lite.PREFIX):
            command.member = ""  # who pulls from a light queue reads it beside its group: members receive
        failure: Failure | None = None
        if topic is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        elif not topic.perm & PERM_READ:
            failure = Failure(ErrorCode.NOT_ALLOWED, f"topic {command.topic} cannot be read")
        elif not 0 <= command.queue_id < max(topic.read_queues, 1):
            failure = Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {command.topic} has no queue {command.queue_id}")
        else:
            failure = self.refusal(command)
            if failure is None and command.subscribed:
                failure = self._subscribe(command)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return
        instead = self.instead(command)
        if instead is not None:
            self._store.bounds(command.topic, command.queue_id, _Moved(connection, command, instead).bounded)
            return
        if command.commit >= 0 and command.group:
            commit = self._store.report if command.member else self._store.commit
            commit(command.group, [(command.topic, command.queue_id, command.commit)], None)
        _PullPoll(self, connection, command).start()

    def refusal(self, command: Pull) -> Failure | None:
        """Why the group may not read the topic now, None: it may."""
        return self._rights.refusal(command.group, command.topic, command.broadcast)

    def instead(self, command: Pull) -> int | None:
        """Where the reader has to go on, when somebody has set its group's position; None: where it wants to."""
        return self._pending_resets.instead(command.group, command.topic, command.queue_id, command.offset)

    def moved(self, poll: _PullPoll, instead: int) -> None:
        """Send the reader of a parked poll elsewhere."""
        command = poll.command
        self._store.bounds(command.topic, command.queue_id, _Moved(poll, command, instead).bounded)

    def _subscribe(self, command: Pull) -> Failure | None:
        """Give a pull the filter of its group: members say the same, so the newest word counts while they change it."""
        found = self._registry.subscription(command.group, lite.topic_of(command.topic))
        if found is None:
            text = f"the consumer's group info not exist: {command.group} has no subscription to {command.topic}"
            return Failure(ErrorCode.GROUP_OFFLINE, text)
        wanted = self._expressions.compile(found.expression_type, found.expression)
        if isinstance(wanted, Failure):
            return wanted
        command.filter = wanted
        return None

    def _view(self, connection: ClientConnection, command: ViewMessage) -> None:
        def viewed(result: bytes | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                connection.answer(Viewed(command.ticket, result))

        self._store.record_at(command.physical_offset, viewed)

    def read(self, poll: _PullPoll) -> None:
        """Read for one poll."""
        command = poll.command
        most = max(1, min(command.limit, limits.BATCH_MESSAGES_MAX))
        size = min(command.max_bytes, limits.PULL_BYTES_MAX) if command.max_bytes > 0 else limits.PULL_BYTES_MAX
        member = self._registry.members(command.group).get(command.member) if command.member else None
        if member is None:
            self._store.read(command.topic, command.queue_id, command.offset, most, size, command.filter, poll.read)
        else:
            self._store.pull(
                command.group, command.member, member.retry_topic, command.topic, command.queue_id, command.offset, most,
                size, command.filter, poll.read,
            )  # fmt: skip

    def deliver(self, command: Pull, result: ReadResult, then: Callable[[ReadResult], None]) -> None:
        """`then` gets what may still be delivered of leased messages."""
        self._attempt_limit.pulled(command, result, then)

    def withdraw(self, command: Pull, result: ReadResult) -> None:
        """What was found comes too late for an answer: if it was leased, the leases are over."""
        if result.pop_ms and result.records:
            receipts = [leased(command, result, Record(data)) for data in result.records]
            self._store.withdraw(command.group, command.topic, receipts)

    def park(self, poll: _PullPoll) -> LongPoll | None:
        """Park one poll under a key of its own, so that one reader never waits behind another."""
        self._polls += 1
        command = poll.command
        key = (f"\x00{self._polls}", command.topic, command.queue_id)
        waiter = self._long_polls.park(key, min(command.wait_ms, limits.WAIT_MS_MAX), poll.retry, poll.give_up, poll)
        if waiter is not None:
            poll.connection.on_close.append(poll.abandon)
            self._lights += command.topic.startswith(lite.PREFIX)
            if command.member:
                self._members.setdefault((command.group, command.topic), {})[waiter] = None
        return waiter

    def leave(self, command: Pull, waiter: LongPoll) -> None:
        """Take a parked poll out, or what is left of it."""
        self._long_polls.leave(waiter)
        self._lights -= command.topic.startswith(lite.PREFIX)
        place = (command.group, command.topic)
        waiting = self._members.get(place)
        if waiting is not None:
            waiting.pop(waiter, None)
            if not waiting:
                del self._members[place]


class _Moved:
    """One pull whose reader is sent elsewhere: to it, its offset is out of range."""

    __slots__ = ("_command", "_hearer", "_instead")

    def __init__(self, hearer: ClientConnection | _PullPoll, command: Pull, instead: int) -> None:
        self._hearer = hearer
        self._command = command
        self._instead = instead

    def bounded(self, bounds: tuple[int, int] | Failure) -> None:
        command = self._command
        if isinstance(bounds, Failure):
            self._hearer.answer(Refused(command.ticket, bounds))
            return
        status = "TOO_LARGE" if command.offset > self._instead else "TOO_SMALL"
        self._hearer.answer(Pulled(command.ticket, status, [], self._instead, *bounds))


class _PullPoll:
    """One pull from its first read to its answer. The store answers a read at once, and leases when they are written."""

    __slots__ = ("_answered", "_last", "_missed", "_pulling", "_reading", "_waiter", "command", "connection")

    def __init__(self, pulling: Pulling, connection: ClientConnection, command: Pull) -> None:
        self._pulling = pulling
        self.connection = connection
        self.command = command
        self._waiter: LongPoll | None = None
        self._answered = False
        self._reading = False
        self._missed = False
        self._last: ReadResult | None = None

    def start(self) -> None:
        self._reading = True
        self._pulling.read(self)

    def read(self, result: ReadResult | Failure) -> None:
        if isinstance(result, Failure):
            self._reading = False
            if not self._answered:
                self.answer(Refused(self.command.ticket, result))
        elif result.pop_ms and not self._answered:
            self._pulling.deliver(self.command, result, self._found)
        else:
            self._found(result)

    def _found(self, result: ReadResult) -> None:
        command = self.command
        self._reading = False
        if self._answered:
            self._pulling.withdraw(command, result)  # its time is over
            return
        if self._missed and not result.records:
            self._missed = False
            self.start()
            return
        at_end = result.status == "EMPTY" or (result.status == "NO_MATCH" and result.next_offset >= result.max_offset)
        if at_end and command.wait_ms > 0:
            self._last = result
            # What was scanned in vain need not be scanned again when the next message wakes this poll.
            command.offset = max(command.offset, result.next_offset)
            if self._waiter is not None:
                return
            self._waiter = self._pulling.park(self)
            if self._waiter is not None:
                return
        self.answer(
            Pulled(
                command.ticket, result.status, result.records, result.next_offset, result.min_offset, result.max_offset
            )
        )  # fmt: skip

    def retry(self) -> bool:
        instead = self._pulling.instead(self.command)
        failure = self._pulling.refusal(self.command)
        if failure is not None:
            self.refuse(failure)
        elif self._reading:
            self._missed = True
        elif instead is None:
            self.start()
        else:
            self._pulling.moved(self, instead)
        return self._answered

    def give_up(self) -> None:
        last = self._last
        if last is not None:
            self.answer(
                Pulled(self.command.ticket, last.status, [], last.next_offset, last.min_offset, last.max_offset)
            )  # fmt: skip

    def refuse(self, failure: Failure) -> None:
        self.answer(Refused(self.command.ticket, failure))

    def abandon(self) -> None:
        if self._waiter is not None and not self._answered:
            self._answered = True
            self._pulling.leave(self.command, self._waiter)

    def answer(self, event: Pulled | Refused) -> None:
        self._answered = True
        if isinstance(event, Pulled) and event.records:
            self._pulling.counters.pulled(self.command.group, self.command.topic, event.records)
        if self._waiter is not None:
            self._pulling.leave(self.command, self._waiter)
            if self.abandon in self.connection.on_close:
                self.connection.on_close.remove(self.abandon)
        self.connection.answer(event)
