"""Commands of the gateway itself, answered to a callback each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from domain.command import Command
from domain.errors import Failure
from domain.event import Event
from domain.principal import GATEWAY
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler

Then = Callable[[Event], None]


@final
class InternalClient:
    """A client that lives in this process. The ticket of a command is what is called with its event."""

    def __init__(self, handler: Handler, lost: Callable[[], None]) -> None:
        """`lost`: called when what carries commands out has forgotten this client: answers that are missing do not come."""
        self._handler = handler
        self._lost = lost
        self._connection = ClientConnection("webhook", self, GATEWAY)

    def ask(self, make: Callable[[object], Command], then: Then) -> None:
        """Send the command that `make` returns for a ticket; `then` gets its event, at once or later."""
        command = make(then)
        command.principal = GATEWAY
        self._handler.handle(self._connection, command)

    def answer(self, event: Event) -> None:
        """Hand an event to the callback of its command."""
        then: Any = getattr(event, "ticket", None)
        if then is not None:
            then(event)

    def end(self) -> None:
        """No more answers."""
        self._connection.end()

    def close(self) -> None:
        """The store has gone, or wants its clients to begin anew."""
        self._lost()

    def throttle(self, until_ns: int) -> None:
        """The gateway's own client is not held back: it asks for no more than it has room for."""

    def revoke_access(self, failure: Failure) -> None:
        """The gateway itself has all rights."""
