"""Queries: messages by key or unique id."""

from __future__ import annotations

from collections.abc import Mapping

from domain import limits
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.ports import MessageStore, Metadata
from domain.query import MessagesFound, QueryMessages
from domain.topic import PERM_READ
from gateway.session import Session
from gateway.usecase.handler import Verb


class Querying:
    """QueryMessages."""

    def __init__(self, store: MessageStore, metadata: Metadata) -> None:
        self._store = store
        self._metadata = metadata

    def verbs(self) -> Mapping[type[Command], Verb]:
        """QueryMessages."""
        return {QueryMessages: self._query}

    def _query(self, session: Session, command: QueryMessages) -> None:
        failure = self._illegal(command)
        if failure is not None:
            session.answer(Refused(command.ticket, failure))
            return

        def found(result: list[bytes] | Failure) -> None:
            if isinstance(result, Failure):
                session.answer(Refused(command.ticket, result))
            else:
                session.answer(MessagesFound(command.ticket, result))

        self._store.find(
            command.topic,
            command.key,
            command.begin_ms,
            command.end_ms,
            min(command.limit, limits.QUERY_MESSAGES_MAX),
            limits.PULL_BYTES_MAX,
            command.unique,
            found,
        )

    def _illegal(self, command: QueryMessages) -> Failure | None:
        topic = self._metadata.topic(command.topic)
        if topic is None:
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        if not topic.perm & PERM_READ:
            return Failure(ErrorCode.NOT_ALLOWED, f"topic {command.topic} cannot be read")
        if not command.key or command.limit < 1:
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, "a query needs a key, and a limit of at least 1")
        return None
