"""A transport and a connection that do as they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from domain.command import Command, Disconnected
from domain.event import Event
from gateway.connection.client_connection import ClientConnection
from tests.simulation.kit.network import OpenTransport


class FakeTransport(OpenTransport):
    """Keeps what is written, and what was asked of it. `host` is "" when the peer has reset the connection already.

    `port`: the local one
    """

    def __init__(self, host: str = "10.1.2.3", port: int = 1883) -> None:
        super().__init__((host, 4567), ("127.0.0.1", port))
        if not host:
            del self._names["peername"]
        self.writes: list[bytes] = []
        self.reading = True
        self.closing = False
        self.aborted = False
        self.output_bytes_max: int | None = 0
        self.unwritten = 0

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.aborted = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.output_bytes_max = high

    def get_write_buffer_size(self) -> int:
        return self.unwritten


class ScriptedConnection:
    """Answers `receive` with what the test put into `commands`, and remembers what it was given."""

    def __init__(self) -> None:
        self.reading = True
        self.closed = False
        self.unhandled = False
        self.received: list[bytes] = []
        self.answered: list[Event] = []
        self.queue: list[bytes] = []
        self.commands: list[Command] = []
        self.at_end: list[Command] = [Disconnected("eof")]
        self.at_expiry: list[Command] = []
        self.when: int | None = None
        self.broken: set[str] = set()

    def _break(self, verb: str) -> None:
        if verb in self.broken:
            raise RuntimeError(f"a bug in {verb}")

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        self._break("receive")
        self.received.append(data)
        commands, self.commands = (self.commands, []) if data else (self.at_end, self.commands)
        return commands

    def answer(self, event: Event, now: int) -> None:
        self._break("answer")
        self.answered.append(event)
        self.queue.append(b"answer")

    def outgoing(self) -> Sequence[bytes]:
        self._break("outgoing")
        queue, self.queue = self.queue, []
        return queue

    def deadline(self) -> int | None:
        self._break("deadline")
        return self.when

    def expire(self, now: int) -> Sequence[Command]:
        self._break("expire")
        self.when = None
        return self.at_expiry


class RecordingHandler:
    """Keeps commands; `then` is done for each."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.then: Callable[[ClientConnection, Command], None] = lambda connection, command: None

    def handle(self, connection: ClientConnection, command: Command) -> None:
        self.commands.append(command)
        self.then(connection, command)
