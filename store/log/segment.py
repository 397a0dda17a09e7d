"""Segments: a log as files that are named by the position of their first byte; read by position, appended at the end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final, final

from domain.errors import StoreError
from domain.ports import Disk, File
from store.log import batch
from store.log.batch import Header

FOLDER: Final = "log"


@final
class Segment:
    """One file of the log.

    base        position of its first byte
    end         position after its last byte
    file        the open file
    newest_ms   when its last batch was written, in epoch ms; 0 when not known yet
    """

    __slots__ = ("base", "end", "file", "newest_ms")

    def __init__(self, base: int, file: File) -> None:
        self.base = base
        self.end = base + file.size()
        self.file = file
        self.newest_ms = 0


def file_name(folder: str, base: int) -> str:
    """The name of a segment: its base in 20 decimal digits, as RocketMQ names commit-log files."""
    return f"{folder}/{base:020d}"


@final
class Segments:
    """A log as segments that follow each other without gaps. Only the last one is appended to.

    all   the segments, oldest first, never empty
    """

    def __init__(self, disk: Disk, folder: str, start: int = 0) -> None:
        self._disk = disk
        self._folder = folder
        self._unsynced: list[Segment] = []
        names = [name for name in disk.names(folder) if len(name) == 20 and name.isdigit()]
        self.all: list[Segment] = [Segment(int(name), disk.open(f"{folder}/{name}")) for name in names]
        if not self.all:
            self.all.append(Segment(start, disk.open(file_name(folder, start))))
        self._bases = [segment.base for segment in self.all]

    @property
    def first(self) -> int:
        """The lowest position that the log still has."""
        return self._bases[0]

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self.all[-1]

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self.all[-1].end

    def require_whole(self, below: int) -> None:
        """Raise StoreError when bytes below position `below` are missing: they are known to have been durable."""
        for at, segment in enumerate(self.all):
            follows = self.all[at + 1].base if at + 1 < len(self.all) else segment.end
            if segment.base < below and segment.end != follows and segment.end < below:
                raise StoreError(
                    f"{file_name(self._folder, segment.base)} ends at {segment.end}, but {follows} was durable:"
                    " restore the file, or move the data directory away"
                )
        if self.end < below:
            raise StoreError(f"{self._folder} ends at {self.end}, but {below} was durable: restore its last file")

    def append(self, data: bytes) -> None:
        """Append `data` to the last segment. Raises OSError."""
        segment = self.all[-1]
        segment.file.append(data)
        segment.end += len(data)
        if not self._unsynced or self._unsynced[-1] is not segment:
            self._unsynced.append(segment)

    def roll(self) -> None:
        """Begin a new segment at the end of the last one, unless that is empty. Raises OSError."""
        last = self.all[-1]
        if last.end > last.base:
            self.all.append(Segment(last.end, self._disk.open(file_name(self._folder, last.end))))
            self._bases.append(last.end)

    def at(self, position: int) -> Segment | None:
        """The segment that holds `position`; None when it is deleted or not written yet."""
        index = bisect_right(self._bases, position) - 1
        if index < 0 or position >= self.all[index].end:
            return None
        return self.all[index]

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position` on, within one segment; b"" when the log does not have the position."""
        segment = self.at(position)
        return b"" if segment is None else segment.file.read(position - segment.base, size)

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Make everything appended before this call durable, oldest file first. `done` gets the error or None.

        One call at a time.
        """
        todo, self._unsynced = self._unsynced, []

        def step(error: OSError | None) -> None:
            if error is not None or not todo:
                done(error)
            else:
                todo.pop(0).file.sync(step)

        if not todo:
            todo.append(self.all[-1])
        step(None)

    def cut(self, end: int, durable: int) -> None:
        """Cut the log off at position `end`, or at its first byte if that is later. Positions below `durable` are synced."""
        end = max(end, self.first)
        while len(self.all) > 1 and self.all[-1].base > end:
            self._drop(len(self.all) - 1)
        last = self.all[-1]
        if last.end > end:
            last.file.truncate(end - last.base)
            last.end = end
        self._unsynced = [segment for segment in self.all if segment.end > durable]

    def drop_first(self) -> None:
        """Delete the oldest segment. The caller never deletes the last one."""
        self._drop(0)

    def _drop(self, index: int) -> None:
        segment = self.all.pop(index)
        del self._bases[index]
        self._unsynced = [other for other in self._unsynced if other is not segment]
        segment.file.close()
        self._disk.remove(file_name(self._folder, segment.base))

    def walk(self, position: int, whole: bool) -> Iterator[tuple[Header, bytes]]:
        """(header, bytes) of the batches from `position` on, up to the first invalid one.

        `whole` reads the batches and checks their CRCs; without it only headers are read and the bytes are b"". Raises OSError.
        """
        while True:
            segment = self.at(position)
            if segment is None:
                return
            at = position - segment.base
            front = segment.file.read(at, batch.HEADER_BYTES)
            if batch.is_filler(front) and position + batch.FILLER_BYTES == segment.end:
                position = segment.end
                continue
            header = batch.header(front, position)
            if header is None or position + header.size > segment.end:
                return
            data = segment.file.read(at, header.size) if whole else b""
            if whole and not batch.holds(data, header):
                return
            segment.newest_ms = max(segment.newest_ms, header.written_ms)
            yield header, data
            position += header.size

    def date_segments(self, now_ms: int) -> None:
        """Set `newest_ms` of segments that were not walked to the time of the first batch after them, at most `now_ms`."""
        following_ms = now_ms
        for segment in reversed(self.all):
            if segment.newest_ms == 0:
                segment.newest_ms = following_ms
            first = batch.header(segment.file.read(0, batch.HEADER_BYTES), segment.base)
            if first is not None:
                following_ms = first.written_ms

    def oldest_ms(self) -> int:
        """When the oldest batch of the log was written, in epoch ms; 0 when there is none."""
        first = batch.header(self.all[0].file.read(0, batch.HEADER_BYTES), self.first)
        return 0 if first is None else first.written_ms

    def ends_with_filler(self) -> bool:
        """True when the last segment ends with the filler: the next batch needs a new segment."""
        last = self.all[-1]
        return last.file.size() >= batch.FILLER_BYTES and batch.is_filler(
            last.file.read(last.file.size() - batch.FILLER_BYTES, batch.FILLER_BYTES)
        )

    def close(self) -> None:
        """Close the files."""
        for segment in self.all:
            segment.file.close()
