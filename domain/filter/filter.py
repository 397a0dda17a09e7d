"""The interface of a filter, for the store and the use cases."""

from __future__ import annotations

from typing import Protocol


class Filter(Protocol):
    """Which messages a consumer wants. Immutable, and shared by all requests with the same expression."""

    @property
    def hashes(self) -> frozenset[int] | None:
        """Tag hashes of messages that can match; None: the properties of every message have to be read."""

    def matches(self, stored_properties: bytes) -> bool:
        """True when a message with these properties (domain.property) matches. Never raises."""
