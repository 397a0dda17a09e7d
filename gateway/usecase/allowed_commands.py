"""The commands that a process without a store for clients carries out; it refuses all others, in words."""

from __future__ import annotations

from typing import final

from domain.command import Command, Disconnected
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Audited, UseCase, Verb


@final
class AllowedCommands:
    """The only commands that a process carries out. All others are refused with `text`."""

    def __init__(
        self, text: str, *use_cases: UseCase, code: ErrorCode = ErrorCode.NOT_SUPPORTED, audited: Audited | None = None
    ) -> None:
        self._refusal = Failure(code, text)
        self._verbs: dict[type[Command], Verb] = {Disconnected: _disconnected}
        for use_case in use_cases:
            for command, verb in use_case.verbs.items():
                self._verbs[command] = verb if audited is None else audited(command, verb)

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Carry out one command; its answer goes to `connection`, now or later."""
        verb = self._verbs.get(type(command))
        if verb is not None:
            verb(connection, command)
            return
        connection.answer(Refused(getattr(command, "ticket", None), self._refusal))


def _disconnected(connection: ClientConnection, command: Disconnected) -> None:
    connection.end()
