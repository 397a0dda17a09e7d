"""Commands of a simulated process that can be paused, as by SIGSTOP, and their answers, which wait in its sockets meanwhile."""

from __future__ import annotations

from domain.access.principal import GATEWAY
from domain.command import Command
from domain.event import Event
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from tests.connection_driver import StrictDriver
from tests.simulation.kit.clock import PausableClock


class PausableHandler:
    """Passes the commands of such a process on; answers wait while it is paused."""

    def __init__(self, life: PausableClock, handler: Handler) -> None:
        self._life = life
        self._handler = handler
        self._connections: dict[ClientConnection, ClientConnection] = {}

    def handle(self, connection: ClientConnection, command: Command) -> None:
        other = self._connections.get(connection)
        if other is None:
            other = self._connections[connection] = ClientConnection("webhook", Mailbox(self._life, connection), GATEWAY)
            connection.on_close.append(other.end)
        self._handler.handle(other, command)


class Mailbox(StrictDriver):
    """What the other side sees of a connection of such a process."""

    def __init__(self, life: PausableClock, connection: ClientConnection) -> None:
        self._life = life
        self._connection = connection

    def answer(self, event: Event) -> None:
        self._life.call_soon(lambda: self._connection.answer(event))

    def close(self) -> None:
        self._life.call_soon(self._connection.driver.close)
