"""A state in memory, a connection that records events, and a handler that records commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from domain.command import Command
from domain.errors import Failure
from domain.event import Event
from domain.store_ports import StateChange
from gateway.access.config import AccessConfig, AccessTable
from gateway.connection.client_connection import ClientConnection
from gateway.node.settings import read
from tests.connection_driver import StrictDriver


class MemoryState:
    """A state that writes at once."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, bytes], bytes] = {}

    def get(self, space: str, key: bytes) -> bytes | None:
        return self.kept.get((space, key))

    def scan(self, space: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        found = [(key, value) for (where, key), value in self.kept.items() if where == space and key.startswith(prefix)]
        return iter(sorted(found))

    def keys(self, space: str, prefix: bytes, start: bytes, limit: int) -> list[bytes]:
        return [key for key, _ in self.scan(space, prefix) if key >= start][:limit]

    def size(self, space: str) -> tuple[int, int]:
        found = [len(key) + len(value) for (where, key), value in self.kept.items() if where == space]
        return len(found), sum(found)

    def put(self, changes: Sequence[StateChange], done: Callable[[None | Failure], None] | None) -> None:
        for change in changes:
            if change.value is None:
                self.kept.pop((change.space, change.key), None)
            else:
                self.kept[(change.space, change.key)] = change.value
        if done is not None:
            done(None)


class EventRecorder(StrictDriver):
    """The driver of a connection: records events."""

    def __init__(self) -> None:
        self.recorded: list[Event] = []

    def answer(self, event: Event) -> None:
        self.recorded.append(event)


class Sink:
    """A handler that records the commands that the gate passes on."""

    def __init__(self) -> None:
        self.passed: list[Command] = []

    def handle(self, connection: ClientConnection, command: Command) -> None:
        self.passed.append(command)


def access_config(table: dict[str, object]) -> AccessConfig:
    """The table `[access]`, read as the node reads it. Raises ConfigError."""
    return AccessConfig.of(read(AccessTable, "access", table, {}))
