"""Changes that wait for their commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

from controller.raft.entry import LogEntry
from domain.controller.answer import GroupAnswer

ChangeDone = Callable[[GroupAnswer | None], None]
"""Gets the answer to a change. None: it is not known whether the change was made, or will be."""


class Proposal(NamedTuple):
    """One change in the log.

    term     term of its entry
    due_ns   when the wait is over, monotonic
    """

    term: int
    due_ns: int
    done: ChangeDone


@final
class Proposals:
    """The proposals of this member with an unknown outcome, by index."""

    __slots__ = ("_waiting",)

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
