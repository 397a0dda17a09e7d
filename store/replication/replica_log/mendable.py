"""The damaged parts of an open log, and reads of the log for the repair of other replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from domain.ports import Clock
from domain.replication.message import PART_BYTES_MAX, PartRefusal
from domain.replication.ports import DamagedPart, PartRefusedError
from store.log.mending import SegmentMending
from store.log.scrub import Scrubber
from store.log.segment import Segments
from store.log.segment_ends import whole_batches
from store.reads.repair_waits import RepairWaits


@final
class MendableSegments:
    """`domain.replication.ports.MendableLog` over the segments of a log, whose damage a scrubber finds."""

    def __init__(
        self, segments: Segments, scrubber: Scrubber, clock: Clock, confirmed: Callable[[], int], roll: Callable[[], None],
        mended: Sequence[Callable[[], None]], waits: RepairWaits,
    ) -> None:  # fmt: skip
        """`confirmed()`: position below which all members have the log. `roll()`: begin a new file for appends. `mended`:
        called after a repair. `waits`: reads that have met damage; they may wait from now on."""
        self._segments = segments
        self._scrubber = scrubber
        self._clock = clock
        self._confirmed = confirmed
        self._roll = roll
        self._notified = mended
        self._waits = waits
        waits.active = True

    def damaged(self) -> Sequence[DamagedPart]:
        """MendableLog.damaged."""
        known = self._scrubber.damaged.values()
        return [DamagedPart(each.begin, each.end) for each in known if each.end <= self._confirmed()]

    def mend(self, part: DamagedPart) -> SegmentMending | None:
        """MendableLog.mend."""
        segment = self._segments.around(part.begin)
        if segment is None:
            self._scrubber.mended(part.begin)  # it was deleted
            return None
        if segment is self._segments.active:
            self._roll()
        if self._segments.busy(segment):
            return None
        return SegmentMending(self._segments, self._clock, part, self._mended)

    def _mended(self, begin: int, end: int) -> None:
        self._scrubber.mended(begin)
        self._scrubber.suspects.add(begin)  # later bytes of the same file may be damaged too
        for each in self._notified:
            each()
        self._waits.mended()

    def given_up(self, part: DamagedPart) -> None:
        """MendableLog.given_up."""
        self._waits.given_up()

    def read_confirmed(self, position: int, end: int) -> bytes:
        """MendableLog.read_confirmed."""
        segments = self._segments
        if position < segments.first:
            raise PartRefusedError(PartRefusal.GONE)
        end = min(end, self._confirmed())
        segment = segments.at(position)
        if segment is None or position >= end:
            raise PartRefusedError(PartRefusal.NOT_CONFIRMED)
        try:
            data = whole_batches(segment, position, min(end, segment.end), PART_BYTES_MAX)
        except OSError as error:
            self._scrubber.suspects.add(position)
            raise PartRefusedError(PartRefusal.DAMAGED) from error
        if not data:
            self._scrubber.suspects.add(position)
            raise PartRefusedError(PartRefusal.DAMAGED)
        return data
