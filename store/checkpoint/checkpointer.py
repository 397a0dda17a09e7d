"""Writes checkpoints: the position up to which index and state view are on disk, from which the next start reads the log.

    rows into the index -> snapshot, with the table of the queues -> all of it in the log -> rows into the index -> syncs
    -> checkpoint

A snapshot may hold values that are newer than the position at which it stands. The position of the checkpoint is behind all of
them, and the log is made durable up to it before the checkpoint is written. No step blocks the loop: rows and changes are
written in slices, and syncs are asynchronous.

What a start has to read is bounded by when a checkpoint begins: `checkpoint_bytes` of log; with a new snapshot, as many bytes
of state changes as the last one had, and four times as many of log. While it is written, a slice takes as long as everything
else took since the slice before, up to _SLICE_MAX_NS, and what retention writes waits when it is too far ahead (`is_behind`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, final

from domain.ports import Clock, Disk, File
from domain.shortage import is_full
from store.checkpoint import points as checkpoints
from store.checkpoint import snapshot
from store.checkpoint.points import Point, Points
from store.checkpoint.snapshot import Columns, SnapshotItem, SnapshotSource
from store.disk_full.errors import NotWrittenError
from store.disk_full.faults import WriteFaults
from store.keys.index import KeyIndex
from store.queue.index import QueueIndex
from store.settings import StoreSettings

_STEP_QUEUES: Final = 64
SLICE_BYTES: Final = 512 * 1024
SLICE_ITEMS: Final = 4_096
SLICE_LOOKS: Final = 16_384
"""Bytes and items of a snapshot that are written in one turn, and items looked at, those in vain included. Most turns end by
the clock before that."""
LOOKS_OF_STEP: Final = 1_024
"""Items that a step of the source examines, about, when it finds nothing."""
SLICE_STEPS: Final = 16
"""Steps of _STEP_QUEUES queues, whose rows are written in one turn."""
_PAUSE_NS: Final = 1_000_000
_SLICE_MIN_NS: Final = 1_000_000
_SLICE_MAX_NS: Final = 3_000_000
"""Time after which a slice ends: as long as the pause before it, within these."""
_SNAPSHOT_BYTES_MIN: Final = 16 * 1024 * 1024
"""Bytes of state changes for which a new snapshot is written, however small the last one was."""


class CheckpointedLog(Protocol):
    """The log of which checkpoints are written: that of group commit, or the part of a follower's log that is applied."""

    @property
    def written(self) -> int:
        """Position behind all that is written."""

    @property
    def covered(self) -> int:
        """Position up to which a checkpoint may cover the log: of a replica behind a batch, never behind a filler, which it may
        have to cut off."""

    @property
    def end(self) -> int:
        """Position behind all that is in the index or the state."""

    @property
    def state_bytes(self) -> int:
        """Bytes of state records that were applied since the start."""

    @property
    def faults(self) -> WriteFaults:
        """Failures because of which nothing is written."""

    def when_synced(self, done: Callable[[], None]) -> None:
        """Call `done` when everything up to `written` is durable, and no later leader can be without it."""


