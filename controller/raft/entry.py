"""One entry of the raft log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from controller.raft.refusal import LaterVersionError

ENTRY_BYTES: Final = 32
"""Bytes of an entry besides its data, in limits of bytes: an empty entry is not free."""


class EntryKind(IntEnum):
    """Kind of the data of an entry."""

    EMPTY = 0
    """Nothing. A leader begins its term with it, since it commits only entries of its own term (thesis section 3.6.2)."""
    COMMAND = 1
    """A command of the state machine above."""
    CONFIGURATION = 2
    """An encoded Configuration. It holds for a node from the moment that it is in the node's log, committed or not."""


_KINDS: Final = {int(each): each for each in EntryKind}


def kind_of(number: int, index: int) -> EntryKind:
    """The kind of the entry at `index`. Raises LaterVersionError for one that this version does not have."""
    found = _KINDS.get(number)
    if found is None:
        raise LaterVersionError(f"entry {index} of the log has kind {number}")
    return found


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of the log. Two entries with the same index and term are the same entry (log matching).

    term    the term of the leader that created it
    index   its place in the log; a group begins with a snapshot at 1, so the first has index 2
    data    bytes that raft does not read, except those of a configuration
    """

    term: int
    index: int
    kind: EntryKind
    data: bytes = b""

    @property
    def size(self) -> int:
        """Bytes that it counts where bytes are bounded."""
        return ENTRY_BYTES + len(self.data)
