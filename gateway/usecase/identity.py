"""Message ids for messages whose sender gave none."""

from __future__ import annotations

from domain.ports import Entropy


class MessageIds:
    """32 upper-case hex digits: 8 random bytes drawn once for this process, then a counter of 8 bytes."""

    def __init__(self, entropy: Entropy) -> None:
        self._prefix = entropy.token(8).hex().upper()
        self._next = int.from_bytes(entropy.token(4), "big")

    def mint(self) -> str:
        """A new id, unique over processes with overwhelming likelihood."""
        self._next += 1
        return f"{self._prefix}{self._next & 0xFFFFFFFFFFFFFFFF:016X}"
