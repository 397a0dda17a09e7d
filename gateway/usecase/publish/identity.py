"""Message ids for messages whose sender gave none (property UNIQ_KEY)."""

from __future__ import annotations

from typing import Final, final

from domain.ports import Entropy

_LAST: Final = tuple([f"{number:02X}" for number in range(256)])


@final
class MessageIds:
    """32 upper-case hex digits: 8 random bytes drawn once for this process, then a counter of 8 bytes."""

    __slots__ = ("_front", "_next", "_prefix")

    def __init__(self, entropy: Entropy) -> None:
        self._prefix = entropy.token(8).hex().upper()
        self._next = int.from_bytes(entropy.token(4), "big")
        self._front = ""

    def mint(self) -> str:
        """A new id. Ids of two processes differ, since their random bytes do."""
        self._next += 1
        last = self._next & 0xFF
        # All digits but the last two are the same for 256 ids.
        if last == 0 or not self._front:
            self._front = f"{self._prefix}{self._next >> 8 & 0xFFFFFFFFFFFFFF:014X}"
        return self._front + _LAST[last]
