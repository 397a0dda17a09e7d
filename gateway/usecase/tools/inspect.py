"""Looking at what is stored: the oldest message of a queue, whether a group has something to receive, the node's figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from domain import address, limits
from domain.admin.broker import NodeCounters, QueryNodeCounters
from domain.admin.topic import Earliest, QueryEarliest
from domain.command import AwaitMessages, Command
from domain.errors import ErrorCode, Failure
from domain.event import MessagesWait, Refused
from domain.ports import Clock, MessageStore, Metadata, ReadResult
from domain.record import Record
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.catalog.rights import Rights
from gateway.usecase.catalog.topics import Topics
from gateway.usecase.consume.long_polls import LongPoll, LongPolls, RightsCheck
from gateway.usecase.handler import Verb


class Inspecting:
    """QueryEarliest, AwaitMessages, QueryFigures."""

    def __init__(
        self, store: MessageStore, metadata: Metadata, topics: Topics, rights: Rights, clock: Clock,
        figures: Callable[[], Mapping[str, float]],
    ) -> None:  # fmt: skip
        self._store = store
        self._metadata = metadata
        self._topics = topics
        self._rights = rights
        self._figures = figures
        self._started_ms = clock.wall_ms()
        self._long_polls = LongPolls(clock)
        store.listen(self)

    def verbs(self) -> Mapping[type[Command], Verb]:
        """The three of them."""
        return {
            QueryEarliest: self._earliest,
            AwaitMessages: self._await,
            QueryNodeCounters: self._query,
        }

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Wake whoever waits for the topic, or for what it retries."""
        self._long_polls.wake(topic, queue_id)
        for group, origin in address.retried_by_pop(topic):
            self._long_polls.wake_group(group, origin)

    def freed(self, group: str, topic: str) -> None:
        """Leases have ended: there is something again."""
        self._long_polls.wake_group(group, topic)
        for _, origin in address.retried_by_pop(topic):
            self._long_polls.wake_group(group, origin)

    def _query(self, connection: ClientConnection, command: QueryNodeCounters) -> None:
        connection.answer(NodeCounters(command.ticket, self._started_ms, self._figures()))

    def _earliest(self, connection: ClientConnection, command: QueryEarliest) -> None:
        failure = self._illegal(command.topic, command.queue_id)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return

        def bounded(result: tuple[int, int] | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            elif result[0] >= result[1]:
                connection.answer(Earliest(command.ticket, -1))
            else:
                self._store.read(command.topic, command.queue_id, result[0], 1, 1, None, read)

        def read(result: ReadResult | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                first = Record(result.records[0]).store_ms if result.records else -1
                connection.answer(Earliest(command.ticket, first))

        self._store.bounds(command.topic, command.queue_id, bounded)

    def _illegal(self, topic: str, queue_id: int) -> Failure | None:
        known = self._topics.to_read(topic)
        if known is None:
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {topic} does not exist")
        if not -1 <= queue_id < max(known.read_queues, 1):
            return Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {topic} has no queue {queue_id}")
        return None

    def _await(self, connection: ClientConnection, command: AwaitMessages) -> None:
        failure = self._illegal(command.topic, command.queue_id) or self._topics.unreadable(command.topic)
        failure = failure or self._rights.refusal(command.group, command.topic)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
        else:
            _Watch(self, connection, command).start()

    def waits(self, command: AwaitMessages) -> bool:
        """Whether a Receive would find something now, in the topic or among what has gone on to the group's retry topic."""
        group = self._metadata.group(command.group)
        ordered = command.ordered or (group is not None and group.orderly)
        if self._store.outlook.waits(command.group, command.topic, command.queue_id, ordered, command.attempt_id):
            return True
        if ordered or command.queue_id >= 0:
            return False
        retry_topic = address.pop_retry_topic(command.group, command.topic)
        return self._store.outlook.waits(command.group, retry_topic, -1, False, "")

    def park(self, watch: _Watch) -> LongPoll | None:
        """Hold one watch."""
        command = watch.command
        key = (command.group, command.topic, command.queue_id)
        waiter = self._long_polls.park(key, min(command.wait_ms, limits.WAIT_MS_MAX), watch.wake, watch.give_up, watch)
        if waiter is not None:
            watch.connection.on_close.append(watch.abandon)
        return waiter

    def review(self, judge: RightsCheck) -> None:
        """Rights have changed."""
        self._long_polls.review(judge)

    def leave(self, waiter: LongPoll) -> None:
        """Take a watch out."""
        self._long_polls.leave(waiter)


class _Watch:
    """One AwaitMessages from its first look to its answer."""

    __slots__ = ("_inspecting", "_waiter", "command", "connection")

    def __init__(self, inspecting: Inspecting, connection: ClientConnection, command: AwaitMessages) -> None:
        self._inspecting = inspecting
        self.connection = connection
        self.command = command
        self._waiter: LongPoll | None = None

    def start(self) -> None:
        if self._inspecting.waits(self.command):
            self._answer(there=True)
        elif self.command.wait_ms <= 0:
            self._answer(there=False)
        else:
            self._waiter = self._inspecting.park(self)
            if self._waiter is None:
                self._answer(there=False, full=True)

    def wake(self) -> bool:
        there = self._inspecting.waits(self.command)
        if there:
            self._answer(there=True)
        return there

    def give_up(self) -> None:
        self._answer(there=False)

    def refuse(self, failure: Failure) -> None:
        self._tell(Refused(self.command.ticket, failure))

    def abandon(self) -> None:
        if self._waiter is not None:
            self._inspecting.leave(self._waiter)

    def _answer(self, *, there: bool, full: bool = False) -> None:
        self._tell(MessagesWait(self.command.ticket, there, full))

    def _tell(self, event: MessagesWait | Refused) -> None:
        if self._waiter is not None and self.abandon in self.connection.on_close:
            self.connection.on_close.remove(self.abandon)
        self.connection.answer(event)
