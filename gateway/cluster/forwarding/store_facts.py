"""Facts that a store's node reports of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Facts from its greeting.

    broker       its name in routes and receipts
    life         this life of its process
    controlled   True: access is controlled
    """

    broker: str
    life: str
    controlled: bool

    @property
    def text(self) -> str:
        """Its name and whether it controls access, for people: what does not change while a gateway runs."""
        return f"{self.broker!r} {'with' if self.controlled else 'without'} access control"
