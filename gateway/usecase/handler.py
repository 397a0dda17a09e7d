"""What a use case is to the dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from domain.command import Command
from gateway.connection.client_connection import ClientConnection

Verb = Callable[[ClientConnection, Any], None]


class UseCase(Protocol):
    """A set of verbs: command class -> what to do. The dispatcher merges the tables of all use cases."""

    def verbs(self) -> Mapping[type[Command], Verb]:
        """Command classes that this use case handles."""
