"""A disk in memory that is worse than real ones, and the same again under the same seed.

What was written survives a kill (`killed`). A power failure (`powered_off`) keeps what was synced; of the rest, with a
`chance`, any pages in any order, torn at a sector, and any of the un-synced changes of names. A failed sync drops its pages:
reads go on to see them, later syncs succeed, and after the next power failure they are gone. See platter.py.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from domain.ports import Clock
from tests.simulation.kit.platter import PAGE_BYTES, Content

Keep = Callable[[str, int, int], int]
"""(file name, synced bytes, written bytes) -> how many bytes are left after a power failure, between the two."""


class Operation(NamedTuple):
    """One call of the disk.

    kind   create, append, truncate, sync, replace, rename, remove, read, or folder: the sync of the folder of the file
    name   file
    size   bytes appended or asked for, or the size truncated to
    """

    kind: str
    name: str
    size: int = 0


class Crash(BaseException):
    """The process or the machine dies inside a call of the disk; nothing of the node may catch it."""


class NameChange(NamedTuple):
    """A change of names whose folder was not synced since: what each of the names stood for before."""

    folder: str
    before: dict[str, Content | None]


class MemoryFile:
    """The `File` port."""

    def __init__(self, disk: MemoryDisk, name: str, content: Content) -> None:
        self._disk = disk
        self._name = name
        self._content = content
        self._named = False
        self.closed = False

    def append(self, data: bytes) -> None:
        """Append, or fail as the test has set up the disk."""
        self._disk.write(self._name, self._content, data)

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes."""
        return self._disk.read(self._name, self._content, offset, size)

    def size(self) -> int:
        """Bytes in the file."""
        return len(self._content.data)

    def truncate(self, size: int) -> None:
        """Cut the tail off."""
        self._disk.began(Operation("truncate", self._name, size))
        self._content.truncate(size)

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Make the file durable after the disk's `sync_ms`, and its name the first time; or fail as the test has set it up."""
        self._disk.begin_sync(self._name, self._content, done if self._named else partial(self._name_durable, done))

    def _name_durable(self, done: Callable[[OSError | None], None], error: OSError | None) -> None:
        if error is None:
            try:
                self._disk.sync_folder(self._name)
                self._named = True
            except OSError as failure:
                error = failure
        done(error)

    def close(self) -> None:
        """Close the file."""
        self.closed = True


