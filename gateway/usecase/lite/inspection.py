"""Questions of tools about lite topics (LiteManagerProcessor of RocketMQ)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nsmallest
from itertools import islice
from typing import Final

from domain.admin.lite import (
    DispatchLite,
    LiteClient,
    LiteGroup,
    LiteLag,
    LiteNode,
    LiteParent,
    LiteTopic,
    QueryLiteClient,
    QueryLiteGroup,
    QueryLiteNode,
    QueryLiteParent,
    QueryLiteTopic,
)
from domain.errors import Failure
from domain.event import Done, Event, Refused
from domain.ports import Clock
from domain.store.store_ports import GroupPositions, MessageLog, Metadata
from domain.topic import attribute, lite
from domain.topic.lite import LiteQueues
from domain.topic.topic import Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.lite import configuration
from gateway.usecase.lite.receive import LiteReceiving
from gateway.usecase.lite.subscriptions import Subscriptions

SLICE: Final = 1_024
"""Lite topics that one turn of the loop looks at."""
TOP_MAX: Final = 1_000
"""Lite topics that each of the two lists of an answer names at most."""


class LiteBacklog:
    """Fills in the backlog of a LiteGroup answer. The store answers before its calls return: lite queues are on this node."""

    def __init__(self, log: MessageLog, positions: GroupPositions, queues: LiteQueues, clock: Clock) -> None:
        self._log = log
        self._positions = positions
        self._queues = queues
        self._clock = clock

    def one(self, answer: LiteGroup) -> None:
        """Fill in the backlog and the position in the lite topic that the answer names, where the group has a position."""
        end, position = self._place(answer.group, answer.topic, answer.lite)
        if position >= 0:
            answer.count = end - position
            answer.oldest_ms = self._queues.time_at(answer.topic, answer.lite, position)
            answer.position = (end, position, self._queues.time_at(answer.topic, answer.lite, position - 1))

    def all(self, answer: LiteGroup, top: int, done: Callable[[LiteGroup], None]) -> None:
        """Sum up all lite topics in which the group has a position, then call `done`.

        The answer names the `top` (at most TOP_MAX) lite topics with the largest backlog, and those with the oldest messages.
        """
        answer.count = 0
        self._slice(answer, self._queues.names(answer.topic), min(max(top, 0), TOP_MAX), done)

    def _slice(self, answer: LiteGroup, names: Iterator[str], top: int, done: Callable[[LiteGroup], None]) -> None:
        some = list(islice(names, SLICE))
        found: list[LiteLag] = []
        for name in some:
            end, position = self._place(answer.group, answer.topic, name)
            if 0 <= position < end:
                found.append(LiteLag(name, end - position, self._queues.time_at(answer.topic, name, position)))
        if found:
            answer.count += sum(each.count for each in found)
            oldest_ms = min(each.oldest_ms for each in found)
            answer.oldest_ms = oldest_ms if answer.oldest_ms < 0 else min(answer.oldest_ms, oldest_ms)
            answer.by_count = nsmallest(top, answer.by_count + found, key=lambda each: (-each.count, each.lite))
            answer.by_age = nsmallest(top, answer.by_age + found, key=lambda each: (each.oldest_ms, each.lite))
        if len(some) < SLICE:
            done(answer)
        else:
            self._clock.call_at(self._clock.monotonic_ns(), lambda: self._slice(answer, names, top, done))

    def _place(self, group: str, topic: str, name: str) -> tuple[int, int]:
        """(next offset of a lite topic's queue, position of `group` there); position -1 when it has none."""
        queue = lite.queue_name(topic, name)
        bounds: list[tuple[int, int] | Failure] = []
        position: list[int | Failure] = []
        self._log.bounds(queue, 0, bounds.append)
        self._positions.offset(group, queue, 0, position.append)
        if not bounds or isinstance(bounds[0], Failure) or not position or isinstance(position[0], Failure):
            return 0, -1
        return bounds[0][1], max(position[0], bounds[0][0])


NAMES_MAX: Final = 10_000
"""Lite topics that an answer about one client names."""


class LiteInspection:
    """The verbs QueryLiteNode, QueryLiteParent, QueryLiteTopic, QueryLiteClient, QueryLiteGroup and DispatchLite."""

    def __init__(
        self, log: MessageLog, positions: GroupPositions, queues: LiteQueues, metadata: Metadata,
        subscriptions: Subscriptions, receiving: LiteReceiving, clock: Clock,
    ) -> None:  # fmt: skip
        self._log = log
        self._backlog = LiteBacklog(log, positions, queues, clock)
        self._queues = queues
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._receiving = receiving
        self.verbs: Verbs = {
            QueryLiteNode: self._node,
            QueryLiteParent: self._parent,
            QueryLiteTopic: self._topic,
            QueryLiteClient: self._client,
            QueryLiteGroup: self._group,
            DispatchLite: self._dispatch,
        }

    def _node(self, connection: ClientConnection, command: QueryLiteNode) -> None:
        ready = sum(len(each.ready) for each in self._subscriptions.all())
        topics = {each.name: _minutes(each) for each in self._metadata.lite_topics()}
        connection.answer(
            LiteNode(
                command.ticket, self._queues.count(""), self._subscriptions.count, self._queues.positions(), ready, topics,
                configuration.bound_groups(self._metadata),
            )
        )  # fmt: skip

    def _parent(self, connection: ClientConnection, command: QueryLiteParent) -> None:
        topic = configuration.topic_of(self._metadata, command.topic)
        if isinstance(topic, Failure):
            connection.answer(Refused(command.ticket, topic))
            return
        groups = configuration.bound_groups(self._metadata).get(topic.name, [])
        count = self._queues.count(topic.name)
        connection.answer(LiteParent(command.ticket, topic.name, _minutes(topic), groups, count, self._queues.count("")))

    def _topic(self, connection: ClientConnection, command: QueryLiteTopic) -> None:
        topic = configuration.topic_of(self._metadata, command.topic)
        if isinstance(topic, Failure):
            connection.answer(Refused(command.ticket, topic))
            return
        found = self._subscriptions.of(topic.name, command.lite)
        subscribers = [(each.client_id, each.group) for each in found]

        def bounded(bounds: tuple[int, int] | Failure) -> None:
            answer: Event
            if isinstance(bounds, Failure):
                answer = Refused(command.ticket, bounds)
            else:
                newest_ms = self._queues.newest_ms(topic.name, command.lite)
                answer = LiteTopic(command.ticket, topic.name, command.lite, *bounds, newest_ms, subscribers)
            connection.answer(answer)

        self._log.bounds(lite.queue_name(topic.name, command.lite), 0, bounded)

    def _client(self, connection: ClientConnection, command: QueryLiteClient) -> None:
        topic = configuration.topic_of(self._metadata, command.topic)
        group = configuration.group_of(self._metadata, command.group, command.topic)
        for each in (topic, group):
            if isinstance(each, Failure):
                connection.answer(Refused(command.ticket, each))
                return
        known = self._subscriptions.find(command.group, command.client_id)
        names: list[str] = []
        count = -1
        if known is not None:
            count = self._queues.count(command.topic) if known.wildcard else len(known.names)
            every = self._queues.names(command.topic) if known.wildcard else iter(known.names)
            names = list(islice(every, max(0, min(command.limit, NAMES_MAX))))
        seen_ms, received_ms = (0, 0) if known is None else (known.seen_ms, known.received_ms)
        connection.answer(
            LiteClient(command.ticket, command.topic, command.group, command.client_id, count, names, seen_ms, received_ms)
        )

    def _group(self, connection: ClientConnection, command: QueryLiteGroup) -> None:
        group = configuration.group_of(self._metadata, command.group, "")
        if isinstance(group, Failure):
            connection.answer(Refused(command.ticket, group))
            return
        topic = group.attributes[attribute.BIND_TOPIC]
        answer = LiteGroup(command.ticket, group.name, topic, command.lite, -1, -1, [], [], None)
        if command.lite:
            self._backlog.one(answer)
            connection.answer(answer)
        else:
            self._backlog.all(answer, command.top, connection.answer)

    def _dispatch(self, connection: ClientConnection, command: DispatchLite) -> None:
        group = configuration.group_of(self._metadata, command.group, "")
        if isinstance(group, Failure):
            connection.answer(Refused(command.ticket, group))
            return
        for each in self._subscriptions.of_group(command.group):
            if command.client_id in ("", each.client_id):
                self._receiving.find_ready(each)
        connection.answer(Done(command.ticket))


def _minutes(topic: Topic) -> int:
    return attribute.number(topic.attributes, attribute.EXPIRATION, -1)
