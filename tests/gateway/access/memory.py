"""A connection that records events, and a handler that records commands."""

from __future__ import annotations

from domain.command import Command
from domain.event import Event
from gateway.access.config import AccessConfig, AccessTable
from gateway.connection.client_connection import ClientConnection
from gateway.node.settings import read
from tests.connection_driver import StrictDriver


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
