"""Questions about stored messages: a queue's oldest one, whether a group has some to receive; and the node's counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import final

from domain import address
from domain.admin.broker import NodeCounters, QueryNodeCounters
from domain.admin.topic import EarliestStoreTime, QueryEarliestStoreTime
from domain.command import AwaitMessages
from domain.errors import ErrorCode, Failure
from domain.event import MessagesWaiting, Refused
from domain.message.record import Record
from domain.ports import Clock
from domain.store.outlook import Outlook
from domain.store.store_ports import MessageLog, Metadata, ReadResult
from domain.store.store_request import ReadRequest
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.topics_and_groups.rights import Rights
from gateway.usecase.topics_and_groups.topics import Topics
from gateway.usecase.waiting.long_polls import LongPolls, RightsCheck, WaitingCall


@final
class AwaitPoll(WaitingCall[AwaitMessages]):
    """A call that asks whether its group has something to receive."""

    __slots__ = ("_metadata", "_outlook")

    def __init__(
        self, outlook: Outlook, metadata: Metadata, polls: LongPolls, connection: ClientConnection, command: AwaitMessages
    ) -> None:
        super().__init__(polls, connection, command)
        self._outlook = outlook
        self._metadata = metadata

    def start(self) -> None:
        """Answer at once when there are messages or the command does not wait, else park the call."""
        command = self.command
        if self.attempt():
            return
        if command.wait_ms <= 0:
            self.expire()
        elif not self.park((command.group, command.topic, command.queue_id), command.wait_ms):
            self.answer(MessagesWaiting(command.ticket, False, full=True))

    def attempt(self) -> bool:
        """Ask again. Returns True when there are messages and the call is answered."""
        there = self._is_waiting()
        if there:
            self.answer(MessagesWaiting(self.command.ticket, there))
        return there

    def expire(self) -> None:
        """Answer that there is nothing."""
        self.answer(MessagesWaiting(self.command.ticket, False))

    def _is_waiting(self) -> bool:
        """True when a Receive would find messages now, in the topic or in the group's retry topic."""
        command = self.command
        group = self._metadata.group(command.group)
        ordered = command.ordered or (group is not None and group.orderly)
        if self._outlook.can_lease(command.group, command.topic, command.queue_id, ordered, command.attempt_id):
            return True
        if command.queue_id >= 0:
            return False
        for name in (address.pop_retry_topic, address.pop_retry_topic_v1):
            if self._outlook.can_lease(command.group, name(command.group, command.topic), -1, ordered, ""):
                return True
        return False


class Inspecting:
    """QueryEarliestStoreTime, AwaitMessages, QueryNodeCounters. As a StoreListener it wakes the calls of AwaitMessages."""

    def __init__(
        self, log: MessageLog, outlook: Outlook, metadata: Metadata, topics: Topics, rights: Rights, clock: Clock,
        counters: Callable[[], Mapping[str, float]],
    ) -> None:  # fmt: skip
        self._log = log
        self._outlook = outlook
        self._metadata = metadata
        self._topics = topics
        self._rights = rights
        self._counters = counters
        self._started_ms = clock.wall_ms()
        self._long_polls = LongPolls(clock)
        log.listen(self)
        self.verbs: Verbs = {
            QueryEarliestStoreTime: self._earliest,
            AwaitMessages: self._await,
            QueryNodeCounters: self._query,
        }

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Wake the calls that wait for `topic`. A retry topic also wakes the calls that wait for the topic it retries."""
        self._long_polls.wake(topic, queue_id)
        for group, origin in address.retried_by_pop(topic):
            self._long_polls.wake_group(group, origin)

    def freed(self, group: str, topic: str) -> None:
        """Wake the calls of `group` for `topic`: its leases have ended. A retry topic also wakes those of its origin."""
        self._long_polls.wake_group(group, topic)
        for _, origin in address.retried_by_pop(topic):
            self._long_polls.wake_group(group, origin)

    def _query(self, connection: ClientConnection, command: QueryNodeCounters) -> None:
        connection.answer(NodeCounters(command.ticket, self._started_ms, self._counters()))

    def _earliest(self, connection: ClientConnection, command: QueryEarliestStoreTime) -> None:
        failure = self._illegal(command.topic, command.queue_id)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return

        def bounded(result: tuple[int, int] | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            elif result[0] >= result[1]:
                connection.answer(EarliestStoreTime(command.ticket, -1))
            else:
                self._log.read(ReadRequest(command.topic, command.queue_id, result[0], 1, 1), read)

        def read(result: ReadResult | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                first = Record(result.records[0]).store_ms if result.records else -1
                connection.answer(EarliestStoreTime(command.ticket, first))

        self._log.bounds(command.topic, command.queue_id, bounded)

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
            AwaitPoll(self._outlook, self._metadata, self._long_polls, connection, command).start()

    def review(self, check: RightsCheck) -> None:
        """Refuse the parked calls that `check` forbids: rights have changed."""
        self._long_polls.review(check)
