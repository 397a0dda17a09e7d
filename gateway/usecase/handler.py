"""The contract between the dispatcher and a use case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from domain.command import Command
from gateway.connection.client_connection import ClientConnection

Verb = Callable[[ClientConnection, Any], None]
"""Carries out one command of its class for a connection, which gets the answer now or later."""
Verbs = Mapping[type[Command], Verb]
"""Command class -> verb."""


class UseCase(Protocol):
    """A set of verbs. The dispatcher merges the tables of all use cases.

    verbs   the verb of every command that this use case handles
    """

    verbs: Verbs
