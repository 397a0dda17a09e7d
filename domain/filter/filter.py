"""The interface of a filter, for the store and the use cases."""

from __future__ import annotations

from typing import Final, Protocol

TAG: Final = "TAG"
SQL92: Final = "SQL92"
PATH: Final = "PATH"
RETRY: Final = "RETRY"
"""Types of filters, the first of `Filter.expression`; clients name the first two."""


class Filter(Protocol):
    """Filter of a consumer on messages. Immutable, and shared by all requests with the same expression."""

    @property
    def expression(self) -> tuple[str, str]:
        """(type, text), from which domain.filter.expression or domain.filter.stored_path_filter makes an equal filter."""

    @property
    def hashes(self) -> frozenset[int] | None:
        """Tag hashes of messages that can match; None: the properties of every message have to be read."""

    @property
    def cost(self) -> int:
        """How much `matches` does for one message, at most; 1: it looks up one property."""

    def matches(self, stored_properties: bytes) -> bool:
        """True when a message with these properties (domain.message.property) matches. Never raises."""
