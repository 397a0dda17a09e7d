"""The promise mark: the part of the log that is promised to be kept, in two small files beside the log.

    promise/0, promise/1   marks of 80 bytes, one after the other:
    0 magic 4 | 4 CRC-32 of the bytes behind it 4 | 8 serial 8 | 16 position 8 | 24 epoch 8 | 32 incarnation 8 | 40 first 8
    48 newest store ms 8 | 56 records lost 8 | 64 bytes lost 8 | 72 reserved 8

The mark with the highest serial is valid. A torn write leaves the one before it: marks are appended to one file, and when it is
full to the other one, which is emptied first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple, final

from domain.message.crc32 import crc32
from domain.ports import Clock, Disk, File, Timer
from domain.shortage import is_full

FOLDER: Final = "promise"
MARK_BYTES: Final = 80
INTERVAL_MS: Final = 400
"""Time from a sync of the log to its mark; with the sync of the mark it stays below 500 ms."""
_MAGIC: Final = 0x4847504D
_FACTS: Final = struct.Struct(">qqqqqqqqq")
_FRONT: Final = struct.Struct(">II")
_MARKS: Final = 25
"""Marks of one file before the switch to the other one."""
_MARKS_MAX: Final = 50
"""Limit on the marks of one file while the volume has no room for the other one; they fit into the file's one block."""


class Promise(NamedTuple):
    """The content of a promise mark.

    position       position below which this log was flushed
    epoch          epoch of the newest batch there
    first          position of the first byte that must exist: retention has deleted the bytes before
    store_ms       newest store time, in epoch ms
    lost_records   records given up by repairs, since the log began
    lost_bytes     bytes of the log that held them
    """

    position: int
    epoch: int
    incarnation: int
    first: int = 0
    store_ms: int = 0
    lost_records: int = 0
    lost_bytes: int = 0


def encode(promise: Promise, serial: int) -> bytes:
    """Encode one mark."""
    facts = _FACTS.pack(serial, *promise, 0)
    return _FRONT.pack(_MAGIC, crc32(facts)) + facts


def decode(data: bytes) -> tuple[int, Promise] | None:
    """(serial, promise) of one mark; None when its CRC is wrong."""
    if len(data) != MARK_BYTES:
        return None
    magic, crc = _FRONT.unpack_from(data)
    if magic != _MAGIC or crc32(data[_FRONT.size :]) != crc:
        return None
    serial, position, epoch, incarnation, first, store_ms, records, size, _ = _FACTS.unpack_from(data, _FRONT.size)
    return serial, Promise(position, epoch, incarnation, first, store_ms, records, size)


def newest(disk: Disk) -> tuple[int, Promise | None, int]:
    """(serial, promise, number of its file) of the newest mark; (0, None, 1) without a mark."""
    found: tuple[int, Promise | None, int] = (0, None, 1)
    for which in (0, 1):
        data = disk.read_all(f"{FOLDER}/{which}") or b""
        for at in range(0, len(data), MARK_BYTES):
            mark = decode(data[at : at + MARK_BYTES])
            if mark is not None and mark[0] > found[0]:
                found = (mark[0], mark[1], which)
    return found


def incarnation_at(clock: Clock) -> int:
    """Incarnation for a new log, when the caller gives none."""
    return crc32(b"%d %d" % (clock.wall_ms(), clock.monotonic_ns())) << 31 | (clock.wall_ms() & 0x7FFFFFFF) | 1


def write(disk: Disk, promise: Promise) -> None:
    """Write a mark that replaces all earlier ones, durable on return: before a truncation, and while no store is open."""
    serial, _, which = newest(disk)
    disk.replace(f"{FOLDER}/{1 - which}", encode(promise, serial + 1))


@final
class PromiseMark:
    """Writes marks after the syncs of the log, at most one at a time.

    _again      True when another mark must follow at once
    """

    def __init__(self, disk: Disk, clock: Clock, stop: Callable[[str, OSError], None]) -> None:
        """`stop(what, error)` is called after a failed write of a mark: the store then takes no more writes."""
        self._disk = disk
        self._clock = clock
        self._stop = stop
        self.promise = Promise(0, 0, 0)
        self._wanted = self.promise
        self._serial = 0
        self._which = 0
        self._file: File | None = None
        self._base = 0
        self._timer: Timer | None = None
        self._writing = False
        self._again = False
        self._closed = False
        self._waiters: list[Callable[[], None]] = []

    def begin(self, promise: Promise) -> None:
        """Write the first mark of this run, durable on return. Raises OSError."""
        write(self._disk, promise)
        self._serial, _, self._which = newest(self._disk)
        self.promise = self._wanted = promise
        self._base = promise.position

    def synced(self, position: int, store_ms: int, base: int) -> None:
        """Take the position below which the log is durable; its newest segment begins at `base`."""
        self._wanted = self._wanted._replace(position=max(position, self._wanted.position), store_ms=store_ms)
        if base > self._base and position >= base:
            self._base = base
            self.write()
        elif self._timer is None and not self._closed:
            self._later()

    def raise_first(self, first: int, done: Callable[[], None]) -> None:
        """Call `done` when a durable mark allows the log to begin at `first`."""
        self._wanted = self._wanted._replace(first=max(first, self._wanted.first))
        self.write(done)

    def lower(self, position: int, done: Callable[[], None]) -> None:
        """Call `done` when a durable mark promises nothing from `position` on: before a cut of the log there."""
        self._wanted = self._wanted._replace(position=min(position, self._wanted.position))
        self._base = min(self._base, position)
        self.write(done)

    def write(self, done: Callable[[], None] | None = None) -> None:
        """Write a mark now; `done` is called when it is durable, and never after a failure."""
        if done is not None:
            self._waiters.append(done)
        if self._writing:
            self._again = True
        elif not self._closed:
            self._write()

    def close(self) -> None:
        """Write no more marks."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._file is not None and not self._writing:
            self._file.close()
            self._file = None

    def _later(self) -> None:
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + INTERVAL_MS * 1_000_000, self._due)

    def _due(self) -> None:
        self._timer = None
        if self._wanted != self.promise:
            self.write()

    def _write(self) -> None:
        promise, waiters = self._wanted, self._waiters
        self._again = False
        data = encode(promise, self._serial + 1)
        try:
            file = self._append(data, promise.first > self.promise.first)
        except OSError as error:
            if not is_full(error):
                self._stop("a write of the promise mark", error)
            elif self._timer is None:
                self._later()  # the previous mark is valid; a start after a crash proves the part behind it again
            return
        self._serial += 1
        self._writing = True
        self._waiters = []

        def synced(error: OSError | None) -> None:
            self._writing = False
            if error is not None:
                self._stop("a sync of the promise mark", error)
                return
            self.promise = promise
            if self._closed:
                self.close()
            elif self._again:
                self._write()
            for waiter in waiters:
                waiter()

        file.sync(synced)

    def _append(self, data: bytes, urgent: bool) -> File:
        """Append a mark to the file in use, or to the other one when it is full. Raises OSError."""
        file = self._file
        if file is None:
            file = self._file = self._disk.open(f"{FOLDER}/{self._which}")
        if file.size() >= _MARKS * MARK_BYTES:
            other = self._disk.open(f"{FOLDER}/{1 - self._which}")
            try:
                other.truncate(0)
                other.append(data)
            except OSError:
                other.close()
                if not urgent or file.size() >= _MARKS_MAX * MARK_BYTES:
                    raise
            else:
                file.close()
                self._file, self._which = other, 1 - self._which
                return other
        file.append(data)
        return file
