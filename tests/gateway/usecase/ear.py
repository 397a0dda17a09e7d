"""A client without a network: a session whose shell keeps what it hears."""

from __future__ import annotations

from domain.event import Event
from gateway.connection.client_connection import ClientConnection
from tests.connection_driver import StrictDriver


class Ear(StrictDriver):
    """A shell that keeps events, and the session on it."""

    def __init__(self, protocol: str = "remoting") -> None:
        self.heard: list[Event] = []
        self.closing = False
        self.connection = ClientConnection(protocol, self)

    def answer(self, event: Event) -> None:
        self.heard.append(event)

    def close(self) -> None:
        self.closing = True

    def take(self) -> list[Event]:
        """What was heard since the last call."""
        heard, self.heard = self.heard, []
        return heard
