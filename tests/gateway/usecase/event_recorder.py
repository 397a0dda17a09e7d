"""A client without a network: a connection whose driver records the events that it is sent."""

from __future__ import annotations

from domain.event import Event
from gateway.connection.client_connection import ClientConnection
from tests.connection_driver import RecordingDriver


class EventRecorder(RecordingDriver):
    """Records the events of its own connection."""

    def __init__(self, protocol: str = "remoting") -> None:
        super().__init__()
        self.closing = False
        self.connection = ClientConnection(protocol, self)

    def close(self) -> None:
        self.closing = True

    def take(self) -> list[Event]:
        """Events since the last call."""
        recorded, self.recorded = self.recorded, []
        return recorded
