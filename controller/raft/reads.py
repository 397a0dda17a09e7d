"""Reads that wait until the leader knows that it still is one: read index (thesis section 6.4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from controller.raft.ready import ReadConfirmed


@dataclass(frozen=True, slots=True)
class ReadRound:
    """Reads that one round of heartbeats confirms.

    number    number of the round in this leader's term, from 1
    index     the commit index when the round began
    tickets   the reads
    """

    number: int
    index: int
    tickets: tuple[int, ...]


@final
class WaitingReads:
    """The reads of one leader in one term.

    number   the newest round; heartbeats carry it
    """

    def __init__(self) -> None:
        self.number = 0
        self._fresh: list[int] = []
        self._rounds: deque[ReadRound] = deque()
        self._count = 0

    def __len__(self) -> int:
        """Reads that wait."""
        return self._count

    @property
    def wanted(self) -> bool:
        """True when a read has come since the newest round."""
        return bool(self._fresh)

    def add(self, ticket: int) -> None:
        """A read has come; it takes part in the next round."""
        self._fresh.append(ticket)
        self._count += 1

    def begin(self, index: int) -> None:
        """Begin a round for all that came since the last one. `index`: the commit index, in the leader's own term."""
        self.number += 1
        self._rounds.append(ReadRound(self.number, index, tuple(self._fresh)))
        self._fresh.clear()

    def confirm(self, agreed: Callable[[int], bool]) -> list[ReadConfirmed]:
        """The reads of rounds that a majority has answered: `agreed(number)`."""
        confirmed: list[ReadConfirmed] = []
        while self._rounds and agreed(self._rounds[0].number):
            done = self._rounds.popleft()
            confirmed += [ReadConfirmed(ticket, done.index) for ticket in done.tickets]
        self._count -= len(confirmed)
        return confirmed

    def lose(self) -> list[int]:
        """All that wait: the leader has stepped down."""
        lost = [ticket for each in self._rounds for ticket in each.tickets] + self._fresh
        self._rounds.clear()
        self._fresh.clear()
        self._count = 0
        return lost
