"""A disk in memory with the failures of real disks: lost unsynced data, torn writes, refused syncs, no space left.

What was written survives a kill (`killed`); what was synced survives a power failure (`powered_off`), and of the rest each file
keeps what the `keep` given there says, which may be any prefix with garbage behind it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

from domain.ports import Clock

Keep = Callable[[str, int, int], int]
"""(file name, synced bytes, written bytes) -> how many bytes are left after a power failure, between the two."""


class Content:
    """The bytes of one file, and how many of them are durable."""

    __slots__ = ("data", "synced")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.synced = len(data)


class MemoryFile:
    """The `File` port."""

    def __init__(self, disk: MemoryDisk, name: str, content: Content) -> None:
        self._disk = disk
        self._name = name
        self._content = content
        self.closed = False

    def append(self, data: bytes) -> None:
        """Append, or fail as the test has set up the disk."""
        self._disk.write(self._name, self._content, data)

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes."""
        self._disk.reads += 1
        return bytes(self._content.data[offset : offset + size])

    def size(self) -> int:
        """Bytes in the file."""
        return len(self._content.data)

    def truncate(self, size: int) -> None:
        """Cut the tail off."""
        del self._content.data[size:]
        self._content.synced = min(self._content.synced, size)

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Make the file durable after the disk's `sync_ms`, or fail as the test has set up the disk."""
        self._disk.begin_sync(self._content, done)

    def close(self) -> None:
        """Close the file."""
        self.closed = True


class MemoryDisk:
    """The `Disk` port.

    sync_ms        how long a sync takes; with a clock it always ends in a later turn
    fail_syncs     refuse syncs with EIO from now on; hold_syncs: let them hang until `release`
    capacity       bytes in all files together before writes fail with ENOSPC, 0 for no limit
    torn_at        after this many more bytes the write stops short with EIO and all later ones fail: a crash point, -1 for none
    """

    def __init__(self, clock: Clock, sync_ms: float = 1.0) -> None:
        self._clock = clock
        self.sync_ms = sync_ms
        self.files: dict[str, Content] = {}
        self.fail_syncs = False
        self.hold_syncs = False
        self.capacity = 0
        self.torn_at = -1
        self.free = 0.5
        self.reads = 0
        self.syncs = 0
        self.writes: list[tuple[str, int]] = []
        self._held: list[tuple[Content, int, Callable[[OSError | None], None]]] = []

    def open(self, name: str) -> MemoryFile:
        """Open a file; created when it does not exist."""
        return MemoryFile(self, name, self.files.setdefault(name, Content()))

    def names(self, folder: str) -> list[str]:
        """Files directly in `folder`."""
        head = folder + "/" if folder else ""
        return sorted(name[len(head) :] for name in self.files if name.startswith(head) and "/" not in name[len(head) :])

    def read_all(self, name: str) -> bytes | None:
        """The whole content of a file, None when it does not exist."""
        content = self.files.get(name)
        return None if content is None else bytes(content.data)

    def replace(self, name: str, data: bytes) -> None:
        """Replace a file atomically and durably."""
        if self.torn_at == 0:
            raise OSError(errno.EIO, "Input/output error")
        self.files[name] = Content(data)

    def remove(self, name: str) -> None:
        """Delete."""
        if self.torn_at == 0:
            return
        self.files.pop(name, None)

    def free_ratio(self) -> float:
        """The free share that the test has set (`free`)."""
        return self.free

    def write(self, name: str, content: Content, data: bytes) -> None:
        """Write to the end of a file, or fail as the test has set up the disk."""
        if self.capacity and sum(len(other.data) for other in self.files.values()) + len(data) > self.capacity:
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.torn_at >= 0:
            part = data[: self.torn_at]
            if len(part) < len(data):
                content.data += part
                self.torn_at = 0
                raise OSError(errno.EIO, "Input/output error")
            self.torn_at -= len(part)
        content.data += data
        self.writes.append((name, len(data)))

    def begin_sync(self, content: Content, done: Callable[[OSError | None], None]) -> None:
        """Begin a sync of what a file holds now."""
        self.syncs += 1
        job = (content, len(content.data), done)
        if self.hold_syncs:
            self._held.append(job)
            return
        due = self._clock.monotonic_ns() + int(self.sync_ms * 1_000_000)
        self._clock.call_at(due, lambda: self._end_sync(*job))

    def release(self) -> None:
        """Complete the hanging syncs in order; later syncs do not hang."""
        self.hold_syncs = False
        held, self._held = self._held, []
        for content, size, done in held:
            self._clock.call_soon(partial(self._end_sync, content, size, done))

    def _end_sync(self, content: Content, size: int, done: Callable[[OSError | None], None]) -> None:
        if self.fail_syncs:
            done(OSError(errno.EIO, "Input/output error"))
            return
        content.synced = max(content.synced, min(size, len(content.data)))
        done(None)

    def killed(self, clock: Clock) -> MemoryDisk:
        """The disk after kill -9: everything that was written."""
        return self._after(clock, lambda name, synced, written: written)

    def powered_off(self, clock: Clock, keep: Keep | None = None) -> MemoryDisk:
        """The disk after a power failure: what was synced, and what `keep` leaves of the rest, by default nothing."""
        return self._after(clock, keep if keep is not None else lambda name, synced, written: synced)

    def _after(self, clock: Clock, keep: Keep) -> MemoryDisk:
        disk = MemoryDisk(clock, self.sync_ms)
        for name, content in self.files.items():
            left = keep(name, content.synced, len(content.data))
            assert content.synced <= left <= len(content.data)
            after = disk.files[name] = Content(bytes(content.data[:left]))
            after.synced = content.synced
        return disk
