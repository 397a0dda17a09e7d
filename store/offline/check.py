"""Checks a data directory that no node has open: log, promise mark, checkpoints, snapshots, queue index and key index.

It writes nothing. Memory is bounded by one batch and one block.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, final

from domain.errors import StoreError
from domain.ports import Disk
from domain.topic import lite
from store.checkpoint import points as checkpoints
from store.keys import run
from store.keys.runs import SPAN_BYTES
from store.log import batch, promise
from store.log.promise import Promise
from store.log.segment import FOLDER, Segments, is_left
from store.log.segment_ends import find_gaps, writer_of
from store.log.survey import LogSurvey, Stretch
from store.queue import block
from store.queue.block_files import FOLDER as INDEX_FOLDER
from store.queue.row import ROW

Progress = Callable[[str, int, int], None]
"""(part, bytes done, bytes in all), called about once a megabyte."""
REPAIR: Final = "headgate repair sets it aside; the node then serves all the rest"
REBUILD: Final = "headgate repair sets it aside; the next start makes it again from the log"
_STEP_BYTES: Final = 1024 * 1024
_FRONT_BYTES: Final = 28
_READ_ROWS: Final = 8_192


class Severity(enum.Enum):
    """Severity of a finding. The value is its name in output."""

    DAMAGE = "damage"
    """Damage of the promised part, or a node that does not start: a repair is needed."""
    REBUILT = "rebuilt"
    """Damage of files that can be built again from the log."""
    NOTE = "note"
    """Information: the operator has nothing to do."""


class CheckFinding(NamedTuple):
    """One finding.

    part       log, promise, checkpoint, snapshot, index or keys
    file       name within the data directory
    end        byte after the last one
    records    number of records that it concerns; -1 when that is unknown or does not apply
    exact      False when `records` is the most that there can be
    remedy     advice to the operator, or the work of the next start
    """

    severity: Severity
    part: str
    file: str
    begin: int
    end: int
    records: int
    exact: bool
    cause: str
    remedy: str


class LogState(NamedTuple):
    """The result of the survey of a log.

    proven     position below which the log is known to have been durable
    flushed    position below which the log was flushed by the headers of good batches, or `proven`
    bound      end of the promised part: `flushed`, or the last good batch of version 1
    bad        bad parts, neighbours joined
    times      begin of a bad part -> store time of the good batch before it
    """

    promise: Promise | None
    proven: int
    flushed: int
    bound: int
    bad: list[Stretch]
    end: int
    store_ms: int
    times: dict[int, int]


def log_segments(disk: Disk) -> Segments | None:
    """The files of the log; None when there is none. Nothing is created."""
    mark = promise.newest(disk)[1]
    first = 0 if mark is None else mark.first
    names = [name for name in disk.names(FOLDER) if len(name) == 20 and name.isdigit()]
    if all(is_left(disk, FOLDER, name, first) for name in names):
        return None
    segments = Segments(disk, FOLDER, first, first)
    find_gaps(segments)
    return segments


def survey(disk: Disk, segments: Segments, progress: Progress) -> LogState:
    """Read the whole log. Raises OSError."""
    _, mark, _ = promise.newest(disk)
    proven = max(checkpoints.poll(disk)[0].position, 0 if mark is None else mark.position)
    writers = [writer_of(segment) for segment in segments.all]
    reader = LogSurvey(segments, mark.incarnation if mark is not None else max(writers[-1], 0))
    first = segments.first if mark is None else min(mark.first, segments.first)
    bad: list[Stretch] = []
    reported = end = first
    store_ms = 0
    times: dict[int, int] = {}
    for found in reader.run(first, proven):
        if isinstance(found, Stretch):
            bad.append(found)
            times[found.begin] = store_ms
            end = found.end
        else:
            end = found.position + found.size
            store_ms = max(store_ms, found.written_ms)
        if end - reported >= _STEP_BYTES:
            reported = end
            progress(FOLDER, end - first, segments.end - first)
    flushed = max(proven, reader.flushed)
    bound = max(flushed, reader.last_v1)
    return LogState(mark, proven, flushed, bound, list(joined(bad)), segments.end, store_ms, times)


def joined(bad: list[Stretch]) -> Iterator[Stretch]:
    """Join bad parts that touch and belong to one file; the numbers of their records are added up."""
    last: Stretch | None = None
    for each in bad:
        if last is not None and last.end == each.begin and last.base == each.base:
            last = last._replace(end=each.end, records=last.records + each.records, exact=last.exact and each.exact)
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last


@final
class Check:
    """One check of a data directory."""

    def __init__(self, disk: Disk, progress: Progress) -> None:
        self._disk = disk
        self._progress = progress
        self._lost: list[tuple[int, int]] = []
        self._segments: Segments | None = None
        self._point = checkpoints.NONE

    def run(self) -> list[CheckFinding]:
        """All findings. Raises OSError."""
        return [*self._log(), *self._checkpoints(), *self._index(), *self._keys()]

    def _log(self) -> Iterator[CheckFinding]:
        segments = self._segments = log_segments(self._disk)
        _, mark, _ = promise.newest(self._disk)
        if segments is None:
            if mark is not None and mark.position > mark.first:
                size = mark.position - mark.first
                most = size // batch.RECORD_BYTES_MIN
                yield CheckFinding(
                    Severity.DAMAGE, "log", FOLDER, 0, size, most, False, "all files of the log are missing", REPAIR
                )
            return
        state = survey(self._disk, segments, self._progress)
        if mark is None and any(writer_of(segment) > 0 for segment in segments.all):
            cause = "no valid mark tells how far the log has to reach"
            yield CheckFinding(
                Severity.DAMAGE, "promise", f"{promise.FOLDER}/0", 0, 0, -1, False, cause, "headgate repair makes one"
            )
        for name in segments.left:
            cause, remedy = "it was deleted, and a failure has brought it back", "nothing: the next start deletes it"
            size = max(self._disk.size(name), 0)
            yield CheckFinding(Severity.NOTE, "log", name, 0, size, -1, False, cause, remedy)
        for each in state.bad:
            promised = each.begin < state.bound
            remedy = REPAIR if promised else "nothing: it had not been flushed, and the next start cuts it off"
            severity = Severity.DAMAGE if promised else Severity.NOTE
            begin, end = each.begin - each.base, each.end - each.base
            yield CheckFinding(severity, "log", each.file, begin, end, each.records, each.exact, each.reason, remedy)
            self._lost.append((each.begin, each.end))
        for gap in segments.gaps:
            self._lost.append((gap.begin, gap.end))
            segment = segments.around(gap.begin)
            base = gap.begin if segment is None else segment.base
            name = f"{FOLDER}/{base:020d}"
            cause = "records that an earlier repair has set aside"
            yield CheckFinding(
                Severity.NOTE, "log", name, gap.begin - base, gap.end - base, gap.records, False, cause, "nothing"
            )

    def _checkpoints(self) -> Iterator[CheckFinding]:
        self._point, faults = checkpoints.poll(self._disk)
        for file, fault in faults:
            size = max(self._disk.size(file), 0)
            yield CheckFinding(Severity.REBUILT, "checkpoint", file, 0, size, -1, False, fault, REBUILD)

    def _index(self) -> Iterator[CheckFinding]:
        stop = self._point.index_end
        if not stop:
            return
        files = Segments(self._disk, INDEX_FOLDER) if self._disk.names(INDEX_FOLDER) else None
        place = reported = first = self._point.index_first
        while place < stop:
            segment = None if files is None else files.at(place)
            if files is None or segment is None:
                cause = "the file is missing, or too short"
                yield CheckFinding(Severity.REBUILT, "index", f"{INDEX_FOLDER}/{place:020d}", 0, 0, -1, False, cause, REBUILD)
                return
            name, at = f"{INDEX_FOLDER}/{segment.base:020d}", place - segment.base
            found = block.header(files.read(place, block.HEADER_BYTES + block.NAME_BYTES_MAX))
            if found is None or place + found.size > segment.end:
                cause = "no block begins where one is expected"
                yield CheckFinding(Severity.REBUILT, "index", name, at, segment.end - segment.base, -1, False, cause, REBUILD)
                return
            wrong = self._wrong_row(files, place, found)
            if wrong:
                yield CheckFinding(Severity.REBUILT, "index", name, at, at + found.size, found.count, False, wrong, REBUILD)
            place += found.size
            if place - reported >= _STEP_BYTES:
                reported = place
                self._progress(INDEX_FOLDER, place - first, stop - first)

    def _wrong_row(self, files: Segments, place: int, found: block.Block) -> str:
        """Fault of the rows of a block: each must name a record of the log, or one that is deleted or lost."""
        log = self._segments
        if found.lost or log is None:
            return ""
        groups = -(-found.count // block.GROUP_ROWS)
        rows = block.rows_of(files.read(place + found.rows_at, found.size - found.rows_at), groups)
        if rows is None:
            return "a checksum of its rows is wrong"
        is_lite = bool(lite.split(found.topic)[1])
        for number, (position, size, _, _) in enumerate(ROW.iter_unpack(rows)):
            if position < log.first or self._is_lost(position):
                continue
            front = log.read(position, _FRONT_BYTES)
            fits = len(front) == _FRONT_BYTES and int.from_bytes(front[:4], "big") == size
            if not fits or not (is_lite or int.from_bytes(front[20:28], "big") == found.first + number):
                return f"the row of {found.topic} queue {found.queue_id} offset {found.first + number} names no record of it"
        return ""

    def _is_lost(self, position: int) -> bool:
        return any(begin <= position < end for begin, end in self._lost)

    def _keys(self) -> Iterator[CheckFinding]:
        names = self._disk.names(run.FOLDER)
        for number, name in enumerate(names):
            path = f"{run.FOLDER}/{name}"
            file = self._disk.open(path)
            try:
                found = run.open_run(path, file)
                _, _, end = name.partition("-")
                if found is not None:
                    wrong = _wrong_keys(found)
                elif end.isdigit() and int(end) <= self._point.position:
                    wrong = "it is not whole"
                else:
                    wrong = ""  # it was being written when the node ended; the next start makes it again
                if wrong:
                    yield CheckFinding(Severity.REBUILT, "keys", path, 0, file.size(), -1, False, wrong, REBUILD)
            finally:
                file.close()
            self._progress(run.FOLDER, number + 1, len(names))


def _wrong_keys(found: run.Run) -> str:
    """Fault of the rows of a run: each must be in order, and within the run's part of the log. "" for none."""
    last = -1
    low, high = found.begin % SPAN_BYTES, (found.end - 1) % SPAN_BYTES
    for at in range(0, found.count, _READ_ROWS):
        try:
            rows = found.rows(at, _READ_ROWS)
        except StoreError as error:
            return str(error)
        for number, row in enumerate(rows):
            if row < last or not low <= row & 0xFFFFFFFF <= high:
                return f"row {at + number} is out of order"
            last = row
    return ""
