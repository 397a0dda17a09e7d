"""The eras of a log: the parts written by the leaders of successive epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.replication.message import Era
from domain.replication.ports import BatchMark
from store.log import batch
from store.log.segment import Segments

NOTHING: Final = -1
"""Value instead of a position: the logs have no common part to continue."""


@final
class LogEras:
    """Eras in the order of the log, read from the first batch of each segment: a new leader begins a new segment.

    behind     position behind the last batch; a filler may follow it
    """

    def __init__(self, segments: Segments, behind: int) -> None:
        """`behind`: end of the last whole batch of the log. Raises OSError."""
        self._eras: list[Era] = []
        self.behind = segments.first
        for segment in segments.all:
            found = batch.header(segment.file.read(0, batch.HEADER_BYTES), segment.base)
            if found is not None and segment.base < behind:
                end = segment.base - batch.FILLER_BYTES
                filled = end >= segments.first and batch.is_filler(segments.read(end, batch.FILLER_BYTES))
                self.behind = end if filled else segment.base
                self.note(found.epoch, found.incarnation)
        self.behind = behind

    @property
    def epoch(self) -> int:
        """Epoch of the last batch; 0 without one."""
        return self._eras[-1].epoch if self._eras else 0

    @property
    def writer(self) -> int:
        """Incarnation of the log that wrote the last batch; 0 without a batch, or when unknown."""
        return self._eras[-1].writer if self._eras else 0

    def note(self, epoch: int, writer: int) -> None:
        """Note the epoch (not lower than before) and the writing incarnation of the next batch of the log."""
        if not self._eras or epoch > self._eras[-1].epoch:
            self._eras.append(Era(epoch, self.behind, writer))

    def cut(self, end: int) -> None:
        """Drop the eras behind a cut at the end of a batch."""
        while self._eras and self._eras[-1].begin >= end:
            self._eras.pop()
        self.behind = end

    def listed(self, first: int) -> list[Era]:
        """Eras of the log from `first` on, ascending."""
        return listed(self._eras, self.behind, first)


def listed(eras: Sequence[Era], end: int, first: int) -> list[Era]:
    """Eras of a log that ends at `end`, without those that end before `first`."""
    ends = [*(era.begin for era in eras[1:]), end + 1]
    return [era for era, behind in zip(eras, ends, strict=False) if behind > first]


def parted_epoch(ours: Sequence[Era], theirs: Sequence[Era]) -> int:
    """The first epoch that both logs have from different writers: they are different histories. 0: there is none.

    Epoch 0 is that of a node without replicas, which may have written it in several incarnations.
    """
    writers = {era.epoch: era.writer for era in ours if era.epoch}
    for era in theirs:
        if 0 not in (writers.get(era.epoch, 0), era.writer) and writers[era.epoch] != era.writer:
            return era.epoch
    return 0


def is_inside(found: BatchMark | None, position: int) -> bool:
    """True when `found`, the batch before `position`, does not end there: no batch ends at `position` in this log."""
    return found is not None and found.begin < position < found.end


def is_another(found: BatchMark | None, last: BatchMark) -> bool:
    """True when `found`, the newest batch of this log that begins at `last.begin` or before, proves that the log does not have
    the batch `last`. A header that is damaged proves nothing."""
    if found is None:
        return False
    return found != last if found.begin == last.begin else is_inside(found, last.begin)


def common_end(ours: Sequence[Era], our_end: int, theirs: Sequence[Era], their_end: int) -> int:
    """Position behind the last batch that both logs have, or NOTHING.

    An epoch has one leader, so its batches are the same in both logs. In each log the newest common epoch ends at the begin of
    the next epoch, or at the end of the log. Logs with a `parted_epoch` have no
    common part, whatever the numbers. The begin of the epoch is not compared: retention may have deleted it. Epoch 0 is
    that of a node without replicas: only a log of the group lists it.
    """
    if parted_epoch(ours, theirs):
        return NOTHING
    ends = _ends(theirs, their_end)
    for epoch, end in reversed(_ends(ours, our_end).items()):
        if epoch in ends:
            return min(end, ends[epoch])
    return NOTHING


def _ends(eras: Sequence[Era], end: int) -> dict[int, int]:
    """Epoch -> position of its end, ascending."""
    behind = [*(era.begin for era in eras[1:]), end]
    return {era.epoch: limit for era, limit in zip(eras, behind, strict=False)}
