"""The log of a replica that cannot be opened because of damage in the promised part; other replicas have all of it.

below the checkpoint    confirmed: other replicas give the same bytes
anywhere                the rest is set aside, and the remaining part becomes another log, which catches up (docs/cluster.md)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import final

from domain.errors import StoreError
from domain.ports import Clock, Disk
from domain.replication.message import PartRefusal
from domain.replication.ports import DamagedPart, PartRefusedError
from domain.set_aside import ASIDE
from store.checkpoint import derived_damage
from store.checkpoint import points as checkpoints
from store.log import promise as promises
from store.log.copying import in_steps, salvaged, write_copy
from store.log.mending import SegmentMending
from store.log.promise import Promise
from store.log.segment import FOLDER, Segments, file_name
from store.log.segment_ends import find_gaps
from store.log.survey import DamageError
from store.replication.replica_log.beginning import OURS, SUCCESSOR


@final
class DamagedParts:
    """`domain.replication.ports.MendableLog` of the parts that a start has found."""

    def __init__(self, segments: Segments, clock: Clock, found: Sequence[DamagedPart]) -> None:
        self._segments = segments
        self._clock = clock
        self._found = sorted(found)

    def damaged(self) -> Sequence[DamagedPart]:
        """MendableLog.damaged."""
        return self._found

    def mend(self, part: DamagedPart) -> SegmentMending:
        """MendableLog.mend."""
        return SegmentMending(self._segments, self._clock, part, self._mended)

    def _mended(self, begin: int, end: int) -> None:
        left = [DamagedPart(end, each.end) if each.begin == begin else each for each in self._found]
        self._found = [each for each in left if each.begin < each.end]

    def given_up(self, part: DamagedPart) -> None:
        """MendableLog.given_up: nothing to do, since a log that is not open has no readers."""

    def read_confirmed(self, position: int, end: int) -> bytes:
        """MendableLog.read_confirmed: a log that is not open gives nothing."""
        raise PartRefusedError(PartRefusal.NOT_OPEN)


@final
class DamagedReplica:
    """`domain.replication.ports.DamagedLog` over a data directory."""

    def __init__(self, disk: Disk, clock: Clock, fault: DamageError) -> None:
        """Raises OSError."""
        self.fault: StoreError = fault
        self._disk = disk
        self._mark = promises.newest(disk)[1]
        first = 0 if self._mark is None else self._mark.first
        segments = self._segments = Segments(disk, FOLDER, first, first)
        find_gaps(segments)
        point, _ = checkpoints.poll(disk)
        self._covered = point.position
        self._begin = min([each.begin for each in fault.stretches], default=segments.end)
        whole = [
            DamagedPart(each.begin, min(each.end, point.position)) for each in fault.stretches if each.begin < point.position
        ]
        self.parts = DamagedParts(segments, clock, whole)

    def abandon_damaged(self, incarnation: int) -> str:
        """DamagedLog.abandon_damaged. A crash meanwhile leaves the damaged log, or the abandoned one."""
        disk, segments = self._disk, self._segments
        folder = f"{ASIDE}/replica-{incarnation}"
        begin = max(self._begin, segments.first if self._mark is None else self._mark.first)
        if begin < self._covered:
            derived_damage.set_checkpoints_aside(disk)
        disk.remove(SUCCESSOR)
        for segment in reversed(segments.all):
            name = file_name(FOLDER, segment.base)
            if segment.base < begin < segment.base + segment.file.size():
                self._copy(name, f"{folder}/{name}")
            elif segment.base >= begin and segment.file.size():
                disk.rename(name, f"{folder}/{name}")
        mark = self._mark or Promise(0, 0, 0, segments.first)
        least = min(mark.position, begin) if self._mark is not None else begin
        promises.write(disk, mark._replace(position=least, incarnation=incarnation, first=min(mark.first, begin)))
        segments.close()
        kept = Segments(disk, FOLDER, begin, mark.first)
        kept.cut(begin)
        kept.close()
        return folder

    def _copy(self, name: str, target: str) -> None:
        source = self._disk.open(name)
        try:
            write_copy(self._disk, target, in_steps(partial(salvaged, source.read), 0, source.size()))
        finally:
            source.close()

    def close(self) -> None:
        """DamagedLog.close."""
        self._segments.close()


def damaged_replica(disk: Disk, clock: Clock, fault: StoreError) -> DamagedReplica | None:
    """The log that was not opened; None unless `fault` is damage of the promised part, and all of the log is the group's."""
    if not isinstance(fault, DamageError) or disk.read_all(OURS) is None:
        return None
    return DamagedReplica(disk, clock, fault)
