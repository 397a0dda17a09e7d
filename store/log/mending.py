"""Repair of a damaged part of the log: a new file with the good bytes around the part replaces the damaged file.

start: bytes before the part --> add: bytes of another replica --> finish: bytes behind it -> sync -> rename -> sync
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.ports import Clock, File
from domain.replication.ports import DamagedPart, ReplicaDataError
from domain.turn import STORE_TASK_COST
from store.log import batch
from store.log.copying import salvaged
from store.log.segment import Segment, Segments
from store.steps import Turns

_COPY_BYTES: Final = 256 * 1024
"""Bytes of one copy: one per turn."""

Ended = Callable[[Failure | None], None]


@final
class SegmentMending:
    """`domain.replication.ports.Mending` of one part of one segment.

    _segment   the segment whose file has the part; None: no file has it, and the part becomes a segment
    _epoch     epoch of all batches of the file (an epoch begins with a file); -1: unknown
    _least     epoch of the segment before; -1: unknown
    _most      epoch of the segment behind; -1: unknown
    """

    def __init__(self, segments: Segments, clock: Clock, part: DamagedPart, mended: Callable[[int, int], None]) -> None:
        """`mended(begin, end)` is called when the new file has replaced the damaged one. Raises OSError."""
        self._segments = segments
        self._part = part
        self._mended = mended
        self._turns = Turns(clock)
        self._file: File | None = None
        self._syncing = False
        self._ended = self._abandoned = False
        found = segments.around(part.begin)
        self._segment = found if found is not None and part.begin < found.end else None
        self._base = part.begin if self._segment is None else self._segment.base
        self.position = part.begin
        self.end = part.end if self._segment is None else min(part.end, self._segment.end)
        self._least, self._epoch, self._most = self._epochs()

    def _epochs(self) -> tuple[int, int, int]:
        """Epochs of (the file before, this file, the file behind), from intact headers; -1: unknown."""
        segments, own = self._segments, self._segment
        before = max((each.base for each in segments.all if each.base < self._base), default=-1)
        behind = min((each.base for each in segments.all if each.base >= self.end and each is not own), default=-1)
        epoch = -1
        for place in (self._base, self.end) if own is not None else ():
            if not self._part.begin <= place < self.end:
                epoch = max(epoch, self._epoch_at(place))
        return self._epoch_at(before), epoch, self._epoch_at(behind)

    def _epoch_at(self, position: int) -> int:
        segment = self._segments.at(position) if position >= 0 else None
        if segment is None:
            return -1
        found = batch.header(_bytes(segment, position, batch.HEADER_BYTES), position)
        return -1 if found is None or found.is_gap else found.epoch

    def start(self, ready: Ended) -> None:
        """Mending.start."""
        try:
            self._file = self._segments.create(self._base)
        except OSError as error:
            ready(_failure("the new file cannot be made", error))
            return
        self._copy(self._base, self._part.begin, ready)

    def _copy(self, begin: int, end: int, done: Ended) -> None:
        steps = self._copied(begin, end)
        self._turns.run(steps, lambda: done(None), lambda error: done(_failure("the segment cannot be copied", error)))

    def _copied(self, begin: int, end: int) -> Iterator[int]:
        """Copy the bytes of the segment from `begin` to `end`; unreadable ones become zeros and stay damaged."""
        for at in range(begin, end, _COPY_BYTES):
            segment, file = self._segment, self._file
            assert segment is not None
            assert file is not None
            size = min(_COPY_BYTES, end - at)
            data = _bytes(segment, at, size)
            file.append(data + bytes(size - len(data)))
            yield STORE_TASK_COST

    def add(self, data: bytes) -> None:
        """Mending.add."""
        file = self._file
        if self._ended or file is None:
            return
        taken = self._checked(data)
        if not taken:
            raise ReplicaDataError(f"there is nothing for {self.position} in what another replica has sent")
        file.append(data[:taken])
        self.position += taken

    def _checked(self, data: bytes) -> int:
        """Number of bytes of `data` that belong to this file: whole batches of one epoch, and a filler at the end."""
        at = 0
        while at < len(data):
            place = self.position + at
            front = data[at : at + batch.HEADER_BYTES]
            if batch.is_filler(front):
                return self._filled(place, at)
            found = batch.header(front, place)
            if found is None or found.is_gap or not batch.holds(data[at : at + found.size], found):
                raise ReplicaDataError(f"what another replica has sent is not whole at {place}")
            if place + found.size > self.end:
                raise ReplicaDataError(f"the batch at {place} reaches over the end of the damaged part, {self.end}")
            if self._epoch < 0 and self._least <= found.epoch and (self._most < 0 or found.epoch <= self._most):
                self._epoch = found.epoch
            elif found.epoch != self._epoch and self._segment is None and self.position + at > self._base:
                self.end = place  # the next epoch begins with another file
                return at
            elif found.epoch != self._epoch:
                raise ReplicaDataError(f"the batch at {place} is of epoch {found.epoch}, which cannot be there")
            at += found.size
        return at

    def _filled(self, place: int, at: int) -> int:
        behind = place + batch.FILLER_BYTES
        if behind > self.end or (self._segment is not None and behind != self._segment.end):
            raise ReplicaDataError(f"a filler cannot be at {place}")
        self.end = behind
        return at + batch.FILLER_BYTES

    def finish(self, done: Ended) -> None:
        """Mending.finish."""
        assert self.position == self.end
        behind = self.end if self._segment is None else self._segment.end
        self._copy(self.end, behind, lambda failure: done(failure) if failure is not None else self._sync(behind, done))

    def _sync(self, behind: int, done: Ended) -> None:
        file = self._file
        assert file is not None
        self._syncing = True

        def synced(error: OSError | None) -> None:
            self._syncing = False
            if error is not None or self._ended:
                self._drop()
                if error is not None and not self._ended:
                    done(_failure("the new file cannot be synced", error))
                return
            self._put(behind, done)

        file.sync(synced)

    def _put(self, behind: int, done: Ended) -> None:
        """Replace the damaged file by the new one, which is read at once. The loop does not wait for a durable rename."""
        segment, segments = self._segment, self._segments
        self._drop()
        if segment is not None and (segment not in segments.all or segment.end != behind):
            done(Failure(ErrorCode.STORE_UNAVAILABLE, "the segment was deleted meanwhile"))
            return
        what = "the new file cannot take the place of the damaged one"

        def durable(error: OSError | None) -> None:
            if not self._abandoned:
                done(None if error is None else _failure(what, error))

        try:
            segments.put(self._base, behind, durable)
        except OSError as error:
            done(_failure(what, error))
            return
        self._ended = True
        self._mended(self._part.begin, self.end)

    def _drop(self) -> None:
        if self._file is not None and not self._syncing:
            self._file.close()
            self._file = None

    def abandon(self) -> None:
        """Mending.abandon. The next attempt overwrites the new file."""
        self._abandoned = True
        if self._ended:
            return
        self._ended = True
        self._turns.stop()
        self._drop()
        if not self._syncing:
            try:
                self._segments.discard(self._base)
            except OSError:
                return  # such a file is never used


def _bytes(segment: Segment, position: int, size: int) -> bytes:
    """At most `size` bytes of a segment; zeros for unreadable ones. Raises OSError without a file descriptor."""
    return salvaged(segment.file.read, position - segment.base, min(size, segment.end - position))


def _failure(what: str, error: OSError) -> Failure:
    return Failure(ErrorCode.STORE_UNAVAILABLE, f"{what}: {error.strerror or error}")
