"""One Receive command: it leases from a topic, and fills up from the group's retry topics."""

from __future__ import annotations

from functools import partial
from typing import final

from domain.command import Receive
from domain.delivery.retry_owner import retry_filter
from domain.errors import Failure
from domain.event import Leased
from domain.store.store_ports import LeaseResult
from domain.store.store_request import LeaseRequest, LeaseTerms
from domain.topic.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.leasing_call import LeasingCall, LeasingContext
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.topics_and_groups.priority import PriorityReads
from gateway.usecase.topics_and_groups.topics import RetryTopic, Topics, retry_topics
from gateway.usecase.waiting.long_polls import Key, LongPolls


@final
class ReceiveContext:
    """The collaborators of all receive calls of a node.

    priorities      chooses the queue of a receive from a topic of type PRIORITY
    """

    __slots__ = ("leasing", "polls", "priorities", "topics")

    def __init__(self, leasing: LeasingContext, topics: Topics, policy: NodePolicy) -> None:
        self.leasing = leasing
        self.topics = topics
        self.priorities = PriorityReads(policy)
        self.polls = LongPolls(leasing.clock)


@final
class ReceiveCall(LeasingCall[Receive]):
    """A call that leases from a topic.

    _request     the lease request to the topic itself; its queue is chosen again for each attempt
    _found       messages of the topic and of those of the group's retry topics that have been asked
    _retries     the group's retry topics that are still to be asked
    """

    __slots__ = ("_found", "_receiving", "_request", "_retries")

    def __init__(self, receiving: ReceiveContext, connection: ClientConnection, command: Receive, group: Group) -> None:
        super().__init__(receiving.leasing, receiving.polls, connection, command, group, command.ordered)
        self._receiving = receiving
        self._request = LeaseRequest(
            command.group,
            command.topic,
            command.limit,
            LeaseTerms(command.invisible_ms, command.ordered, command.attempt_id, command.fleeting),
            wanted=retry_filter(command.topic, command.group, self.context.groups.find, inner=command.filter),
            from_first=command.from_first,
        )
        self._found: LeaseResult | None = None
        self._retries: list[RetryTopic] = []

    def parking_key(self) -> Key:
        """Members of a group that wait for the same are served first come, first served."""
        return self.command.group, self.command.topic, self.command.queue_id

    def full(self) -> str:
        """The text of POLLING_FULL."""
        return f"too many requests wait for {self.command.topic} in {self.command.group}"

    def queue_of(self, message: Leased) -> str:
        """The topic."""
        return self.command.topic

    def lease_messages(self) -> None:
        """Lease messages of the topic."""
        command, receiving = self.command, self._receiving
        request = self._request
        request.queue_id = receiving.priorities.queue_id(receiving.topics.find(command.topic), self.group, command)
        self.context.leases.lease(request, self._leased)

    def _leased(self, result: LeaseResult | Failure) -> None:
        """Take the messages of the topic, and fill up from the group's retry topics."""
        if isinstance(result, Failure):
            self.refuse(result)
            return
        command = self.command
        self._retries = retry_topics(self._receiving.topics, command.group, command.topic) if command.queue_id < 0 else []
        self._fill_up(result)

    def _fill_up(self, found: LeaseResult) -> None:
        """Lease from the next retry topic as the answer has room; without such a topic, or without room, complete the call."""
        context, command = self.context, self.command
        room = max(command.limit - len(found.messages), 0)
        # A repeated attempt gets back what it holds of a retry topic, even where new messages have filled the answer.
        if not self._retries or (room == 0 and not command.attempt_id):
            self.complete(found)
            return
        self._found = found
        name, version, rest = self._retries.pop()
        request = LeaseRequest(
            command.group,
            name,
            room,
            self._request.terms,
            wanted=retry_filter(name, command.group, context.groups.find, rest),
            from_first=True,
        )
        context.leases.lease(request, partial(self._retries_leased, version))

    def _retries_leased(self, version: int, result: LeaseResult | Failure) -> None:
        """Add the messages of a retry topic. When that lease failed, the messages of the others are delivered alone."""
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
