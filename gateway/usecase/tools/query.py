"""Queries: messages by key or unique id, and the groups that consume a topic."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Final

from domain import limits
from domain.admin.message import MessagesFound, QueryMessages
from domain.admin.topic import ConsumersFound, QueryConsumers
from domain.delivery.retry_owner import kept
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.store.store_ports import GroupPositions, MessageLog, Metadata
from domain.store.store_request import KeyQuery
from domain.topic.topic import PERM_READ
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.membership.members import Registry
from gateway.usecase.topics_and_groups import every
from gateway.usecase.waiting.fan_in import FanIn
from gateway.usecase.waiting.long_questions import LongQuestions
from gateway.usecase.waiting.read_turns import ReadTurns

POSITIONS_MAX: Final = 65_536
"""Queues of which one QueryConsumers asks a group's position."""


class Querying:
    """The verbs QueryMessages and QueryConsumers."""

    def __init__(
        self,
        log: MessageLog,
        positions: GroupPositions,
        metadata: Metadata,
        registry: Registry,
        questions: LongQuestions,
        reads: ReadTurns,
    ) -> None:
        self._reads = reads
        self._log = log
        self._positions = positions
        self._metadata = metadata
        self._registry = registry
        self._questions = questions
        self.verbs: Verbs = {QueryMessages: self._query, QueryConsumers: self._consumers}

    def _query(self, connection: ClientConnection, command: QueryMessages) -> None:
        failure = self._illegal(command)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return

        if self._reads.crowded:
            self._reads.add(connection, partial(self._find, connection, command))
        else:
            self._find(connection, command)

    def _find(self, connection: ClientConnection, command: QueryMessages) -> None:
        def found(result: list[bytes] | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                self._reads.count(sum(map(len, result)))
                connection.answer(MessagesFound(command.ticket, kept(result, command.topic, "", self._metadata.group)))

        limit = min(command.limit, limits.QUERY_MESSAGES_MAX)
        key, begin_ms, end_ms = command.key, command.begin_ms, command.end_ms
        query = KeyQuery(command.topic, key, begin_ms, end_ms, limit, limits.PULL_BYTES_MAX, command.unique)
        self._log.find(query, found)

    def _illegal(self, command: QueryMessages) -> Failure | None:
        topic = self._metadata.topic(command.topic)
        if topic is None:
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        if not topic.perm & PERM_READ:
            return Failure(ErrorCode.NOT_ALLOWED, f"topic {command.topic} cannot be read")
        if not command.key or command.limit < 1:
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, "a query needs a key, and a limit of at least 1")
        return None

    def _consumers(self, connection: ClientConnection, command: QueryConsumers) -> None:
        topic = self._metadata.topic(command.topic)
        if topic is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
            connection.answer(Refused(command.ticket, failure))
            return
        registry = self._registry
        groups = {name for name in registry.groups() if registry.subscription(name, topic.name) is not None}
        places = (
            (group.name, topic.name, queue_id)
            for group in every.groups(self._metadata)
            if group.name not in groups
            for queue_id in range(topic.read_queues)
        )

        def positioned(positions: dict[tuple[str, str, int], int], _: Failure | None) -> None:
            connection.answer(ConsumersFound(command.ticket, sorted(groups.union([name for name, _, _ in positions]))))

        fan_in = FanIn(self._positions.offset, positioned)
        self._questions.ask(connection, fan_in.steps(islice(places, POSITIONS_MAX)))
