"""The MQTT sessions whose clients are connected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from domain.client.mqtt_session import MqttSubscription
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.sessions.mqtt_session import MqttSession


@final
class AttachedSessions:
    """The sessions of connected clients, and those who follow which of them are resumed.

    by_connection   each connection and its session; `attach` alone adds to it
    most            largest number of sessions at the same time, since the start
    """

    __slots__ = ("_followers", "by_connection", "most")

    def __init__(self) -> None:
        self.by_connection: dict[ClientConnection, MqttSession] = {}
        self.most = 0
        self._followers: list[Callable[[ClientConnection], None]] = []

    def attach(self, connection: ClientConnection, session: MqttSession) -> None:
        """The client of `connection` has the session from now on."""
        self.by_connection[connection] = session
        self.most = max(self.most, len(self.by_connection))

    def subscriptions_of(self, connection: ClientConnection) -> Sequence[MqttSubscription]:
        """All subscriptions of a connection's session, shared subscriptions included."""
        session = self.by_connection.get(connection)
        return () if session is None else [*session.subscriptions.values(), *session.shared_subscriptions.values()]

    def follow_resumed(self, follower: Callable[[ClientConnection], None]) -> None:
        """Call `follower` with the connection of each session that is resumed with its subscriptions."""
        self._followers.append(follower)

    def resumed(self, connection: ClientConnection) -> None:
        """The client of `connection` has been answered that its session was resumed."""
        for follower in self._followers:
            follower(connection)
