"""Backups while the store is open: the list of files that a backup copies, and holds that keep them.

The list holds the files that a power failure in this turn would leave: the durable part of the log, and the checkpoints with
all that they need. Files only grow, so the list stays valid while nothing is deleted, and appends continue. Deletions are
carried out when the last hold ends. Files that a crash leaves are deleted as after any crash: by the next start, or by the next
checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.ports import Clock, Disk, File, Timer
from domain.store.backup import BackupPlan
from domain.store.store_event import StoreEventKind
from store.checkpoint import derived_damage
from store.checkpoint.checkpointer import Checkpointer
from store.events import StoreEvents
from store.keys.index import KeyIndex
from store.log import promise
from store.log.commit import GroupCommit
from store.log.segment import Segments
from store.queue.index import QueueIndex

HELD_FOLDERS: Final = ("log/", "index/", "keys/", "snapshot/", "checkpoint/")
LEASE_MS: Final = 30_000
HOLDS_MAX: Final = 4
"""Backups at once."""
_MS: Final = 1_000_000
Begun = Callable[[tuple[int, BackupPlan] | Failure], None]


@final
class BackupDisk:
    """The `Disk` port over another disk. Deletes nothing while a backup copies its files.

    held    True while nothing in `HELD_FOLDERS` is deleted
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.held = False
        self._left: dict[str, None] = {}

    def release(self) -> list[OSError]:
        """Carry out the deletions; returns the errors of files that the disk did not delete, which the next start deletes."""
        self.held = False
        left, self._left = self._left, {}
        errors: list[OSError] = []
        for name in left:
            try:
                self._disk.remove(name)
            except OSError as error:
                errors.append(OSError(error.errno, error.strerror or str(error), name))
        return errors

    def remove(self, name: str) -> None:
        """Disk.remove, at once or when the hold ends."""
        if self.held and name.startswith(HELD_FOLDERS):
            self._left[name] = None
        else:
            self._disk.remove(name)

    def open(self, name: str) -> File:
        """Disk.open. A file marked for deletion is deleted and created again: no plan includes such a file."""
        if self._left.pop(name, name) is None:
            self._disk.remove(name)
        return self._disk.open(name)

    def names(self, folder: str) -> list[str]:
        """Disk.names."""
        return self._disk.names(folder)

    def size(self, name: str) -> int:
        """Disk.size."""
        return self._disk.size(name)

    def read_all(self, name: str) -> bytes | None:
        """Disk.read_all."""
        return self._disk.read_all(name)

    def replace(self, name: str, data: bytes) -> None:
        """Disk.replace."""
        self._disk.replace(name, data)

    def replace_soon(self, name: str, data: bytes, done: Callable[[OSError | None], None]) -> None:
        """Disk.replace_soon."""
        self._disk.replace_soon(name, data, done)

    def rename(self, old: str, new: str) -> None:
        """Disk.rename."""
        self._disk.rename(old, new)

    def rename_soon(self, old: str, new: str, done: Callable[[OSError | None], None]) -> None:
        """Disk.rename_soon."""
        self._disk.rename_soon(old, new, done)

    def free_ratio(self) -> float:
        """Disk.free_ratio."""
        return self._disk.free_ratio()


@final
class HeldBackups:
    """The port `Backups`."""

    def __init__(
        self, disk: BackupDisk, clock: Clock, segments: Segments, commit: GroupCommit, checkpointer: Checkpointer,
        index: QueueIndex, keys: KeyIndex, events: StoreEvents,
    ) -> None:  # fmt: skip
        self._disk = disk
        self._clock = clock
        self._segments = segments
        self._commit = commit
        self._checkpointer = checkpointer
        self._index = index
        self._keys = keys
        self._events = events
        self._holds: dict[int, Timer] = {}
        self._waiting: dict[int, Begun] = {}
        self._newest = 0

    @property
    def lease_ms(self) -> int:
        """Backups.lease_ms."""
        return LEASE_MS

    @property
    def count(self) -> int:
        """Number of holds."""
        return len(self._holds)

    def begin(self, done: Begun) -> None:
        """Backups.begin."""
        if len(self._holds) >= HOLDS_MAX:
            done(Failure(ErrorCode.OVERLOADED, f"{HOLDS_MAX} backups are under way: wait until one of them has ended"))
            return
        self._newest += 1
        hold = self._newest
        self._disk.held = True
        self._holds[hold] = self._expiry(hold)
        self._waiting[hold] = done
        if self._commit.faults.broken is not None:
            self._plan(hold)  # the durable part can be read, and does not grow any more
        else:
            self._commit.when_synced(lambda: self._plan(hold))

    def renew(self, hold: int) -> bool:
        """Backups.renew."""
        timer = self._holds.get(hold)
        if timer is None:
            return False
        timer.cancel()
        self._holds[hold] = self._expiry(hold)
        return True

    def end(self, hold: int) -> bool:
        """Backups.end."""
        timer = self._holds.pop(hold, None)
        if timer is None:
            return False
        timer.cancel()
        done = self._waiting.pop(hold, None)
        if not self._holds:
            for error in self._disk.release():
                cause = f"not needed any more, and not deleted: {error.strerror}"
                remedy = "look at the disk; the next start deletes the file"
                self._events.notify(StoreEventKind.LEFT, str(error.filename), cause, remedy, error)
        if done is not None:
            text = f"the disk has made nothing durable for {LEASE_MS // 1000} s, or has failed: look at the log of the node"
            done(Failure(ErrorCode.STORE_UNAVAILABLE, text))
        return True

    def stop(self) -> None:
        """End all holds: the store is closed."""
        for hold in list(self._holds):
            self.end(hold)

    def _expiry(self, hold: int) -> Timer:
        return self._clock.call_at(self._clock.monotonic_ns() + LEASE_MS * _MS, lambda: self._expired(hold))

    def _expired(self, hold: int) -> None:
        self.end(hold)

    def _plan(self, hold: int) -> None:
        done = self._waiting.pop(hold, None)
        if done is None:
            return
        commit, position = self._commit, self._commit.synced
        first, writer = self._segments.first, commit.log.writer
        mark = commit.mark.promise._replace(
            position=position,
            epoch=writer.epoch,
            incarnation=writer.incarnation,
            first=first,
            store_ms=commit.accepted.store_ms,
        )
        point = self._checkpointer.last
        files = self._segments.files(position) + self._checkpointer.files()
        if point.serial:
            files += self._index.files.segments.files(point.index_end) + self._keys.runs.files(point.position)
        if self._disk.size(derived_damage.REBUILD) >= 0:
            files.append((derived_damage.REBUILD, self._disk.size(derived_damage.REBUILD)))
        done((hold, BackupPlan(files, promise.encode(mark, 1), writer.incarnation, first, position)))
