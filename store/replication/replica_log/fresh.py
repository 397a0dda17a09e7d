"""The newest batches of a follower's log, as they have come: they are applied without being read and checked again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, final

from store.log.batch import Header

FRESH_BYTES: Final = 16 * 1024 * 1024


@final
class FreshBatches:
    """Batches in the order of the log, the newest ones up to `FRESH_BYTES`, and one at least."""

    __slots__ = ("_bytes", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[Header, bytes]] = deque()
        self._bytes = 0

    def add(self, batches: Sequence[tuple[Header, bytes]]) -> None:
        """Batches were written at the end of the log, and their CRCs are right."""
        for found in batches:
            self._waiting.append(found)
            self._bytes += found[0].size
        while self._bytes > FRESH_BYTES and len(self._waiting) > 1:
            self._bytes -= self._waiting.popleft()[0].size

    def has(self, position: int) -> bool:
        """True when the batch at `position`, up to which the log is applied, is here. Older ones are forgotten."""
        waiting = self._waiting
        while waiting and waiting[0][0].position < position:
            self._bytes -= waiting.popleft()[0].size
        return bool(waiting) and waiting[0][0].position == position

    def first(self) -> tuple[Header, bytes]:
        """The oldest one; there is one."""
        return self._waiting[0]

    def clear(self) -> None:
        """Forget all: the log is cut."""
        self._waiting.clear()
        self._bytes = 0
