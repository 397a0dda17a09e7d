"""Checkpoints: the position up to which index and state view are on disk, from which the next start reads the log.

    checkpoint/<serial>   magic 4 | CRC 4 | index covers the log below 8 | end of the index 8 | state snapshot stands at 8
    snapshot/<position>   frames: magic 4 | CRC 4 | base of the log segment that holds them 8 | length 4 | state changes
                          with the other magic their values are rows, 12 bytes: where in the log the long value is
                          the last frame is empty

A file is written under a new name and is valid when its CRC is right; only then the older files are deleted. No file is
overwritten, and no step blocks the loop: rows and changes are written in slices, and syncs are asynchronous.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol, final

from domain.errors import StoreError
from domain.ports import Clock, Disk, File
from domain.store_ports import StateChange
from store.config import StoreConfig
from store.keys.index import KeyIndex
from store.log.commit import GroupCommit
from store.queue.index import QueueIndex
from store.state import change

FOLDER: Final = "checkpoint"
SNAPSHOT_FOLDER: Final = "snapshot"
MAGIC: Final = 0x48474350
MAGIC_ROWS: Final = 0x48475257
_POINT = struct.Struct(">qqq")
_FRAME = struct.Struct(">IIqI")
_SLICE_QUEUES: Final = 64
_SLICE_BYTES: Final = 256 * 1024
_SLICE_NS: Final = 1_000_000
_SNAPSHOT_BYTES_MIN: Final = 8 * 1024 * 1024


class Point(NamedTuple):
    """A checkpoint.

    position    log position below which all records are in the index
    index_end   end of the index
    state       log position below which all state is in the snapshot, 0 when there is none
    serial      number of the checkpoint
    """

    position: int
    index_end: int
    state: int
    serial: int


class CheckpointSource(Protocol):
    """The source of a state snapshot."""

    def snapshot(self) -> Iterator[tuple[int, StateChange, bool]]:
        """(base of the segment of the newest record, change, True when its value is a row) of every live key.

        The iteration takes several turns; values may be newer than its start.
        """


def newest(disk: Disk) -> Point:
    """The newest valid checkpoint; all zeros when there is none, so that the log is read from its beginning."""
    names = [name for name in disk.names(FOLDER) if name.isdigit()]
    for name in reversed(names):
        data = disk.read_all(f"{FOLDER}/{name}") or b""
        if len(data) == 8 + _POINT.size and data[:8] == struct.pack(">II", MAGIC, zlib.crc32(data[8:])):
            position, index_end, state = _POINT.unpack_from(data, 8)
            point = Point(position, index_end, state, int(name))
            if point.state == 0 or disk.read_all(snapshot_name(point.state)) is not None:
                return point
    return Point(0, 0, 0, int(names[-1]) if names else 0)


def snapshot_name(position: int) -> str:
    """The file of the state snapshot as of log position `position`."""
    return f"{SNAPSHOT_FOLDER}/{position:020d}"


def read_snapshot(disk: Disk, position: int) -> Iterator[tuple[int, StateChange, bool]]:
    """The items of a snapshot, as CheckpointSource.snapshot gave them. Raises StoreError when the file is broken."""
    data = disk.read_all(snapshot_name(position)) or b""
    at = 0
    while True:
        if len(data) - at < _FRAME.size:
            raise StoreError(f"{snapshot_name(position)} is broken: restore it, or move the data directory away")
        magic, crc, base, length = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + length]
        if magic not in (MAGIC, MAGIC_ROWS) or len(body) != length or zlib.crc32(body) != crc:
            raise StoreError(f"{snapshot_name(position)} is broken: restore it, or move the data directory away")
        if not length:
            return
        for item in change.decode(body):
            yield base, item, magic == MAGIC_ROWS
        at += _FRAME.size + length


@final
class Checkpointer:
    """Writes checkpoints, one at a time.

    last               the newest checkpoint
    _last_ns           when it was begun, monotonic
    _snapshot_bytes    size of the newest snapshot written by this process
    _running           True while a checkpoint is being written
    _waiters           called when it is written
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        config: StoreConfig,
        commit: GroupCommit,
        index: QueueIndex,
        keys: KeyIndex,
        source: CheckpointSource,
        last: Point,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._config = config
        self._commit = commit
        self._index = index
        self._keys = keys
        self._source = source
        self.last = last
        self._last_ns = clock.monotonic_ns()
        self._snapshot_bytes = 0
        self._running = False
        self._waiters: list[Callable[[], None]] = []
        self._file: File | None = None

    def check(self) -> None:
        """Begin a checkpoint when enough has been written, or enough time has passed, since the last one."""
        behind = self._commit.written - self.last.position
        waited = self._clock.monotonic_ns() - self._last_ns
        if behind >= self._config.checkpoint_bytes or (behind > 0 and waited >= self._config.checkpoint_ms * 1_000_000):
            self.begin(False)

    def begin(self, snapshot: bool, done: Callable[[], None] | None = None) -> None:
        """Write a checkpoint now, with a new snapshot when `snapshot` asks for it or it is due.

        `done` is not called when the store breaks before the end.
        """
        if self._running:
            if done is not None:
                self._waiters.append(lambda: self.begin(snapshot, done))
            return
        if self._commit.broken is not None:
            return
        self._running = True
        self._last_ns = self._clock.monotonic_ns()
        position = self._commit.written
        bound = max(_SNAPSHOT_BYTES_MIN, 4 * self._snapshot_bytes, self._config.checkpoint_bytes)
        fresh = snapshot or position - self.last.state >= bound
        if done is not None:
            self._waiters.append(done)
        self._commit.when_synced(lambda: self._rows(position, fresh))

    def _guard(self, step: Callable[[], None]) -> None:
        if self._commit.broken is not None:
            return
        try:
            step()
        except OSError as error:
            self._commit.stop("a write of the checkpoint", error)

    def _later(self, step: Callable[[], None]) -> None:
        self._clock.call_at(self._clock.monotonic_ns() + _SLICE_NS, lambda: self._guard(step))

    def _rows(self, position: int, fresh: bool) -> None:
        def step() -> None:
            if not self._index.write_below(position, _SLICE_QUEUES) or not self._keys.write_below(position):
                self._later(step)
                return
            end = self._index.end
            self._index.sync(lambda error: self._keyed(error, position, end, fresh))

        self._guard(step)

    def _keyed(self, error: OSError | None, position: int, end: int, fresh: bool) -> None:
        if error is not None:
            self._indexed(error, position, end, fresh)
        else:
            self._keys.sync(lambda failed: self._indexed(failed, position, end, fresh))

    def _indexed(self, error: OSError | None, position: int, end: int, fresh: bool) -> None:
        if error is not None:
            self._commit.stop("a sync of the index", error)
        elif not fresh:
            self._guard(lambda: self._finish(Point(position, end, self.last.state, self.last.serial + 1)))
        else:
            self._guard(lambda: self._snapshot(Point(position, end, position, self.last.serial + 1)))

    def _snapshot(self, point: Point) -> None:
        name = snapshot_name(point.state)
        file = self._disk.open(name)
        if file.size():
            file.truncate(0)
        items = self._source.snapshot()
        written = 0

        def step() -> None:
            nonlocal written
            group: list[StateChange] = []
            size, base, more, rows = 0, -1, False, False
            for at, item, row in items:
                if group and (at != base or row != rows):
                    file.append(_frame(base, group, rows))
                    group = []
                base, rows = at, row
                group.append(item)
                size += len(item.key) + len(item.value or b"")
                if size >= _SLICE_BYTES:
                    more = True
                    break
            if group:
                file.append(_frame(base, group, rows))
            written += size
            if more:
                self._later(step)
                return
            file.append(_FRAME.pack(MAGIC, 0, 0, 0))
            file.sync(synced)

        def synced(error: OSError | None) -> None:
            file.close()
            self._snapshot_bytes = written
            if error is not None:
                self._commit.stop("a sync of the state snapshot", error)
            else:
                self._guard(lambda: self._finish(point))

        self._guard(step)

    def _finish(self, point: Point) -> None:
        data = _POINT.pack(point.position, point.index_end, point.state)
        file = self._disk.open(f"{FOLDER}/{point.serial:020d}")
        file.append(struct.pack(">II", MAGIC, zlib.crc32(data)) + data)

        def synced(error: OSError | None) -> None:
            file.close()
            if error is not None:
                self._commit.stop("a sync of the checkpoint", error)
                return
            self.last = point
            self._guard(self._clean)
            self._keys.checkpointed(point.position)
            self._running = False
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter()

        file.sync(synced)

    def _clean(self) -> None:
        for name in self._disk.names(FOLDER):
            if name.isdigit() and int(name) != self.last.serial:
                self._disk.remove(f"{FOLDER}/{name}")
        for name in self._disk.names(SNAPSHOT_FOLDER):
            if name.isdigit() and int(name) != self.last.state:
                self._disk.remove(f"{SNAPSHOT_FOLDER}/{name}")


def _frame(base: int, group: list[StateChange], rows: bool) -> bytes:
    body = change.encode(group)
    return _FRAME.pack(MAGIC_ROWS if rows else MAGIC, zlib.crc32(body), base, len(body)) + body
