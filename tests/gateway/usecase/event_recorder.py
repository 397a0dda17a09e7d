"""A client without a network: a connection whose driver records the events that it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from domain.event import Event
from gateway.connection.client_connection import ClientConnection
from tests.connection_driver import RecordingDriver

E = TypeVar("E")


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


def only(kind: type[E], events: Sequence[object]) -> E:
    """The one event of `events`, which is of this kind."""
    [event] = events
    assert isinstance(event, kind), event
    return event
