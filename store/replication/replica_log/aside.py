"""Setting aside of the part of a replica's log that its leader's log lacks: no whole batch is deleted.

    set-aside/log-24477/log/...   the log from position 24477 on, where it was cut off or had its first byte
    set-aside/behind/log/...      a log that its leader had, and has deleted by retention; one, while there is room

Each folder has segments in the format of the log. The first one begins at the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Final, final

from domain.ports import Clock, Disk, File
from domain.set_aside import ASIDE, free_folder
from domain.store.store_event import StoreEventKind
from domain.turn import STORE_TASK_COST
from store.events import StoreEvents
from store.log.copying import COPY_BYTES, NEW
from store.log.segment import FOLDER, Segments, file_name
from store.replication.replica_log.raw_log import RawLog
from store.steps import Turns

BEHIND: Final = f"{ASIDE}/behind"
"""Folder of the log of a replica whose leader has meanwhile deleted all of it by retention."""
_HEADER_COST: Final = 8
_NOT_CONTINUED: Final = "the log of the leader does not have them"
_DELETED_THERE: Final = "the leader has deleted all of them by retention"
_REMEDY: Final = (
    'look whether they were acknowledged (docs/cluster.md, "What was set aside"); delete the folder when nobody needs it'
)


@final
class LostLog:
    """The part of a log from `begin` on, which leaves the log.

    begin     position of its first byte, where a batch begins
    records   number of its records; a lower bound if bytes are damaged or unreadable
    """

    def __init__(self, disk: Disk, segments: Segments, begin: int, folder: str) -> None:
        self.begin, self.end = begin, segments.end
        self.folder = folder
        self.records = 0
        self._segments = segments
        self._disk = disk
        self._copy: File | None = None

    def count(self) -> Iterator[int]:
        """Count the records, in steps with their costs."""
        try:
            for header, _ in self._segments.walk(self.begin, False):
                self.records += header.count
                yield _HEADER_COST
        except OSError:
            return

    def copy(self) -> Iterator[int]:
        """Count the records, and copy the part in the file that the log keeps, in steps with their costs. Raises OSError."""
        yield from self.count()
        segment = self._segments.around(self.begin)
        if segment is None or segment.base == segment.end:
            return
        copy = self._copy = self._disk.open(self._name + NEW)
        copy.truncate(0)
        for at in range(self.begin, segment.end, COPY_BYTES):
            copy.append(segment.file.read(at - segment.base, min(COPY_BYTES, segment.end - at)))
            yield STORE_TASK_COST

    def finish(self, done: Callable[[OSError | None], None]) -> None:
        """Make the copy durable; `done` gets the error or None."""

        def synced(error: OSError | None) -> None:
            self.close()
            if error is None:
                try:
                    self._disk.rename(self._name + NEW, self._name)
                except OSError as refused:
                    error = refused
            done(error)

        if self._copy is None:
            done(None)
        else:
            self._copy.sync(synced)

    def notify(self, events: StoreEvents) -> None:
        """Report the event that it is set aside."""
        why = _DELETED_THERE if self.folder == BEHIND else _NOT_CONTINUED
        cause = f"{self.records:,} records of the log, from {self.begin} to {self.end}, are set aside in this folder: {why}"
        events.notify(StoreEventKind.SET_ASIDE, self.folder, cause, _REMEDY)

    def close(self) -> None:
        """Close the file of a copy."""
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.close()

    @property
    def _name(self) -> str:
        return f"{self.folder}/{file_name(FOLDER, self.begin)}"


@final
class SetAside:
    """Sets aside parts that leave the log of a follower, one at a time."""

    def __init__(self, disk: Disk, clock: Clock, events: StoreEvents, segments: Segments, raw: RawLog) -> None:
        self._disk = disk
        self._events = events
        self._segments = segments
        self._raw = raw
        self._turns = Turns(clock)
        self._lost: LostLog | None = None

    def cut(self, position: int, done: Callable[[], None]) -> None:
        """Cut the log off at `position`, durably, and keep the batches behind it; then call `done`.

        On a full disk the log stays as it is until there is room for the copy.
        """
        self._cut(position, _unused(self._disk, position), done)

    def _cut(self, position: int, folder: str, done: Callable[[], None]) -> None:
        lost = self._lost = LostLog(self._disk, self._segments, position, folder)

        def copied() -> None:
            lost.finish(kept)

        def kept(error: OSError | None) -> None:
            if error is not None:
                failed(error)
            else:
                self._raw.cut(position, gone, lost.folder)

        def gone() -> None:
            self._lost = None
            lost.notify(self._events)
            done()

        def failed(error: OSError) -> None:
            lost.close()
            self._raw.when_room(lambda: self._cut(position, folder, done))
            self._raw.faults.failed("setting the end of the log aside", error)

        self._turns.run(lost.copy(), copied, failed)

    def whole(self, behind: bool, counted: Callable[[LostLog], None]) -> None:
        """Count the records of the whole log before its move; then call `counted`. `behind`: the target is BEHIND."""
        first = self._segments.first
        lost = LostLog(self._disk, self._segments, first, BEHIND if behind else _unused(self._disk, first))
        self._turns.run(lost.count(), lambda: counted(lost), lambda _error: None)

    def make_room(self) -> None:
        """Delete the log in BEHIND, since the volume is short of room. Raises OSError."""
        names = self._disk.names(f"{BEHIND}/{FOLDER}")
        for name in names:
            self._disk.remove(f"{BEHIND}/{FOLDER}/{name}")
        if names:
            cause = "the log that was set aside here is deleted: the volume is below `store.pressure_ratio`"
            self._events.notify(StoreEventKind.PRESSED, BEHIND, cause)

    def stop(self) -> None:
        """Stop: the log is closed or replaced."""
        self._turns.stop()
        if self._lost is not None:
            self._lost.close()


def _unused(disk: Disk, begin: int) -> str:
    """Folder without files for the part that begins at `begin`."""
    name = f"{ASIDE}/log-{begin}"
    return free_folder(disk, chain([name], (f"{name}-{number}" for number in count(2))), [FOLDER])
