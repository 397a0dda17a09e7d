"""Client inside the gateway: sends commands, and passes each answer to a callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from domain.access.principal import GATEWAY
from domain.command import Command
from domain.errors import Failure
from domain.event import Event
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler

Then = Callable[[Event], None]


@final
class InternalClient:
    """Client of the command handler in this process. The ticket of a command is the callback that receives its event."""

    def __init__(self, handler: Handler, lost: Callable[[], None]) -> None:
        """`lost`: called when the handler has closed this client: outstanding answers never arrive."""
        self._handler = handler
        self._lost = lost
        self._connection = ClientConnection("webhook", self, GATEWAY)

    def ask(self, make: Callable[[object], Command], then: Then) -> None:
        """Send the command that `make` returns for a ticket; `then` is called with its event, possibly before this returns."""
        command = make(then)
        command.principal = GATEWAY
        self._handler.handle(self._connection, command)

    def answer(self, event: Event) -> None:
        """Pass an event to the callback of its command. An event without a ticket is dropped."""
        then: Any = getattr(event, "ticket", None)
        if then is not None:
            then(event)

    def end(self) -> None:
        """End the connection: no callback is called any more."""
        self._connection.end()

    def close(self) -> None:
        """The store has closed, or its clients have to start again."""
        self._lost()

    def throttle(self, until_ns: int) -> None:
        """No throttling: the gateway's own client limits its requests itself."""

    def revoke_access(self, failure: Failure) -> None:
        """Does nothing: the gateway has all rights, so none can be revoked."""