class MemoryDisk:
    """The `Disk` port.

    watch          called before each operation; what it raises is the operation's end: an OSError (of a sync: its outcome), or
                   a Crash, after which the disk takes nothing more
    sync_ms        how long a sync takes; with a clock it always ends in a later turn
    write_ms       how long a write blocks the process: `stall` lets the time pass
    page_bytes     the unit in which un-synced bytes survive a power failure
    fail_syncs     refuse syncs with EIO from now on; hold_syncs: let them hang until `release`
    capacity       bytes in all files together before writes fail with ENOSPC, 0 for no limit
    torn_at        after this many more bytes the write stops short with EIO and all later ones fail: a crash point, -1 for none
    descriptors    how many more times a file can be opened before that fails with `no_descriptor`, -1: always
    opens          how many times a file was opened
    unreadable     (file, from, to): reads of these bytes fail with EIO
    ends           file -> where reads of it end, although it is longer
    """

    def __init__(self, clock: Clock, sync_ms: float = 1.0) -> None:
        self._clock = clock
        self.watch: Callable[[Operation], None] | None = None
        self.sync_ms = sync_ms
        self.write_ms = 0.0
        self.stall: Callable[[float], None] | None = None
        self.page_bytes = PAGE_BYTES
        self.files: dict[str, Content] = {}
        self.renamed: list[NameChange] = []
        self.fail_syncs = False
        self.hold_syncs = False
        self.capacity = 0
        self.torn_at = -1
        self.descriptors = -1
        self.no_descriptor = errno.EMFILE
        self.opens = 0
        self.unreadable: list[tuple[str, int, int]] = []
        self.ends: dict[str, int] = {}
        self.free = 0.5
        self.reads = 0
        self.syncs = 0
        self.writes: list[tuple[str, int]] = []
        self._crashed = False
        self._held: list[tuple[Content, int, Callable[[OSError | None], None]]] = []

    def began(self, operation: Operation) -> None:
        """Tell the watch. Raises what it raises, and Crash for all that follows one."""
        if self._crashed:
            raise Crash
        if self.watch is not None:
            try:
                self.watch(operation)
            except Crash:
                self._crashed = True
                raise
            except OSError as error:
                error.filename = operation.name
                raise

    def open(self, name: str) -> MemoryFile:
        """Open a file; created when it does not exist. The first sync makes its name durable."""
        content = self.files.get(name)
        self._open(name)
        if content is None:
            self.began(Operation("create", name))
            content = self.files[name] = Content()
            self.renamed.append(NameChange(_folder(name), {name: None}))
        return MemoryFile(self, name, content)

    def names(self, folder: str) -> list[str]:
        """Files directly in `folder`."""
        head = folder + "/" if folder else ""
        return sorted(name[len(head) :] for name in self.files if name.startswith(head) and "/" not in name[len(head) :])

    def size(self, name: str) -> int:
        """Bytes of a file, -1 when it does not exist."""
        content = self.files.get(name)
        return -1 if content is None else len(content.data)

    def read_all(self, name: str) -> bytes | None:
        """The whole content of a file, None when it does not exist."""
        content = self.files.get(name)
        if content is not None:
            self._open(name)
        return None if content is None else self._bytes(name, content, 0, len(content.data))

    def replace(self, name: str, data: bytes) -> None:
        """Replace a file atomically and durably."""
        self._refuse_torn()
        self._open(name)
        self.began(Operation("replace", name, len(data)))
        self._refuse_beyond(len(data) - len(self.files[name].data if name in self.files else b""))
        self._rename(name, {name: Content(data)})

    def replace_soon(self, name: str, data: bytes, done: Callable[[OSError | None], None]) -> None:
        """Replace a file after the disk's `sync_ms`, in the order of the calls."""
        self._after_sync(lambda: _end(done, self.replace, name, data))

    def rename(self, old: str, new: str) -> None:
        """Rename a file, over `new` if that exists; content and names are durable then."""
        self._refuse_torn()
        self._open(old)
        if old not in self.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", old)
        content = self.files[old]
        size = len(content.data)
        try:
            self._sync_begins(old)
        except OSError:
            content.dropped(size)
            raise
        content.flushed(size)
        self.began(Operation("rename", old))
        self._rename(new, {new: content, old: None})
        self._sync_folder(_folder(old))

    def rename_soon(self, old: str, new: str, done: Callable[[OSError | None], None]) -> None:
        """Rename a file in its folder; after `sync_ms` the names are durable."""
        self._refuse_torn()
        if old not in self.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", old)
        self.began(Operation("rename", old))
        content = self.files.pop(old)
        self.renamed.append(NameChange(_folder(new), {new: self.files.get(new), old: content}))
        self.files[new] = content

        def synced() -> None:
            self._sync_begins(_folder(new))
            self._sync_folder(_folder(new))

        self._after_sync(lambda: _end(done, synced))

    def remove(self, name: str) -> None:
        """Delete. The folder is synced behind it: after a power failure before that the file may be back."""
        if self.torn_at == 0 or name not in self.files:
            return
        self.began(Operation("remove", name))
        self.renamed.append(NameChange(_folder(name), {name: self.files.pop(name)}))
        self._after_sync(lambda: self._sync_folder(_folder(name)))

    def free_ratio(self) -> float:
        """The free share that the test has set (`free`)."""
        return self.free

    def write(self, name: str, content: Content, data: bytes) -> None:
        """Write to the end of a file, or fail as the test has set up the disk."""
        self.began(Operation("append", name, len(data)))
        if self.write_ms and self.stall is not None:
            self.stall(self.write_ms)
        self._refuse_beyond(len(data))
        if self.torn_at >= 0:
            part = data[: self.torn_at]
            if len(part) < len(data):
                content.append(part)
                self.torn_at = 0
                raise OSError(errno.EIO, "Input/output error", name)
            self.torn_at -= len(part)
        content.append(data)
        self.writes.append((name, len(data)))

    def read(self, name: str, content: Content, offset: int, size: int) -> bytes:
        """Read, or fail as the test has set up the disk."""
        self.reads += 1
        if self.watch is not None or self._crashed:
            self.began(Operation("read", name, size))
        return self._bytes(name, content, offset, size)

    def begin_sync(self, name: str, content: Content, done: Callable[[OSError | None], None]) -> None:
        """Begin a sync of what a file holds now."""
        self.syncs += 1
        failure: OSError | None = None
        try:
            self.began(Operation("sync", name))
        except OSError as error:
            failure = error
        size = len(content.data)
        if self.hold_syncs:
            self._held.append((content, size, done))
            return
        self._after_sync(lambda: self._end_sync(content, size, done, failure))

    def sync_folder(self, name: str) -> None:
        """Make the names of the folder of `name` durable, or fail as the test has set up the disk."""
        self.began(Operation("folder", name))
        self._sync_folder(_folder(name))

    def release(self) -> None:
        """Complete the hanging syncs in order; later syncs do not hang."""
        self.hold_syncs = False
        held, self._held = self._held, []
        for content, size, done in held:
            self._clock.call_soon(partial(self._end_sync, content, size, done))

    def mend(self) -> None:
        """Nothing is wrong with the disk any more: syncs end, writes have room, and no sector fails."""
        self.fail_syncs = False
        self.capacity = 0
        self.torn_at = self.descriptors = -1
        self.unreadable.clear()
        self.ends.clear()
        if self.hold_syncs:
            self.release()

    def flip(self, name: str, at: int, bit: int = 0) -> None:
        """Flip one bit of a file at rest."""
        self.files[name].data[at] ^= 1 << bit

    def killed(self, clock: Clock, evicted: bool = False) -> MemoryDisk:
        """The disk after kill -9: everything that was written. `evicted`: clean pages are read from the platter again."""
        disk = self._next(clock)
        for name, content in self.files.items():
            after = disk.files[name] = content.copy()
            if evicted:
                for begin, end in after.lost:
                    after.data[begin:end] = bytes(end - begin)
                after.lost.clear()
        disk.renamed = list(self.renamed)
        return disk

    def powered_off(self, clock: Clock, keep: Keep | None = None, chance: random.Random | None = None) -> MemoryDisk:
        """The disk after a power failure: what was synced, and of the rest what `chance` or `keep` leave, else nothing."""
        disk = self._next(clock)
        files = dict(self.files)
        for change in reversed(self.renamed):
            if chance is not None and chance.random() < 0.5:
                for name, before in change.before.items():
                    if before is None:
                        files.pop(name, None)
                    else:
                        files[name] = before
        for name, content in files.items():
            left = content.synced if keep is None else keep(name, content.synced, len(content.data))
            assert content.synced <= left <= len(content.data)
            disk.files[name] = content.after_power_failure(left, chance, self.page_bytes)
        return disk

    def _next(self, clock: Clock) -> MemoryDisk:
        disk = MemoryDisk(clock, self.sync_ms)
        disk.page_bytes, disk.unreadable, disk.ends = self.page_bytes, list(self.unreadable), dict(self.ends)
        return disk

    def _end_sync(
        self, content: Content, size: int, done: Callable[[OSError | None], None], failure: OSError | None = None
    ) -> None:
        if self._crashed:
            raise Crash
        if self.fail_syncs:
            failure = OSError(errno.EIO, "Input/output error")
        if failure is None:
            content.flushed(size)
        else:
            content.dropped(size)
        done(failure)

    def _after_sync(self, callback: Callable[[], None]) -> None:
        self._clock.call_at(self._clock.monotonic_ns() + int(self.sync_ms * 1_000_000), callback)

    def _sync_begins(self, name: str) -> None:
        self.began(Operation("sync", name))
        if self.fail_syncs:
            raise OSError(errno.EIO, "Input/output error")

    def _open(self, name: str) -> None:
        """A file is opened, which takes a descriptor for a while."""
        self.opens += 1
        if self.descriptors == 0:
            raise OSError(self.no_descriptor, os.strerror(self.no_descriptor), name)
        if self.descriptors > 0:
            self.descriptors -= 1

    def _rename(self, name: str, after: dict[str, Content | None]) -> None:
        """Change names in one step, then sync their folder."""
        self.renamed.append(NameChange(_folder(name), {each: self.files.get(each) for each in after}))
        for each, content in after.items():
            if content is None:
                del self.files[each]
            else:
                self.files[each] = content
        self.sync_folder(name)

    def _sync_folder(self, folder: str) -> None:
        self.renamed = [change for change in self.renamed if change.folder != folder]

    def _bytes(self, name: str, content: Content, offset: int, size: int) -> bytes:
        end = min(offset + size, len(content.data), self.ends.get(name, len(content.data)))
        for other, begin, stop in self.unreadable:
            if other == name and begin < end and offset < stop:
                raise OSError(errno.EIO, "Input/output error", name)
        return bytes(content.data[offset:end])

    def _refuse_torn(self) -> None:
        if self.torn_at == 0:
            raise OSError(errno.EIO, "Input/output error")

    def _refuse_beyond(self, size: int) -> None:
        if self.capacity and sum(len(other.data) for other in self.files.values()) + size > self.capacity:
            raise OSError(errno.ENOSPC, "No space left on device")


def _end(done: Callable[[OSError | None], None], operation: Callable[..., None], *arguments: object) -> None:
    """Do what an operation does at its end, and report it."""
    try:
        operation(*arguments)
    except OSError as error:
        done(error)
    else:
        done(None)


def _folder(name: str) -> str:
    return name.rpartition("/")[0]
