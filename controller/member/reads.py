"""Reads that wait for the confirmation that this member still leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, final

from domain.controller.answer import GroupRefusal

ReadDone = Callable[[GroupRefusal | None], None]
"""Callback of a read. None: the groups now have all changes that were answered before the begin of the read."""


class PendingRead(NamedTuple):
    """A read that waits for its confirmation.

    due_ns   when the wait is over, monotonic
    """

    due_ns: int
    done: ReadDone


@final
class PendingReads:
    """Reads that this member has not answered, by their tickets: raft confirms a read by its ticket."""

    __slots__ = ("_ticket", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, PendingRead] = {}
        self._ticket = 0

    def ticket(self) -> int:
        """A ticket for the next read."""
        self._ticket += 1
        return self._ticket

    def add(self, ticket: int, due_ns: int, done: ReadDone) -> None:
        """Wait for the confirmation of a read."""
        self._waiting[ticket] = PendingRead(due_ns, done)

    def answer(self, tickets: Iterable[int], refusal: GroupRefusal | None) -> None:
        """Answer these reads, as far as they wait."""
        for ticket in tickets:
            pending = self._waiting.pop(ticket, None)
            if pending is not None:
                pending.done(refusal)

    def expire(self, now_ns: int) -> None:
        """Give up reads whose time is over."""
        self.answer([ticket for ticket, read in self._waiting.items() if read.due_ns <= now_ns], GroupRefusal.NOT_LEADING)

    def lose(self) -> None:
        """Give up all."""
        self.answer(list(self._waiting), GroupRefusal.NOT_LEADING)
