"""Damage of the log that readers meet: its errors, and the segments to check. Other replicas may have the same bytes."""

from __future__ import annotations

from typing import Final, final

from domain.errors import StoreError
from store.log.segment import Segments

SUSPECTS_MAX: Final = 64
"""Limit on segments that wait for an extra check."""


class LogDamageError(StoreError):
    """Bytes of the log differ from those written."""


class LogReadError(OSError):
    """The disk cannot read bytes of the log."""


@final
class SuspectedSegments:
    """Segments in which a reader has met damage, or near them: the scrubber checks them first.

    bases   their bases, in the order of the reads
    """

    def __init__(self, segments: Segments) -> None:
        self.segments = segments
        self.bases: dict[int, None] = {}

    def add(self, position: int) -> None:
        """Let the segment at `position` be checked in the next second."""
        segment = self.segments.around(position)
        if segment is not None and len(self.bases) < SUSPECTS_MAX:
            self.bases[segment.base] = None
