"""Reason why a replica that may be in sync is not in the SyncStateSet, by the word of its leader."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class MemberLack(Enum):
    """Condition of membership that a replica lacks. The text is for people."""

    CONNECTION = "the leader has no connection to it"
    PROGRESS = "it is connected to the leader, and silent or gets nothing of what it lacks"
    RECORDS = "it gets what it lacks"
    SPEED = "it is slow, and not waited for"
    CONSENT = "it has what is confirmed, and the leader asks the controllers for it, or waits until enough members have as much"


class LeftOut(NamedTuple):
    """The word of a leader about a replica.

    lacks_bytes   of RECORDS: bytes from the end of the replica's log to the confirmed position or, when it has that, to the end
                  of the leader's log; else 0
    """

    replica: int
    lack: MemberLack
    lacks_bytes: int = 0

    @property
    def why(self) -> str:
        """The reason, text for people."""
        return f"{self.lack.value} ({self.lacks_bytes:,} bytes)" if self.lacks_bytes else self.lack.value
