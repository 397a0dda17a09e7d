"""What the store and the use cases ask of a filter, whatever it was written in."""

from __future__ import annotations

from typing import Protocol


class Filter(Protocol):
    """Which messages a consumer wants. Immutable; shared by all requests with the same expression."""

    @property
    def hashes(self) -> frozenset[int] | None:
        """Tag hashes that a wanted message can have; None: the tag tells nothing, look at every message's properties."""

    def matches(self, stored_properties: bytes) -> bool:
        """True when the message with these properties (domain.property) is wanted. Never raises."""
