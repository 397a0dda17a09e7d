"""The log of a follower as bytes: the leader's batches and fillers, checked and written at their positions there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, final

from domain.errors import ErrorCode, Failure
from domain.ports import Clock, Disk
from domain.replication.message import Era
from domain.replication.ports import ReplicaDataError, UnknownFormatError
from domain.shortage import is_full
from store.disk_full.errors import probe
from store.disk_full.faults import WriteFaults
from store.events import StoreEvents
from store.log import batch
from store.log.batch import Header
from store.log.promise import PromiseMark
from store.log.segment import Segments
from store.log.store_time import StoreTime
from store.log.syncs import SyncWork
from store.replication.replica_log.eras import LogEras

FRESH_BYTES: Final = 16 * 1024 * 1024
_AGAIN_NS: Final = 1_000_000_000
"""Time until a retry of a cut."""


@final
class FreshBatches:
    """The newest batches in the order of the log: at most `FRESH_BYTES`, but at least one."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Header, bytes]] = deque()
        self._bytes = 0

    def add(self, batches: Sequence[tuple[Header, bytes]]) -> None:
        """Add batches that were written at the end of the log and have correct CRCs."""
        for found in batches:
            self._waiting.append(found)
            self._bytes += found[0].size
        while self._bytes > FRESH_BYTES and len(self._waiting) > 1:
            self._bytes -= self._waiting.popleft()[0].size

    def has(self, position: int) -> bool:
        """True when the batch at `position`, the end of the applied log, is here. Forgets older ones."""
        waiting = self._waiting
        while waiting and waiting[0][0].position < position:
            self._bytes -= waiting.popleft()[0].size
        return bool(waiting) and waiting[0][0].position == position

    def first(self) -> tuple[Header, bytes]:
        """Oldest batch; there must be one."""
        return self._waiting[0]

    def clear(self) -> None:
        """Forget all batches: the log is cut."""
        self._waiting.clear()
        self._bytes = 0


class _Part(NamedTuple):
    """Unit of a write: batches of one epoch, or a filler.

    batches   (header, bytes) of its batches; empty for a filler
    """

    end: int
    batches: list[tuple[Header, bytes]]


