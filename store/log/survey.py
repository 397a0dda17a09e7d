"""Survey of a log that may be damaged: it continues behind a bad batch, and reports the unreadable parts.

The next batch is found by its magic, position, CRC and incarnation. Clients never see the incarnation: no message can imitate a
batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, final

from domain.errors import StoreError, lacks_descriptor
from store.log import batch
from store.log.batch import Header
from store.log.segment import FOLDER, Segment, Segments, file_name

_WINDOW_BYTES: Final = 1024 * 1024
_NAMED: Final = 3
"""Number of bad parts that an error names."""


class Stretch(NamedTuple):
    """A part of the log that cannot be read.

    base      base of its segment; the file may be missing
    records   number of its records; with `exact` False, an upper bound
    """

    base: int
    begin: int
    end: int
    records: int
    exact: bool
    reason: str

    @property
    def file(self) -> str:
        """Name of its file within the data directory."""
        return file_name(FOLDER, self.base)

    def __str__(self) -> str:
        """File, range within the file, records, reason."""
        number = f"{self.records:,}" if self.exact else f"at most {self.records:,}"
        begin, end = self.begin - self.base, self.end - self.base
        return f"{self.file} bytes {begin:,} to {end:,} ({number} records): {self.reason}"


class DamageError(StoreError):
    """Damage of the promised part of the log.

    stretches   the damaged parts, in log order; empty when only the promise mark is missing
    """

    repairable = True

    def __init__(self, text: str, file: str, stretches: list[Stretch]) -> None:
        super().__init__(f"what was promised is damaged: {text}", file)
        self.stretches = stretches


def damage(stretches: list[Stretch]) -> DamageError:
    """Error that names the first of `stretches`, which are not empty."""
    text = "; ".join(map(str, stretches[:_NAMED]))
    if len(stretches) > _NAMED:
        text += f"; and {len(stretches) - _NAMED} more"
    return DamageError(text, stretches[0].file, stretches)


@final
class LogSurvey:
    """One pass over a log.

    flushed       highest flushed position in the headers of good batches of this incarnation
    last_v1       position behind the newest good batch of version 1
    """

    def __init__(self, segments: Segments, incarnation: int) -> None:
        """`incarnation`: of the log, from its promise mark; 0 without one."""
        self._segments = segments
        self._incarnation = incarnation
        self._known = {incarnation} if incarnation else set[int]()
        self._seen_v2 = False
        self.flushed = 0
        self.good = 0
        self.good_records = 0
        self.last_v1 = 0
        for segment in segments.all:
            first = _header_at(segment, segment.base)
            if first is not None and first.version == 2:
                self._known.add(first.incarnation)

    def run(self, position: int, end: int) -> Iterator[Header | Stretch]:
        """Good batches, gaps and bad parts from `position` on, in log order, to the end of the log and at least to `end`.

        Raises StoreError at a batch of a later format version.
        """
        segments = self._segments
        position = segments.after(position)
        while True:
            position = self._behind_blank(position)
            segment = segments.at(position)
            if segment is None:
                stretch = self._missing(position, end)
                if stretch is None:
                    return
                yield stretch
                position = stretch.end
                continue
            found = _header_at(segment, position)
            if found is not None and found.is_gap and position + found.size == segments.follows(segment):
                yield found
                position += found.size
                continue
            if found is None:
                self._refuse_later(segment, position)
            reason = "no batch begins where one is expected"
            if found is not None and not found.is_gap and position + found.size <= segment.end:
                data = _read(segment, position, found.size)
                if batch.holds(data, found):
                    self._note(found)
                    yield found
                    position += found.size
                    continue
                reason = "a checksum is wrong" if len(data) == found.size else "the disk cannot read it"
                if found.version == 2:
                    yield Stretch(segment.base, position, position + found.size, found.count, True, reason)
                    position += found.size
                    continue
            elif found is not None and not found.is_gap:
                reason = "a batch is cut off"
            stretch = self._bad(segment, position, found, reason)
            yield stretch
            position = stretch.end

    def _refuse_later(self, segment: Segment, position: int) -> None:
        """Raise StoreError for a batch of a later format version: it is no damage, and must not be cut or set aside."""
        version = batch.later_version(_read(segment, position, batch.LATER_HEADER_BYTES_MAX), position)
        if version:
            name = file_name(FOLDER, segment.base)
            text = f"{name} has at byte {position - segment.base:,} a batch of format version {version}"
            raise StoreError(
                f"{text}, which a later version of Headgate has written: start that one. Nothing was changed", name
            )

    def _behind_blank(self, position: int) -> int:
        segment = self._segments.at(position)
        size = 0 if segment is None else batch.blank(_read(segment, position, batch.FILLER_BYTES))
        return position + size if segment is not None and position + size == self._segments.follows(segment) else position

    def missing(self, begin: int, end: int) -> Stretch:
        """Stretch from `begin` to `end`, which no file has."""
        base, reason = begin, "the file is missing"
        for segment in self._segments.all:
            if segment.base <= begin and not _ends_a_file(segment, begin):
                base, reason = segment.base, "the file is too short"
            elif segment.base <= begin:
                base, reason = begin, "the file is missing"
        return Stretch(base, begin, end, _most(end - begin), False, reason)

    def _missing(self, position: int, end: int) -> Stretch | None:
        """Stretch from `position` to the next segment, or to `end`; None when nothing is missing there."""
        following = next((segment.base for segment in self._segments.all if segment.base > position), end)
        return self.missing(position, following) if position < following else None

    def _bad(self, segment: Segment, position: int, found: Header | None, reason: str) -> Stretch:
        stop = self._search(segment, position + 1)
        if found is not None and found.version == 2 and not found.is_gap:
            behind = position + found.size
            if behind == stop or (stop == segment.end and behind >= self._segments.follows(segment) - batch.FILLER_BYTES):
                return Stretch(segment.base, position, stop, found.count, True, reason)
        return Stretch(segment.base, position, stop, _most(stop - position), False, reason)

    def _search(self, segment: Segment, position: int) -> int:
        while position < segment.end:
            data = _read(segment, position, _WINDOW_BYTES + batch.HEADER_BYTES)
            at = data.find(batch.MAGIC_BYTES, 4)
            while at >= 0 and at - 4 < _WINDOW_BYTES:
                place = position + at - 4
                found = _header_at(segment, place)
                if found is not None and self._is_ours(segment, found):
                    return place
                at = data.find(batch.MAGIC_BYTES, at + 1)
            position += _WINDOW_BYTES
        return segment.end

    def _is_ours(self, segment: Segment, found: Header) -> bool:
        if found.version == 2:
            return found.incarnation in self._known
        if self._seen_v2 or found.position + found.size > segment.end:
            return False
        return batch.holds(_read(segment, found.position, found.size), found)

    def _note(self, found: Header) -> None:
        self.good += 1
        self.good_records += found.count
        if found.version == 1:
            self.last_v1 = found.position + found.size
            return
        self._seen_v2 = True
        self._known.add(found.incarnation)
        if found.incarnation == self._incarnation:
            self.flushed = max(self.flushed, found.flushed)


def _header_at(segment: Segment, position: int) -> Header | None:
    return batch.header(_read(segment, position, batch.HEADER_BYTES), position)


def _read(segment: Segment, position: int, size: int) -> bytes:
    """At most `size` bytes of `segment`; fewer at its end, b"" after a read error. Raises OSError without a file descriptor."""
    try:
        return segment.file.read(position - segment.base, min(size, segment.end - position))
    except OSError as error:
        if lacks_descriptor(error):
            raise
        return b""


def _most(size: int) -> int:
    return size // batch.RECORD_BYTES_MIN


def _ends_a_file(segment: Segment, position: int) -> bool:
    """True when a filler ends the file of `segment` at `position`: the next batch is in another file."""
    at = position - batch.FILLER_BYTES
    return at >= segment.base and segment.end == position and batch.is_filler(_read(segment, at, batch.FILLER_BYTES))
