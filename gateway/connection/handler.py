"""Handler of commands: the dispatcher, or a check before it."""

from __future__ import annotations

from typing import Protocol, final

from domain.command import Command
from gateway.connection.client_connection import ClientConnection


class Handler(Protocol):
    """The use cases as connections see them.

    `gateway.usecase.dispatcher.Dispatcher` carries commands out. `gateway.access.gate.Gate` and
    `gateway.guard.throttle.Throttle` stand before it and pass on what is allowed.
    """

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Carry out one command. The answer goes to `connection.answer`, at once or later."""


@final
class CommandEntry:
    """The entry of commands that come inside other commands: those of channels, and those that gateways forward.

    handler   carries them out: the first check before the use cases; a reload that limits rates replaces it
    """

    __slots__ = ("handler",)

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
