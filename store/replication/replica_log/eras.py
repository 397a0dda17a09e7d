"""The eras of a log: which part of it the leader of which epoch has written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from domain.replication.message import Era
from store.log import batch
from store.log.segment import Segments


@final
class LogEras:
    """Eras in the order of the log, found by the first batch of each segment: a leader begins one when its epoch begins.

    behind     position behind the last batch; a filler may follow it
    _writers   of each era, the incarnation of the log that wrote it; 0: unknown
    """

    __slots__ = ("_eras", "_writers", "behind")

    def __init__(self, segments: Segments, behind: int) -> None:
        """`behind`: where the last whole batch of the log ends. Raises OSError."""
        self._eras: list[Era] = []
        self._writers: list[int] = []
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
        """Incarnation of the log that wrote the last batch; 0: there is none, or it does not say."""
        return self._writers[-1] if self._writers else 0

    def note(self, epoch: int, writer: int) -> None:
        """A batch of this epoch, the same as before or a newer one, is the next of the log; `writer` is its incarnation."""
        if not self._eras or epoch > self._eras[-1].epoch:
            self._eras.append(Era(epoch, self.behind))
            self._writers.append(writer)

    def cut(self, end: int) -> None:
        """The log was cut at the end of a batch."""
        while self._eras and self._eras[-1].begin >= end:
            self._eras.pop()
            self._writers.pop()
        self.behind = end

    def listed(self, first: int) -> list[Era]:
        """The eras of a log that begins at `first`, ascending."""
        return listed(self._eras, self.behind, first)


def listed(eras: Sequence[Era], end: int, first: int) -> list[Era]:
    """Of the eras of a log that ends at `end`, those that it still has from `first` on."""
    ends = [*(era.begin for era in eras[1:]), end + 1]
    return [era for era, behind in zip(eras, ends, strict=False) if behind > first]
