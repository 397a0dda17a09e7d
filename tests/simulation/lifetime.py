"""One life of a simulated process: its clock, and the trace of the commands that it is given."""

from __future__ import annotations

from collections.abc import Callable

from domain.command import Command
from domain.ports import Timer
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from tests.simulation.ledger import Ledger
from tests.store.clock import VirtualClock


class Lifetime:
    """The clock of one start of the node: after the node was killed, its timers and callbacks no longer run."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.alive = True

    def monotonic_ns(self) -> int:
        return self._clock.monotonic_ns()

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> Timer:
        return self._clock.call_at(when_ns, lambda: self._run(callback))

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._clock.call_soon(lambda: self._run(callback))

    def _run(self, callback: Callable[[], None]) -> None:
        if self.alive:
            callback()


class Traced:
    """Passes commands to a handler and writes them into the run's trace."""

    def __init__(self, clock: VirtualClock, ledger: Ledger, handler: Handler) -> None:
        self._clock = clock
        self._ledger = ledger
        self._handler = handler

    def handle(self, session: ClientConnection, command: Command) -> None:
        self._ledger.note(f"{self._clock.monotonic_ns()} {session.protocol} {type(command).__name__}")
        self._handler.handle(session, command)
