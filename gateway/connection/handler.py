"""Handler of commands: the dispatcher, or a check before it."""

from __future__ import annotations

from typing import Protocol

from domain.command import Command
from gateway.connection.client_connection import ClientConnection


class Handler(Protocol):
    """The use cases as connections see them.

    `gateway.usecase.dispatcher.Dispatcher` carries commands out. `gateway.access.gate.Gate` and
    `gateway.guard.throttle.Throttle` stand before it and pass on what is allowed.
    """

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Carry out one command. The answer goes to `connection.answer`, at once or later."""


class CommandEntry(Protocol):
    """A place at which commands of clients enter.

    handler   carries them out; it may be replaced while clients are connected
    """

    handler: Handler
