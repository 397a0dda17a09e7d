"""Queues whose messages are others than before: connected sessions begin in them again, a share of them in each turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from domain.walk import Walk, Walks
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.sessions.live_delivery import LiveDelivery
from gateway.usecase.sessions.mqtt_session import MqttSession

RESTARTED: Final = 16
"""Sessions that one step works on."""


@final
class QueueRestarts:
    """Restarts under way. No message is offered meanwhile: it might be one of a session that takes it for one that it has.

    _left   for each restart: what it does with a session, and the connected sessions with which it has not done that
    """

    __slots__ = ("_left", "_outbound", "_sessions", "_walks")

    def __init__(self, walks: Walks, sessions: Mapping[ClientConnection, MqttSession], outbound: LiveDelivery) -> None:
        self._walks = walks
        self._sessions = sessions
        self._outbound = outbound
        self._left: list[tuple[Callable[[MqttSession], None], dict[MqttSession, None]]] = []

    def begin(self, restart: Callable[[MqttSession], None]) -> None:
        """Call `restart` with each session that is connected now; with one that disconnects meanwhile before it is stored."""
        left = dict.fromkeys(self._sessions.values())
        entry = (restart, left)
        self._left.append(entry)
        self._outbound.hold()

        def walk() -> Walk:
            for number, session in enumerate(list(left), 1):
                if session in left:
                    del left[session]
                    restart(session)
                if number % RESTARTED == 0:
                    yield
            self._left.remove(entry)
            self._outbound.release()

        self._walks.begin(walk())

    def disconnecting(self, session: MqttSession) -> None:
        """A session is about to be stored, or to end: no restart may come later."""
        for restart, left in self._left:
            if session in left:
                del left[session]
                restart(session)
