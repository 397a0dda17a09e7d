"""Commands that change and use the security contexts of users (OSCORE, RFC 8613)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, final

from domain.admin.oscore import (
    DeleteOscoreContext,
    HoldOscoreContext,
    OscoreContextFound,
    OscoreRunReserved,
    PutOscoreContext,
    QueryOscoreContext,
    ReserveOscoreRun,
)
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.principal import GATEWAY
from gateway.access.records import AccessRecords
from gateway.connection.client_connection import ClientConnection

SUPER_ONLY: Final = Failure(ErrorCode.NOT_ALLOWED, "only Super users may change a Super user")


@final
class ContextAdministration:
    """The use case (`gateway.usecase.handler.UseCase`) of security contexts. Answers contain neither secrets nor salts."""

    def __init__(self, records: AccessRecords) -> None:
        self._records = records
        self._contexts = records.contexts

    def verbs(self) -> Mapping[type[Command], Callable[[ClientConnection, Any], None]]:
        """Commands of `domain.admin.oscore`."""
        return {
            PutOscoreContext: self._put,
            DeleteOscoreContext: self._delete,
            QueryOscoreContext: self._query,
            ReserveOscoreRun: self._reserve,
            HoldOscoreContext: self._hold,
        }

    def _put(self, connection: ClientConnection, command: PutOscoreContext) -> None:
        context = command.context
        user = self._records.users.get(context.user)
        fault = context.fault or ("" if user is not None else f"there is no user {context.user[:128]}")
        if fault:
            connection.answer(Refused(command.ticket, Failure(ErrorCode.ARGUMENT_ILLEGAL, fault)))
        elif user is not None and user.privileged and not _privileged(connection, command):
            connection.answer(Refused(command.ticket, SUPER_ONLY))
        else:
            self._contexts.put(context, _answer(connection, command.ticket))

    def _delete(self, connection: ClientConnection, command: DeleteOscoreContext) -> None:
        user = self._records.users.get(command.user)
        if user is not None and user.privileged and not _privileged(connection, command):
            connection.answer(Refused(command.ticket, SUPER_ONLY))
        elif command.user in self._contexts.by_user:
            self._contexts.drop(command.user, _answer(connection, command.ticket))
        else:
            connection.answer(Done(command.ticket))

    def _query(self, connection: ClientConnection, command: QueryOscoreContext) -> None:
        found = self._contexts.by_user.get(command.user)
        shown = None if found is None else dataclasses.replace(found, secret=b"", salt=b"")
        connection.answer(OscoreContextFound(command.ticket, shown))

    def _reserve(self, connection: ClientConnection, command: ReserveOscoreRun) -> None:
        def done(run: int | Failure) -> None:
            if isinstance(run, Failure):
                connection.answer(Refused(command.ticket, run))
            else:
                connection.answer(OscoreRunReserved(command.ticket, run))

        self._contexts.reserve(command.user, done)

    def _hold(self, connection: ClientConnection, command: HoldOscoreContext) -> None:
        self._contexts.hold(command.user, command.holder, command.before, _answer(connection, command.ticket))


def _answer(connection: ClientConnection, ticket: object) -> Callable[[None | Failure], None]:
    return lambda failure: connection.answer(Done(ticket) if failure is None else Refused(ticket, failure))


def _privileged(connection: ClientConnection, command: Command) -> bool:
    """True for Super users, and where access is not controlled."""
    principal = getattr(command, "principal", None) or connection.principal
    return principal is None or principal is GATEWAY or principal.privileged
