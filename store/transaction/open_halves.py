"""The open transactions by offset, by id and by the time of their next check, and the outcomes of those that were decided."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final, final

from domain.store.store_ports import StateChange
from store.state.view import HALF
from store.transaction.half import Half

ENDED_MAX: Final = 65_536
"""Decided transactions whose outcome is remembered; the oldest is forgotten first."""
_HEAP_SLACK: Final = 1_024
"""Outdated heap entries that are kept, besides as many as there are valid ones, before the heap is rebuilt."""


@final
class OpenHalves:
    """Open transactions, accepted ones included, whether durable or not. Iteration gives the offsets, ascending.

    ended       transactions decided since the start, those given up included
    _open       offset in the half queue -> open transaction, ascending
    _by_name    (producer group, transaction id) -> offset
    _outcomes   (producer group, transaction id) -> outcome of decided transactions, oldest first
    _heap       (next_ms, offset); an entry is outdated unless its time is that of the open transaction
    """

    def __init__(self) -> None:
        self.ended = 0
        self._open: dict[int, Half] = {}
        self._by_name: dict[tuple[str, str], int] = {}
        self._outcomes: dict[tuple[str, str], str] = {}
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[int]:
        return iter(self._open)

    def __getitem__(self, offset: int) -> Half:
        return self._open[offset]

    def get(self, offset: int) -> Half | None:
        """The open transaction at `offset`."""
        return self._open.get(offset)

    def named(self, group: str, message_id: str) -> int:
        """The offset of an open transaction, -1 when it is not open."""
        return self._by_name.get((group, message_id), -1)

    def add(self, offset: int, opened: Half) -> StateChange:
        """Add an open transaction, whose outcome is not known any more; the change for the log."""
        self._outcomes.pop((opened.group, opened.message_id), None)
        self._open[offset] = opened
        self._by_name[(opened.group, opened.message_id)] = offset
        heappush(self._heap, (opened.next_ms, offset))
        return self.change(offset)

    def change(self, offset: int) -> StateChange:
        """The change that stores the open transaction at `offset` as it is."""
        return StateChange(HALF, _key(offset), self._open[offset].encode())

    def remove(self, offset: int) -> StateChange:
        """Remove an open transaction. Returns the change for the log."""
        opened = self._open.pop(offset)
        name = (opened.group, opened.message_id)
        if self._by_name.get(name) == offset:
            del self._by_name[name]
        if len(self._heap) > 2 * len(self._open) + _HEAP_SLACK:
            self._heap = [(known.next_ms, at) for at, known in self._open.items()]
            heapify(self._heap)
        return StateChange(HALF, _key(offset), None)

    def end(self, offset: int, outcome: str) -> StateChange:
        """Remove a transaction that is decided, and remember its outcome; the change for the log."""
        opened = self._open[offset]
        self.ended += 1
        if len(self._outcomes) >= ENDED_MAX:
            del self._outcomes[next(iter(self._outcomes))]
        self._outcomes[(opened.group, opened.message_id)] = outcome
        return self.remove(offset)

    def outcome(self, group: str, message_id: str) -> str | None:
        """The outcome of a decided transaction, None: it is not remembered."""
        return self._outcomes.get((group, message_id))

    def next_ms(self) -> int:
        """No check is due before this time in epoch ms; 0 when no transaction is open."""
        return self._heap[0][0] if self._heap else 0

    def check_at(self, offset: int, next_ms: int) -> None:
        """Set the time of the next check."""
        self._open[offset].next_ms = next_ms
        heappush(self._heap, (next_ms, offset))

    def due(self, now_ms: int) -> int:
        """The offset of a transaction whose check is due at `now_ms`, -1 for none. `check_at` has to follow."""
        while self._heap and self._heap[0][0] <= now_ms:
            next_ms, offset = heappop(self._heap)
            opened = self._open.get(offset)
            if opened is not None and opened.next_ms == next_ms:
                return offset
        return -1


def _key(offset: int) -> bytes:
    return offset.to_bytes(8, "big")
