"""The contract between the dispatcher and a use case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from domain.command import Command
from domain.errors import Failure
from domain.event import Event, Refused
from gateway.connection.client_connection import ClientConnection

Verb = Callable[[ClientConnection, Any], None]
"""Carries out one command of its class for a connection, which gets the answer now or later."""
Audited = Callable[[type[Command], Verb], Verb]
"""A command class and its verb -> the verb that writes down who has asked for what, and the outcome; else the verb itself."""
Verbs = Mapping[type[Command], Verb]
"""Command class -> verb."""
Result = TypeVar("Result")


class UseCase(Protocol):
    """A set of verbs. The dispatcher merges the tables of all use cases.

    verbs   the verb of every command that this use case handles
    """

    verbs: Verbs


def answered(connection: ClientConnection, event: Event) -> Callable[[object], None]:
    """The function that answers a command by the result it gets: Refused for a Failure, `event` for any other result."""

    def answer(result: object) -> None:
        connection.answer(Refused(event.ticket, result) if isinstance(result, Failure) else event)

    return answer


def answered_with(
    connection: ClientConnection, ticket: object, make: Callable[[object, Result], Event]
) -> Callable[[Result | Failure], None]:
    """As `answered`, with the event that `make` makes of the ticket and the result."""

    def answer(result: Result | Failure) -> None:
        connection.answer(Refused(ticket, result) if isinstance(result, Failure) else make(ticket, result))

    return answer
