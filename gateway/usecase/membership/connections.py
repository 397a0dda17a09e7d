"""Questions about connected consumers and producers, and about the topics that a group consumes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from domain.admin.client import ClientSeen, Connections, Producers, QueryConnections, QueryProducers
from domain.admin.group import ConsumedTopics, QueryConsumedTopics
from domain.client.membership import Subscription
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.store.store_ports import GroupPositions, Metadata
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.membership.members import Registry
from gateway.usecase.topics_and_groups import every
from gateway.usecase.waiting.fan_in import FanIn
from gateway.usecase.waiting.long_questions import LongQuestions

POSITIONS_MAX: Final = 65_536
"""Queues of which one QueryConsumedTopics asks the group's position."""


class ConnectionQueries:
    """The verbs QueryConnections, QueryProducers and QueryConsumedTopics."""

    def __init__(self, positions: GroupPositions, metadata: Metadata, registry: Registry, questions: LongQuestions) -> None:
        self._positions = positions
        self._metadata = metadata
        self._registry = registry
        self._questions = questions
        self.verbs: Verbs = {
            QueryConnections: self._connections,
            QueryProducers: self._producers,
            QueryConsumedTopics: self._consumed,
        }

    def _connections(self, connection: ClientConnection, command: QueryConnections) -> None:
        members = self._registry.members(command.group)
        if not members:
            failure = Failure(ErrorCode.GROUP_OFFLINE, f"the consumer group <{command.group}> not online")
            connection.answer(Refused(command.ticket, failure))
            return
        last = max(members.values(), key=lambda member: member.seen_ns).membership
        newest: dict[str, Subscription] = {}
        for member in members.values():
            for each in member.membership.subscriptions:
                if each.topic not in newest or newest[each.topic].version < each.version:
                    newest[each.topic] = each
        answer = Connections(
            command.ticket,
            self._seen(members),
            last.consume_type,
            last.model,
            last.from_where,
            [newest[topic] for topic in sorted(newest)],
        )
        connection.answer(answer)

    def _producers(self, connection: ClientConnection, command: QueryProducers) -> None:
        names = [command.group] if command.group else self._registry.producer_groups()
        groups = {name: self._seen(self._registry.producers(name)) for name in names}
        if command.group and not groups[command.group]:
            failure = Failure(ErrorCode.GROUP_OFFLINE, f"the producer group <{command.group}> not exist")
            connection.answer(Refused(command.ticket, failure))
        else:
            connection.answer(Producers(command.ticket, groups))

    def _seen(self, client_ids: Iterable[str]) -> list[ClientSeen]:
        found: list[ClientSeen] = []
        for client_id in sorted(client_ids):
            client = self._registry.client(client_id)
            if client is not None:
                found.append(ClientSeen(client_id, client.address, client.language, client.version, client.seen_ms))
        return found

    def _consumed(self, connection: ClientConnection, command: QueryConsumedTopics) -> None:
        if self._metadata.group(command.group) is None:
            failure = Failure(ErrorCode.GROUP_NOT_FOUND, f"the consumer group <{command.group}> does not exist")
            connection.answer(Refused(command.ticket, failure))
            return
        members = self._registry.members(command.group).values()
        topics = {each.topic for member in members for each in member.membership.subscriptions}
        places = (
            (command.group, topic.name, queue_id)
            for topic in every.topics(self._metadata)
            if topic.name not in topics
            for queue_id in range(max(topic.read_queues, topic.write_queues))
        )

        def positioned(positions: dict[tuple[str, str, int], int], _: Failure | None) -> None:
            connection.answer(ConsumedTopics(command.ticket, sorted(topics.union([name for _, name, _ in positions]))))

        fan_in = FanIn(self._positions.offset, positioned)
        self._questions.ask(connection, fan_in.steps(islice(places, POSITIONS_MAX)))
