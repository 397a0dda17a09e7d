"""Heartbeats at a replica that follows: clients send them to all brokers of a route, and are members at the leader alone.

Their subscriptions are kept: when this replica leads, a client pulls from it, and sends it a heartbeat up to 30 s later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from domain.admin.broker import NodeCounters, QueryNodeCounters
from domain.client.membership import Heartbeat, Leave, Subscription
from domain.client.node import GreetNode, NodeGreeted
from domain.event import Done
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs

HEARD_MAX: Final = 65_536
"""Groups and topics whose subscription is kept; further ones are not."""


@final
class Presence:
    """The verbs Heartbeat, Leave and QueryNodeCounters, and GreetNode: a gateway that looks for the leader gets its address.

    heard   (group, topic) -> the newest subscription received in heartbeats since this replica serves
    """

    def __init__(self, started_ms: int, figures: Callable[[], Mapping[str, float]], elsewhere: Callable[[], bytes]) -> None:
        """`started_ms`: since when this replica serves, epoch milliseconds; `elsewhere()`: the answer to the greeting of a
        gateway, b"" while it is not known who leads."""
        self._elsewhere = elsewhere
        self._started_ms = started_ms
        self._figures = figures
        self.heard: dict[tuple[str, str], Subscription] = {}
        self.verbs: Verbs = {Heartbeat: self._beat, Leave: self._leave, QueryNodeCounters: self._query, GreetNode: self._greet}

    def _beat(self, connection: ClientConnection, command: Heartbeat) -> None:
        for membership in command.consumers:
            for each in membership.subscriptions:
                place = membership.group, each.topic
                known = self.heard.get(place)
                if known is None and len(self.heard) >= HEARD_MAX:
                    continue
                if known is None or known.version <= each.version:
                    self.heard[place] = each
        self._answered(connection, command)

    @staticmethod
    def _answered(connection: ClientConnection, command: Heartbeat) -> None:
        if command.wait:
            connection.answer(Done(command.ticket))

    def _leave(self, connection: ClientConnection, command: Leave) -> None:
        connection.answer(Done(command.ticket))

    def _query(self, connection: ClientConnection, command: QueryNodeCounters) -> None:
        connection.answer(NodeCounters(command.ticket, self._started_ms, self._figures()))

    def _greet(self, connection: ClientConnection, command: GreetNode) -> None:
        if answer := self._elsewhere():
            connection.answer(NodeGreeted(command.ticket, answer))
        else:
            connection.driver.close()
