"""Changes that wait for their commit, and reads that wait for the confirmation that this member still leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, final

from controller.raft.entry import LogEntry
from domain.controller.answer import GroupAnswer, GroupRefusal

ChangeDone = Callable[[GroupAnswer | None], None]
"""Gets the answer to a change. None: it is not known whether the change was made, or will be."""
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


class Proposal(NamedTuple):
    """One change in the log.

    due_ns   when the wait is over, monotonic
    """

    term: int
    due_ns: int
    done: ChangeDone


@final
class Proposals:
    """The proposals of this member with an unknown outcome, by index."""

    def __init__(self) -> None:
        self._waiting: dict[int, Proposal] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, entry: LogEntry, due_ns: int, done: ChangeDone) -> None:
        """Wait for an entry. One with the same index is lost: another leader's has taken its place."""
        before = self._waiting.pop(entry.index, None)
        self._waiting[entry.index] = Proposal(entry.term, due_ns, done)
        if before is not None:
            before.done(None)

    def committed(self, entry: LogEntry, answer: GroupAnswer | None) -> None:
        """Answer the proposal at an applied entry. A proposal of another term at its index was not and will not be committed.

        Its sender gets None, as for an unknown outcome: it asks again in both cases.
        """
        proposal = self._waiting.pop(entry.index, None)
        if proposal is not None:
            proposal.done(answer if proposal.term == entry.term else None)

    def passed(self, index: int) -> None:
        """Answer the proposals up to `index` with None: the state came as a snapshot, and its entries are unknown."""
        for each in [each for each in self._waiting if each <= index]:
            self._waiting.pop(each).done(None)

    def expire(self, now_ns: int) -> None:
        """Give up proposals whose time is over."""
        for index in [index for index, each in self._waiting.items() if each.due_ns <= now_ns]:
            self._waiting.pop(index).done(None)
