"""Timers that were recalled: which records of rmq_sys_wheel_timer count for nothing, as keys of the timers' state space."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, final

from domain.ports import StateChange

RECALLED: Final = b"recalled-"


@final
class RecalledTimers:
    """Positions of recalled timers, and the changes that set and remove their keys."""

    def __init__(self, change: Callable[[bytes, bytes | None], StateChange]) -> None:
        self._change = change
        self._removed: list[int] = []
        self.positions: set[int] = set()

    def load(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Take up what the state says."""
        self.positions.update(int.from_bytes(key[len(RECALLED) :], "big") for key, _ in pairs)

    def add(self, positions: Iterable[int]) -> list[StateChange]:
        """Recall timers."""
        added = list(positions)
        self.positions.update(added)
        return [self._change(_key(position), b"1") for position in added]

    def remove_due(self, position: int) -> StateChange:
        """The time of a recalled timer has come: its key can go, and once that is durable, so can the position."""
        self._removed.append(position)
        return self._change(_key(position), None)

    def removal_written(self, durable: bool) -> None:
        """What `remove_due` has asked for is written, or was refused."""
        if durable:
            self.positions.difference_update(self._removed)
        self._removed = []

    def drop_below(self, position: int) -> list[StateChange]:
        """Forget those in records before `position`."""
        gone = sorted(at for at in self.positions if at < position)
        self.positions.difference_update(gone)
        return [self._change(_key(at), None) for at in gone]


def _key(position: int) -> bytes:
    return RECALLED + position.to_bytes(8, "big")
