"""A handler that records commands, and the table `[access]`."""

from __future__ import annotations

from domain.command import Command
from gateway.access.settings import AccessSettings, AccessTable
from gateway.connection.client_connection import ClientConnection
from gateway.node.settings_tables import read


class Sink:
    """A handler that records the commands that the gate passes on."""

    def __init__(self) -> None:
        self.passed: list[Command] = []

    def handle(self, connection: ClientConnection, command: Command) -> None:
        self.passed.append(command)


def access_config(table: dict[str, object]) -> AccessSettings:
    """The table `[access]`, read as the node reads it. Raises ConfigError."""
    return AccessSettings.of(read(AccessTable, "access", table, {}))
