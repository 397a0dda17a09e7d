"""The newest batches of a follower's log in memory: they are applied without being read and checked again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, final

from store.log.batch import Header

FRESH_BYTES: Final = 16 * 1024 * 1024


@final
class FreshBatches:
    """The newest batches in the order of the log: at most `FRESH_BYTES`, but at least one."""

    __slots__ = ("_bytes", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[Header, bytes]] = deque()
        self._bytes = 0

    def add(self, batches: Sequence[tuple[Header, bytes]]) -> None:
        """Add batches that were written at the end of the log and have correct CRCs."""
        for found in batches:
            self._waiting.append(found)
            self._bytes += found[0].size
        while self._bytes > FRESH_BYTES and len(self._waiting) > 1:
            self._bytes -= self._waiting.popleft()[0].size

    def has(self, position: int) -> bool:
        """True when the batch at `position`, the end of the applied log, is here. Forgets older ones."""
        waiting = self._waiting
        while waiting and waiting[0][0].position < position:
            self._bytes -= waiting.popleft()[0].size
        return bool(waiting) and waiting[0][0].position == position

    def first(self) -> tuple[Header, bytes]:
        """Oldest batch; there must be one."""
        return self._waiting[0]

    def clear(self) -> None:
        """Forget all batches: the log is cut."""
        self._waiting.clear()
        self._bytes = 0