@final
class Checkpointer:
    """Writes checkpoints, one at a time.

    last, older        the newest two checkpoints
    _serial            the highest number of any file so far
    _stood             `commit.state_bytes` where the snapshot of `last` stands
    _standing          the same of the snapshot being written
    _snapshot_wanted   True when a waiter needs a checkpoint with a new snapshot
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        config: StoreSettings,
        commit: CheckpointedLog,
        index: QueueIndex,
        keys: KeyIndex,
        source: SnapshotSource,
        points: Points,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._config = config
        self._commit = commit
        self._index = index
        self._keys = keys
        self._source = source
        self.last = points.newest
        self.older = points.older
        self._serial = points.serial
        self._last_ns = clock.monotonic_ns()
        self._snapshot_bytes = max(disk.size(snapshot.name_of(self.last.snapshot)), 0) if self.last.state else 0
        self._stood = 0
        self._standing = 0
        self._ended_ns = 0
        self._running = False
        self._ended = False
        self._snapshot_wanted = False
        self._waiters: list[Callable[[], None]] = []
        self._file: tuple[str, File] | None = None

    def end(self) -> Points:
        """Write no more checkpoints, and give up the one under way. Returns the points from which another one continues."""
        self._ended = True
        self._waiters.clear()
        self._close()
        return Points(self.last, self.older, self._serial)

    def check(self) -> None:
        """Begin a checkpoint when enough has been written, or enough time has passed, since the last one."""
        behind = self._commit.covered - self.last.position
        waited = self._clock.monotonic_ns() - self._last_ns
        late = behind > 0 and waited >= self._config.checkpoint_ms * 1_000_000
        if behind >= self._config.checkpoint_bytes or self.state_behind >= self._state_bound or late or self._waiters:
            self.begin(self._snapshot_wanted)

    @property
    def state_behind(self) -> int:
        """Bytes of state records that a start would apply to the newest snapshot."""
        return self._commit.state_bytes - self._stood

    @property
    def _state_bound(self) -> int:
        return max(_SNAPSHOT_BYTES_MIN, self._snapshot_bytes)

    def is_behind(self) -> bool:
        """True while a start would have to apply so much that those who can should write no more state changes. A checkpoint
        is being written then, or begins within a second."""
        return self.state_behind >= self._state_bound + self._state_bound // 4 and self._commit.faults.refusal() is None

    def begin(self, fresh: bool, done: Callable[[], None] | None = None) -> None:
        """Write a checkpoint now, with a new snapshot when `fresh` asks for it or it is due.

        `done` is not called when the store breaks before the end, or after `end`; on a full disk it waits for the next one.
        """
        if self._ended:
            return
        if self._running:
            if done is not None:
                self._waiters.append(lambda: self.begin(fresh, done))
            return
        if done is not None:
            self._waiters.append(done)
            self._snapshot_wanted = self._snapshot_wanted or fresh
        if self._commit.faults.refusal() is not None:
            return
        self._running = True
        self._last_ns = self._clock.monotonic_ns()
        position = self._commit.covered
        bound = max(_SNAPSHOT_BYTES_MIN, 4 * self._snapshot_bytes, self._config.checkpoint_bytes)
        if fresh or position - self.last.state >= bound or self.state_behind >= self._state_bound:
            self._commit.when_synced(lambda: self._guard(lambda: self._blocks(position)))
        else:
            last = self.last
            self._index_to(lambda place: last._replace(position=place, serial=0))

    def files(self) -> list[tuple[str, int]]:
        """(name, bytes) of the checkpoints and snapshots that are kept."""
        kept = [point for point in (self.last, self.older) if point.serial]
        names = [checkpoints.name_of(point.serial) for point in kept]
        names += dict.fromkeys(snapshot.name_of(point.snapshot) for point in kept if point.state)
        return [(name, self._disk.size(name)) for name in names if self._disk.size(name) >= 0]

    def covers(self, position: int) -> bool:
        """True when neither checkpoint needs the log before `position`."""
        kept = [point for point in (self.last, self.older) if point.serial]
        return bool(kept) and all(min(point.position, point.state) >= position for point in kept)

    def cover(self, position: int, done: Callable[[], None]) -> None:
        """Write checkpoints until neither needs the log before `position`; then call `done`. `position`: `covered` at most."""
        if self.covers(position):
            done()
        else:
            self.begin(True, lambda: self.cover(position, done))

    def _guard(self, step: Callable[[], None]) -> None:
        if self._ended or self._commit.faults.broken is not None:
            self._close()
            return
        try:
            step()
        except OSError as error:
            if is_full(error):
                self._abandon(error)
            else:
                self._commit.faults.stop("a write of the checkpoint", error)

    def _abandon(self, error: OSError) -> None:
        """Give this checkpoint up: the disk is full. `check` begins another one when there is room."""
        self._commit.faults.fill("a write of the checkpoint", error)
        if self._file is not None:
            name, file = self._file
            self._file = None
            file.close()
            self._disk.remove(name)
        self._running = False

    def _later(self, step: Callable[[], None]) -> None:
        self._ended_ns = self._clock.monotonic_ns()
        self._clock.call_at(self._ended_ns + _PAUSE_NS, lambda: self._guard(step))

    def _slice_end(self) -> int:
        """Monotonic end of the slice that begins now: a checkpoint gets half of a busy loop's time."""
        now = self._clock.monotonic_ns()
        return now + min(max(now - self._ended_ns, _SLICE_MIN_NS), _SLICE_MAX_NS)

    def _written_below(self, position: int) -> bool:
        """Write a slice of the index rows of records before `position`; True when none is left."""
        end_ns = self._slice_end()
        for _ in range(SLICE_STEPS):
            if self._index.write_below(position, _STEP_QUEUES):
                return True
            if self._clock.monotonic_ns() >= end_ns:
                break
        return False

    def _index_to(self, point: Callable[[int], Point]) -> None:
        """Bring the rows of all records that are written into the index, and write the checkpoint, `point(position)`."""
        position = self._commit.covered
        self._commit.when_synced(lambda: self._rows(position, point(position)))

    def _rows(self, position: int, point: Point) -> None:
        def step() -> None:
            if not self._written_below(position) or not self._keys.write_below(position):
                self._later(step)
                return
            written = point._replace(index_end=self._index.files.segments.end)
            self._index.files.segments.sync(lambda error: self._keyed(error, written))

        self._guard(step)

    def _keyed(self, error: OSError | None, point: Point) -> None:
        if error is not None:
            self._indexed(error, point)
        else:
            self._keys.runs.sync(lambda failed: self._indexed(failed, point))

    def _indexed(self, error: OSError | None, point: Point) -> None:
        if isinstance(error, NotWrittenError):
            self._abandon(error)
        elif error is not None:
            self._commit.faults.stop("a sync of the index", error)
        else:
            self._guard(lambda: self._finish(point._replace(index_first=self._index.files.needed_from(self._index.log_start))))

    def _create(self, name: Callable[[int], str]) -> tuple[int, File]:
        """(number, file) of a new file: no file is written twice."""
        self._serial += 1
        while self._disk.size(name(self._serial)) >= 0:
            self._serial += 1
        file = self._disk.open(name(self._serial))
        self._file = (name(self._serial), file)
        return self._serial, file

    def _blocks(self, position: int) -> None:
        """Bring the rows of records before `position` into blocks, so that the table has them; then write the snapshot."""
        if self._written_below(position):
            # Rows take long: the snapshot stands where the log ends now. All that is before is applied when it is durable.
            state, stands = self._commit.covered, self._commit.state_bytes
            self._commit.when_synced(lambda: self._guard(lambda: self._snapshot(state, stands)))
        else:
            self._later(lambda: self._blocks(position))

    def _snapshot(self, state: int, stands: int) -> None:
        """Write a snapshot that stands at position `state` of the log, and then the index. `stands`: state bytes before it."""
        serial, file = self._create(snapshot.name_of)
        table = self._index.files.segments.end
        steps = self._source.snapshot()
        rest: list[SnapshotItem] = []
        written = 0
        ended: list[SnapshotItem] | Columns | None = []

        def step() -> None:
            nonlocal written, rest
            size, count, looks = 0, 0, 0
            end_ns = self._slice_end()
            while count < SLICE_ITEMS and size < SLICE_BYTES and looks < SLICE_LOOKS:
                found = rest if rest else next(steps, ended)
                if isinstance(found, Columns):
                    data = snapshot.encode(found.kind, 0, found.body)
                    count += found.rows
                elif found is None:
                    looks += LOOKS_OF_STEP
                    continue
                elif not found:
                    file.append(snapshot.encode_changes(0, [], False))
                    self._snapshot_bytes = written + size
                    # The journal of this turn is written at its end, so the newest value is in the log from the next turn on.
                    self._later(lambda: durable(self._commit.end))
                    return
                else:
                    data, rest = snapshot.first_frame(found, SLICE_BYTES)
                    count += len(found) - len(rest)
                file.append(data)
                size += len(data)
                if self._clock.monotonic_ns() >= end_ns:
                    break
            written += size
            self._later(step)

        def durable(newest: int) -> None:
            if self._commit.written < newest:
                self._later(lambda: durable(newest))
            else:
                self._commit.when_synced(lambda: file.sync(synced))

        def synced(error: OSError | None) -> None:
            if error is not None:
                self._commit.faults.stop("a sync of the state snapshot", error)
                return
            self._close()
            # What the table of the queues refers to is before this position: the index is never ahead of the checkpoint.
            self._standing = stands
            self._guard(lambda: self._index_to(lambda position: Point(position, 0, state, 0, serial, 0, table)))

        self._guard(step)

    def _close(self) -> None:
        if self._file is not None:
            self._file[1].close()
            self._file = None

    def _finish(self, point: Point) -> None:
        serial, file = self._create(checkpoints.name_of)
        point = point._replace(serial=serial)
        file.append(checkpoints.encode(point))

        def synced(error: OSError | None) -> None:
            if error is not None:
                self._commit.faults.stop("a sync of the checkpoint", error)
                return
            self._close()
            self._guard(published)

        def published() -> None:
            if checkpoints.read(self._disk, f"{serial:020d}") != point:
                raise OSError(f"{checkpoints.name_of(serial)} does not hold what was written")
            if point.snapshot != self.last.snapshot:
                self._stood = self._standing
            self.last, self.older = point, self.last
            self._clean()
            self._keys.runs.checkpointed(min(kept.position for kept in (self.last, self.older) if kept.serial))
            self._running = self._snapshot_wanted = False
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter()

        file.sync(synced)

    def _clean(self) -> None:
        kept = (self.last, self.older)
        self._index.files.drop_before(min(point.index_first for point in kept if point.serial))
        for name in self._disk.names(checkpoints.FOLDER):
            if name.isdigit() and int(name) not in [point.serial for point in kept]:
                self._disk.remove(f"{checkpoints.FOLDER}/{name}")
        for name in self._disk.names(checkpoints.SNAPSHOT_FOLDER):
            if name.isdigit() and int(name) not in [point.snapshot for point in kept if point.state]:
                self._disk.remove(f"{checkpoints.SNAPSHOT_FOLDER}/{name}")
