"""Network port of a member; its other ports are storage (controller.raft.persisted) and time (domain.ports)."""

from __future__ import annotations

from typing import Protocol


class Peers(Protocol):
    """Carries messages to the other members. They may be lost, repeated, delayed and reordered."""

    def send(self, to: int, data: bytes) -> None:
        """Send a message to the member whose log has the identity `to`. Dropped when its address is unknown."""
