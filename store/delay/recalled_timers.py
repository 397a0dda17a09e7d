"""Recalled timers: positions of void records of rmq_sys_wheel_timer, stored as keys of the state space of timers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from domain.store.store_ports import StateChange
from store.state.view import TIMER

RECALLED: Final = b"recalled-"


@final
class RecalledTimers:
    """Positions of recalled timers, and the changes that set and remove their keys.

    positions   log positions of recalled timers whose time has not come
    _removed    positions whose removal is being written
    """

    def __init__(self) -> None:
        self._removed: list[int] = []
        self.positions: set[int] = set()

    def load(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Load the positions from (key, value) pairs of the state."""
        self.positions.update(int.from_bytes(key[len(RECALLED) :], "big") for key, _ in pairs)

    def add(self, positions: Iterable[int]) -> list[StateChange]:
        """Recall the timers at `positions`; the changes for the log."""
        added = list(positions)
        self.positions.update(added)
        return [_change(position, b"1") for position in added]

    def remove_due(self, position: int) -> StateChange:
        """Remove the key of a recalled timer whose time has come; its position stays until `removal_written`."""
        self._removed.append(position)
        return _change(position, None)

    def removal_written(self, durable: bool) -> None:
        """End the removals of `remove_due`: forget their positions, or keep them when the write was refused."""
        if durable:
            self.positions.difference_update(self._removed)
        self._removed = []

    def drop_below(self, position: int) -> list[StateChange]:
        """Forget the recalled timers before `position`; the changes for the log."""
        gone = sorted(at for at in self.positions if at < position)
        self.positions.difference_update(gone)
        return [_change(at, None) for at in gone]


def _change(position: int, value: bytes | None) -> StateChange:
    return StateChange(TIMER, RECALLED + position.to_bytes(8, "big"), value)
