"""Segments: a log as files named by the position of their first byte; read by position, appended at the end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final, final

from domain.ports import Disk, File
from store.log import batch
from store.log.batch import Header
from store.log.copying import NEW, in_steps, write_copy
from store.log.gap import Gap, gap_size

FOLDER: Final = "log"
OPEN_FILES_MAX: Final = 64
"""Limit on the open files of one log, besides those that are written or synced."""
COPY_WHOLE_BYTES: Final = 1024 * 1024
"""Largest segment that is copied whole when its end is unproven; of a longer one only the unproven part is copied."""
_CUT: Final = ".cut"


@final
class Segment:
    """One file of the log.

    end         position after its last byte; the next segment begins there, unless bytes are missing or lost
    newest_ms   time of the write of its last batch, in epoch ms, by the clock of this run where it was written in this run;
                0 when not known yet
    """

    def __init__(self, owner: Segments, base: int, end: int) -> None:
        self._owner = owner
        self.base = base
        self.end = end
        self.handle: File | None = None
        self.newest_ms = 0

    @property
    def file(self) -> File:
        """The file, opened if necessary. Raises OSError."""
        found = self.handle
        return self._owner.opened(self) if found is None else found


def is_left(disk: Disk, folder: str, name: str, kept_from: int) -> bool:
    """True for a segment that ends before `kept_from`, left of a deletion: a power failure has restored it, or the disk has
    refused the deletion."""
    return _is_segment(name) and int(name) < kept_from and int(name) + disk.size(f"{folder}/{name}") <= kept_from


def _is_segment(name: str) -> bool:
    return len(name) == 20 and name.isdigit()


def file_name(folder: str, base: int) -> str:
    """File name of a segment: its base in 20 decimal digits, as RocketMQ names commit-log files."""
    return f"{folder}/{base:020d}"


@final
class Segments:
    """A log as a sequence of segments. Only the last one is appended to.

    all         the segments, oldest first, never empty
    gaps        parts whose records were lost, ascending; set by `segment_ends.find_gaps`
    """

    def __init__(self, disk: Disk, folder: str, start: int = 0, kept_from: int = 0) -> None:
        """`start`: begin of the first file of an empty log. Files that end before `kept_from` are left of deletions."""
        self._disk = disk
        self._folder = folder
        self._unsynced: list[Segment] = []
        self._syncing: list[Segment] = []
        self._opened: dict[Segment, None] = {}
        self.gaps: list[Gap] = []
        self.left: list[str] = []
        self.all: list[Segment] = []
        for name in disk.names(folder):
            if name.endswith(_CUT) or is_left(disk, folder, name, kept_from):
                self.left.append(f"{folder}/{name}")
            elif _is_segment(name):
                base = int(name)
                # A segment that overlaps the next one is the source of a copy that a crash interrupted: the copy is valid.
                if self.all and self.all[-1].end > base:
                    self.all[-1].end = base
                self.all.append(Segment(self, base, base + disk.size(f"{folder}/{name}")))
        if not self.all:
            self._add(start)
        self._bases = [segment.base for segment in self.all]

    def delete_left(self) -> None:
        """Delete the files left of earlier deletions. Raises OSError."""
        while self.left:
            self._disk.remove(self.left[-1])
            self.left.pop()

    def _add(self, base: int) -> None:
        segment = Segment(self, base, base)
        segment.handle = self._disk.open(file_name(self._folder, base))
        self.all.append(segment)
        self._opened[segment] = None

    def opened(self, segment: Segment) -> File:
        """Open the file of `segment`, and close the files opened first while too many are open. Raises OSError."""
        found = segment.handle = self._disk.open(file_name(self._folder, segment.base))
        self._opened[segment] = None
        self._close_oldest(segment)
        return found

    def _close_oldest(self, needed: Segment) -> None:
        """Close the files opened first while too many are open, except `needed`, the last segment, and unsynced ones."""
        surplus = len(self._opened) - OPEN_FILES_MAX
        for other in list(self._opened) if surplus > 0 else ():
            if (
                surplus > 0
                and other not in (needed, self.all[-1])
                and other not in self._unsynced
                and other not in self._syncing
            ):
                self._close(other)
                surplus -= 1

    def _close(self, segment: Segment) -> None:
        if segment.handle is not None:
            segment.handle.close()
            segment.handle = None
            del self._opened[segment]

    @property
    def open_files(self) -> int:
        """Number of open files."""
        return len(self._opened)

    @property
    def first(self) -> int:
        """Lowest position of the log."""
        return self._bases[0]

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self.all[-1]

    @property
    def end(self) -> int:
        """Position after the last byte."""
        return self.all[-1].end

    def files(self, end: int) -> list[tuple[str, int]]:
        """(name, bytes) of the files that hold the log up to position `end`; the first file even if it is empty."""
        found = [segment for segment in self.all if segment.base < end] or self.all[:1]
        return [(file_name(self._folder, each.base), max(min(each.end, end) - each.base, 0)) for each in found]

    def append(self, data: bytes) -> None:
        """Append `data` to the last segment. Raises OSError."""
        segment = self.all[-1]
        segment.file.append(data)
        segment.end += len(data)
        if not self._unsynced or self._unsynced[-1] is not segment:
            self._unsynced.append(segment)

    def roll(self) -> None:
        """Begin a new segment at the end of the last one, unless the last one is empty. Raises OSError."""
        last = self.all[-1]
        if last.end > last.base:
            self._add(last.end)
            self._bases.append(last.end)
            self._close_oldest(last)

    def at(self, position: int) -> Segment | None:
        """Segment that holds `position`; None when the position is deleted, lost or not written yet."""
        index = bisect_right(self._bases, position) - 1
        if index < 0 or position >= self.all[index].end:
            return None
        return self.all[index]

    def around(self, position: int) -> Segment | None:
        """Segment of `position`, whose bytes may be lost; None when the position is deleted or not written yet."""
        index = bisect_right(self._bases, position) - 1
        return None if index < 0 or position >= self.end else self.all[index]

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position` on, within one segment; b"" for a position outside the log."""
        segment = self.at(position)
        return b"" if segment is None else segment.file.read(position - segment.base, min(size, segment.end - position))

    def follows(self, segment: Segment) -> int:
        """Base of the segment after `segment`; for the last one, its end."""
        index = bisect_right(self._bases, segment.base)
        return self._bases[index] if index < len(self._bases) else segment.end

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Make all bytes appended before this call durable, oldest file first. `done` gets the error or None.

        One call at a time.
        """
        todo, self._unsynced = self._unsynced or [self.all[-1]], []
        self._syncing = todo

        def synced(error: OSError | None) -> None:
            todo.pop(0)
            step(error)

        def step(error: OSError | None) -> None:
            if error is not None or not todo:
                todo.clear()
                done(error)
            else:
                todo[0].file.sync(synced)

        step(None)

    def cut(self, end: int, aside: str = "") -> None:
        """Cut the log off at position `end`, or at its first byte if that is later. Raises OSError.

        Files behind `end` move to the folder `aside`. With "" they are renamed and then deleted: none returns after a power
        failure. The end of the remaining file is lost unless the caller has copied it.
        """
        end = max(end, self.first)
        while len(self.all) > 1 and self.all[-1].base > end:
            name = file_name(self._folder, self.all[-1].base)
            self._disk.rename(name, f"{aside}/{name}" if aside else name + _CUT)
            self._forget(len(self.all) - 1)
            if not aside:
                self._disk.remove(name + _CUT)
        last = self.all[-1]
        last.end = min(last.end, end)
        if last.file.size() > last.end - last.base:
            last.file.truncate(last.end - last.base)

    def renew(self, proven: int) -> None:
        """Copy the log from `proven`, the end of a batch, to its end to new files, and make these durable. Raises OSError.

        A failed sync before a crash may leave pages in the page cache that are not on the disk and are never synced again.
        """
        for index in range(len(self.all) - 1, -1, -1):
            segment = self.all[index]
            if segment.end <= proven or segment.end == segment.base:
                continue
            begin = max(segment.base, proven)
            if begin == segment.base or segment.end - segment.base <= COPY_WHOLE_BYTES:
                self._copy(segment, segment.base)
                self._close(segment)
                continue
            self._copy(segment, begin)
            tail = Segment(self, begin, segment.end)
            tail.newest_ms = segment.newest_ms
            self.all.insert(index + 1, tail)
            self._bases.insert(index + 1, begin)
            segment.end = begin
            segment.file.truncate(begin - segment.base)

    def _copy(self, segment: Segment, begin: int) -> None:
        parts = in_steps(segment.file.read, begin - segment.base, segment.end - segment.base)
        write_copy(self._disk, file_name(self._folder, begin), parts)

    def busy(self, segment: Segment) -> bool:
        """True for the last segment, and for one with unsynced bytes: its file must not be replaced."""
        return segment is self.all[-1] or segment in self._unsynced or segment in self._syncing

    def intact(self, segment: Segment) -> bool:
        """True when the file of a segment exists with at least its size."""
        return self._disk.size(file_name(self._folder, segment.base)) >= segment.end - segment.base

    def create(self, base: int) -> File:
        """Create an empty file for `put`. Raises OSError."""
        made = self._disk.open(file_name(self._folder, base) + NEW)
        made.truncate(0)
        return made

    def discard(self, base: int) -> None:
        """Delete the file of `create`. Raises OSError."""
        self._disk.remove(file_name(self._folder, base) + NEW)

    def put(self, base: int, end: int, done: Callable[[OSError | None], None]) -> None:
        """Make the synced and closed file of `create` the segment from `base` to `end`, at once; `done` gets the error, or None
        when the rename is durable. Raises OSError."""
        name = file_name(self._folder, base)
        self._disk.rename_soon(name + NEW, name, done)
        at = bisect_right(self._bases, base) - 1
        if at >= 0 and self._bases[at] == base:
            self._close(self.all[at])
            self.all[at].end = end
        else:
            self.all.insert(at + 1, Segment(self, base, end))
            self._bases.insert(at + 1, base)

    def drop_first(self) -> None:
        """Delete the oldest segment, which is never the last one. Raises OSError if the file is left; it is not used."""
        name = file_name(self._folder, self.all[0].base)
        self._forget(0)
        self.gaps = [found for found in self.gaps if found.begin >= self.first]
        self._disk.remove(name)

    def _forget(self, index: int) -> None:
        segment = self.all.pop(index)
        del self._bases[index]
        self._unsynced = [other for other in self._unsynced if other is not segment]
        self._close(segment)

    def after(self, position: int) -> int:
        """Position behind the filler or gaps at `position`; `position` itself without any."""
        while True:
            for found in self.gaps:
                if found.begin <= position < found.end:
                    position = found.end
            segment = self.at(position)
            if segment is None:
                return position
            front = segment.file.read(position - segment.base, batch.HEADER_BYTES)
            size = batch.blank(front) or gap_size(batch.header(front, position))
            if not size or position + size != self.follows(segment):
                return position
            position += size

    def walk(self, position: int, whole: bool) -> Iterator[tuple[Header, bytes]]:
        """(header, bytes) of the batches from `position` on, up to the first invalid one, without gaps. Raises OSError.

        whole   True: read the batches and check their CRCs; False: read only headers, with b"" for the bytes
        """
        while True:
            segment = self.at(position)
            at = 0 if segment is None else position - segment.base
            header = None if segment is None else batch.header(segment.file.read(at, batch.HEADER_BYTES), position)
            if segment is None or header is None or header.is_gap:
                before, position = position, self.after(position)
                if position == before:
                    return
                continue
            if position + header.size > segment.end:
                return
            data = segment.file.read(at, header.size) if whole else b""
            if whole and not batch.holds(data, header):
                return
            segment.newest_ms = max(segment.newest_ms, header.written_ms)
            yield header, data
            position += header.size

    def close(self) -> None:
        """Close the files."""
        for segment in list(self._opened):
            self._close(segment)
