"""The contract between the dispatcher and a use case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from domain.command import Command
from gateway.connection.client_connection import ClientConnection

Verb = Callable[[ClientConnection, Any], None]
"""Carries out one command of its class for a connection, which gets the answer now or later."""


class UseCase(Protocol):
    """A set of verbs. The dispatcher merges the tables of all use cases."""

    def verbs(self) -> Mapping[type[Command], Verb]:
        """Command class -> verb, for every command that this use case handles."""
