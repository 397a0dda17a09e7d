"""Heartbeats at a replica that follows: clients send them to all brokers of a route, and are members at the leader alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

from domain.admin.broker import NodeCounters, QueryNodeCounters
from domain.command import Command
from domain.event import Done
from domain.membership import Heartbeat, Leave
from domain.node import GreetNode
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verb


@final
class Presence:
    """The verbs Heartbeat, Leave and QueryNodeCounters; GreetNode ends the connection: a gateway looks for the leader."""

    def __init__(self, started_ms: int, figures: Callable[[], Mapping[str, float]]) -> None:
        """`started_ms`: since when this replica serves, epoch milliseconds."""
        self._started_ms = started_ms
        self._figures = figures

    def verbs(self) -> Mapping[type[Command], Verb]:
        """Heartbeat, Leave, QueryNodeCounters, GreetNode."""
        return {Heartbeat: self._beat, Leave: self._leave, QueryNodeCounters: self._query, GreetNode: self._greet}

    def _beat(self, connection: ClientConnection, command: Heartbeat) -> None:
        if command.wait:
            connection.answer(Done(command.ticket))

    def _leave(self, connection: ClientConnection, command: Leave) -> None:
        connection.answer(Done(command.ticket))

    def _query(self, connection: ClientConnection, command: QueryNodeCounters) -> None:
        connection.answer(NodeCounters(command.ticket, self._started_ms, self._figures()))

    def _greet(self, connection: ClientConnection, command: GreetNode) -> None:
        connection.driver.close()
