"""A simulated process that can be paused, as by SIGSTOP. When it goes on, it reads what it was sent before its timers run."""

from __future__ import annotations

from collections.abc import Callable

from domain.command import Command
from domain.errors import Failure
from domain.event import Event
from domain.ports import Timer
from domain.principal import GATEWAY
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from tests.simulation.lifetime import Lifetime
from tests.store.clock import VirtualClock


class HeldTimer:
    """A timer of a process. While the process is paused it is due, and has not run."""

    def __init__(self, life: PausableLife, callback: Callable[[], None]) -> None:
        self._life = life
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def run(self) -> None:
        if self._callback is None or not self._life.alive:
            return
        if self._life.paused:
            self._life.due.append(self.run)
        else:
            self._callback()


class PausableLife(Lifetime):
    """The clock of such a process.

    paused   True: nothing runs in it
    came     what it was sent meanwhile
    due      its timers that came due meanwhile
    """

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.paused = False
        self.came: list[Callable[[], None]] = []
        self.due: list[Callable[[], None]] = []

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> Timer:
        timer = HeldTimer(self, callback)
        self._clock.call_at(when_ns, timer.run)
        return timer

    def arrive(self, callback: Callable[[], None]) -> None:
        """Something comes from outside."""
        if self.paused:
            self.came.append(callback)
        else:
            self._run(callback)

    def resume(self) -> None:
        """Go on: sockets are read before timers run (asyncio's loop, and uvloop's)."""
        self.paused = False
        came, self.came = self.came, []
        due, self.due = self.due, []
        for callback in (*came, *due):
            callback()


class PausableHandler:
    """Passes the commands of such a process on; answers wait while it is paused."""

    def __init__(self, life: PausableLife, handler: Handler) -> None:
        self._life = life
        self._handler = handler
        self._connections: dict[ClientConnection, ClientConnection] = {}

    def handle(self, connection: ClientConnection, command: Command) -> None:
        other = self._connections.get(connection)
        if other is None:
            other = self._connections[connection] = ClientConnection("webhook", Mailbox(self._life, connection), GATEWAY)
            connection.on_close.append(other.end)
        self._handler.handle(other, command)


class Mailbox:
    """What the other side sees of a connection of such a process."""

    def __init__(self, life: PausableLife, connection: ClientConnection) -> None:
        self._life = life
        self._connection = connection

    def answer(self, event: Event) -> None:
        self._life.arrive(lambda: self._connection.answer(event))

    def close(self) -> None:
        self._life.arrive(self._connection.driver.close)

    def throttle(self, until_ns: int) -> None:
        """Owners are not throttled."""
        raise AssertionError("an owner was throttled")

    def revoke_access(self, failure: Failure) -> None:
        raise AssertionError(failure)