@final
class RawLog:
    """Batches in segments, without derived files.

    synced    position below which the log is durable
    fresh     its newest batches, which are not applied
    _unrolled True: the last file has its filler, and the next file does not exist yet
    """

    def __init__(
        self,
        disk: Disk,
        segments: Segments,
        events: StoreEvents,
        behind: int,
        store_ms: int,
        clock: Clock,
        time: StoreTime,
    ) -> None:
        """All of the log is durable; its last batch ends at `behind`. Raises OSError."""
        self._disk = disk
        self._segments = segments
        self.faults = WriteFaults(clock, events, "the replica takes nothing", self._write_again, self._faulted)
        self._unrolled = False
        self.mark = PromiseMark(disk, clock, self.faults.stop)
        self._eras = LogEras(segments, behind)
        self.synced = segments.end
        self.fresh = FreshBatches()
        self.store_ms = store_ms
        self.syncs = SyncWork()
        self._clock = clock
        self._time = time
        self._cutting = False
        self._waiting: list[Callable[[], None]] = []
        self._retries: list[Callable[[], None]] = []
        self._closed = False

    @property
    def first(self) -> int:
        """Position of its first byte."""
        return self._segments.first

    @property
    def written(self) -> int:
        """Position behind its last byte."""
        return self._segments.end

    @property
    def behind(self) -> int:
        """Position behind its last batch."""
        return self._eras.behind

    @property
    def epoch(self) -> int:
        """Epoch of its last batch; 0 without one."""
        return self._eras.epoch

    @property
    def writer(self) -> int:
        """Incarnation of the log that wrote its last batch; 0 without a batch, or when unknown."""
        return self._eras.writer

    @property
    def idle(self) -> bool:
        """True while no sync and no cut is running."""
        return not self.syncs.since_ns and not self._cutting

    def eras(self) -> list[Era]:
        """The eras of the log, ascending."""
        return self._eras.listed(self.first)

    def append(self, position: int, data: bytes) -> None:
        """Write bytes at `position`, the end. Raises ReplicaDataError, and writes nothing, if a batch is cut off or damaged."""
        if self.faults.broken is not None:
            return
        full = self.faults.full
        if full is not None:
            raise ReplicaDataError(full.text)
        if position != self.written:
            raise ReplicaDataError(f"bytes at {position} do not follow a log that ends at {self.written}")
        parts = self._parts(position, data)
        at = 0
        try:
            for end, batches in parts:
                self._segments.append(data[at:end] if at or end < len(data) else data)
                at = end
                if not batches:
                    self._unrolled = True
                    self._segments.roll()
                    self._unrolled = False
                else:
                    last = batches[-1][0]
                    self._eras.note(last.epoch, last.incarnation)
                    self._eras.behind = last.position + last.size
                    self.store_ms = max(self.store_ms, last.written_ms)
                    self._segments.active.newest_ms = min(self.store_ms, self._time.now_ms())
                    self.fresh.add(batches)
        except OSError as error:
            self.faults.failed("a write of the log", error)
            full = self.faults.full
            if full is not None:
                raise ReplicaDataError(full.text) from error

    def _parts(self, position: int, data: bytes) -> list[_Part]:
        """Checked parts of the bytes at `position`. Raises ReplicaDataError."""
        parts: list[_Part] = []
        epoch = self.epoch
        at = 0
        while at < len(data):
            front = data[at : at + batch.HEADER_BYTES]
            if batch.is_filler(front):
                at += batch.FILLER_BYTES
                parts.append(_Part(at, []))
                continue
            found = batch.header(front, position + at)
            if found is None and (version := batch.later_version(data[at : at + batch.LATER_HEADER_BYTES_MAX], position + at)):
                raise UnknownFormatError(
                    f"the leader writes batches of format version {version}, and this version of Headgate knows no later one "
                    f"than {batch.VERSION}: upgrade this replica; until then the others go on without it"
                )
            if found is None or found.is_gap or found.epoch < epoch:
                raise ReplicaDataError(f"no batch that can follow begins at {position + at}")
            whole = data[at : at + found.size] if at or found.size < len(data) else data
            if not batch.holds(whole, found):
                raise ReplicaDataError(f"the batch at {position + at} is cut off, or its checksum is wrong")
            at += found.size
            batches = [(found, whole)]
            if parts and parts[-1].batches and found.epoch == epoch:
                batches = parts.pop().batches
                batches.append((found, whole))
            parts.append(_Part(at, batches))
            epoch = found.epoch
        return parts

    def roll(self) -> None:
        """Begin a new file for the next append; does nothing without room or a file descriptor. Any other error breaks the
        log."""
        try:
            self._segments.roll()
        except OSError as error:
            if not is_full(error):
                self.faults.stop("a new file of the log", error)

    def sync(self, done: Callable[[], None]) -> None:
        """Make all bytes written before this call durable; then call `done`, which is never called if the disk fails."""
        if self.faults.broken is not None:
            return
        if self.syncs.since_ns or self._cutting:
            self._waiting.append(done)
            return
        self.syncs.begin(self._clock.monotonic_ns())
        target = self.written

        def synced(error: OSError | None) -> None:
            self.syncs.end(self._clock.monotonic_ns())
            if self._closed:
                self._segments.close()
                return
            if error is not None:
                self.faults.stop("a sync of the log", error)
                return
            self.synced = max(self.synced, min(target, self.written))
            self.mark.synced(self.synced, self.store_ms, self._segments.active.base)
            waiting, self._waiting = self._waiting, []
            done()
            for each in waiting:
                self.sync(each)

        self._segments.sync(synced)

    def cut(self, position: int, done: Callable[[], None], aside: str = "") -> None:
        """Cut the log off at `position`, the end of a batch, and call `done` when the cut is durable. Nothing is appended until
        then. The mark withdraws its promise from there on before the bytes are removed. Other syncs wait: a removed file must
        not be closed while it is synced. A cut without room or a file descriptor is retried. `aside`: as in Segments.cut."""

        def held() -> None:
            self._cutting = True
            self.mark.lower(position, lowered)

        def lowered() -> None:
            self._cutting = False
            if self.faults.broken is not None or self._closed:
                return
            try:
                self._segments.cut(position, aside)
            except OSError as error:
                if is_full(error):
                    self._cutting = True
                    self._clock.call_at(self._clock.monotonic_ns() + _AGAIN_NS, lowered)
                else:
                    self.faults.stop("a cut of the log", error)
                return
            self._unrolled = False
            self._eras.cut(position)
            self.fresh.clear()
            self.synced = min(self.synced, position)
            self.sync(done)

        self.sync(held)

    def drop_first(self, base: int, done: Callable[[], None]) -> None:
        """Delete the segments before the one at `base`, after the mark allows the log to begin there; then call `done`."""

        def marked() -> None:
            if self.faults.broken is not None or self._closed:
                return
            try:
                while self._segments.first < base:
                    self._segments.drop_first()
            except OSError as error:
                self.faults.stop("a deletion of the log", error)
                return
            done()

        self.mark.raise_first(base, marked)

    def when_room(self, again: Callable[[], None]) -> None:
        """Call `again` once when the disk that is full has room."""
        self._retries.append(again)

    def _write_again(self) -> None:
        """Create the missing file, since there may be room again. Raises OSError."""
        probe(self._disk)
        if self._unrolled:
            self._segments.roll()
            self._unrolled = False
        retries, self._retries = self._retries, []
        for again in retries:
            self._clock.call_soon(again)

    def _faulted(self, failure: Failure, for_good: bool) -> None:
        if for_good:
            self._waiting.clear()
            self.mark.close()

    def close(self) -> None:
        """Close the files; a running sync closes them at its end."""
        self.release()
        if not self.syncs.since_ns:
            self._segments.close()

    def release(self) -> None:
        """Stop all writes, and leave the files to another owner."""
        self._closed = True
        self.faults.end()
        self.faults.broken = self.faults.broken or Failure(ErrorCode.STORE_UNAVAILABLE, "the log is closed")
        self.mark.close()
