"""Repair of a data directory that no node has open: unreadable parts are set aside, and the node then serves the rest.

    a damaged segment      is copied to the folder of this repair; a gap replaces the bad part, and the part behind it becomes
                           a separate segment, so that all positions stay the same
    a missing segment      becomes a gap
    index and checkpoints  are set aside; the next start builds them again from the log

Each step leaves a log that is no worse than before: an interrupted repair can be repeated. The log then has another identity,
because it can no longer prove all that it has acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, final

from domain.errors import StoreError
from domain.ports import Disk
from domain.set_aside import ASIDE
from store.checkpoint import points as checkpoints
from store.log import batch, promise
from store.log.copying import COPY_BYTES, salvaged, write_copy
from store.log.promise import Promise
from store.log.segment import FOLDER, Segments, file_name
from store.log.survey import Stretch
from store.offline.check import Check, CheckFinding, LogState, Progress, Severity, log_segments, survey


class Repaired(NamedTuple):
    """The result of a repair.

    done      a sentence for each step
    records   records that were set aside, at most
    folder    the folder with the damaged files, "" when nothing was set aside
    """

    done: list[str]
    records: int
    size: int
    folder: str


@final
class Repair:
    """One repair of a data directory."""

    def __init__(self, disk: Disk, name: str, incarnation: int, progress: Progress) -> None:
        """`name` of the folder in `set-aside`; `incarnation` is the log's new identity, 1 to 2^63 - 1."""
        self._disk = disk
        self._folder = f"{ASIDE}/{name}"
        self._incarnation = incarnation
        self._progress = progress
        self._done: list[str] = []

    def run(self) -> Repaired:
        """Repair the findings of a check. Raises OSError, StoreError."""
        findings = Check(self._disk, self._progress).run()
        self._derived(findings)
        records = size = 0
        if any(found.severity is Severity.DAMAGE for found in findings):
            records, size = self._log()
        return Repaired(self._done, records, size, self._folder if self._done else "")

    def _derived(self, findings: list[CheckFinding]) -> None:
        parts = {found.part for found in findings if found.severity is Severity.REBUILT}
        for found in findings:
            if found.severity is Severity.REBUILT and found.part == "keys":
                self._aside(found.file, "the next start makes it again")
        if parts & {"index", "checkpoint"}:
            for name in self._disk.names(checkpoints.FOLDER):
                self._aside(f"{checkpoints.FOLDER}/{name}", "the next start reads the whole log and makes the index again")

    def _aside(self, name: str, why: str) -> None:
        if self._disk.size(name) >= 0:
            self._disk.rename(name, f"{self._folder}/{name}")
            self._done.append(f"{name} is set aside: {why}")

    def _log(self) -> tuple[int, int]:
        """Replace the bad parts of the log by gaps; (records, bytes) that are lost."""
        before = promise.newest(self._disk)[1]
        segments = log_segments(self._disk)
        if segments is None:
            segments = Segments(self._disk, FOLDER, 0 if before is None else before.first)
        try:
            state = survey(self._disk, segments, self._progress)
        finally:
            segments.close()
        bad = _whole(state)
        mark = Promise(0, 0, 0, segments.first) if before is None else before
        mark = mark._replace(position=state.bound, incarnation=self._incarnation, store_ms=max(mark.store_ms, state.store_ms))
        promise.write(self._disk, mark)  # until the last gap stands, the log is refused
        for stretch in reversed(bad):
            self._replace(stretch, state.times[stretch.begin])
        records, size = sum(each.records for each in bad), sum(each.end - each.begin for each in bad)
        mark = mark._replace(
            position=state.flushed, lost_records=mark.lost_records + records, lost_bytes=mark.lost_bytes + size
        )
        promise.write(self._disk, mark)
        self._done.append("promise: a new mark, and a new identity of the log")
        return records, size

    def _replace(self, bad: Stretch, store_ms: int) -> None:
        segments = Segments(self._disk, FOLDER, bad.begin)
        try:
            self._keep_what_follows(segments, bad)
            first = segments.around(bad.begin)
            inside = first is not None and (first.base == bad.begin or bad.begin < first.base + first.file.size())
            base = first.base if inside and first is not None else bad.begin
            inner = [segment.base for segment in segments.all if base < segment.base < bad.end]
            if inside and first is not None and first.file.size():
                self._copy(segments, base, base, base + first.file.size(), self._kept(base))
            size = bad.end - bad.begin
            writer = batch.Writer(0, self._incarnation)
            if size >= batch.HEADER_BYTES:
                head = batch.gap(size, bad.begin, store_ms, bad.records, writer)
            else:
                head = size.to_bytes(4, "big") + batch.FILLER[4:]
            for each in inner:
                self._disk.rename(file_name(FOLDER, each), self._kept(each))
            self._copy(segments, base, base, bad.begin, file_name(FOLDER, base), head)
        finally:
            segments.close()
        self._done.append(f"{bad}; a gap stands in its place")

    def _keep_what_follows(self, segments: Segments, bad: Stretch) -> None:
        """Let a segment begin behind the bad part: with the good bytes that follow it in its file, or an empty one."""
        name = file_name(FOLDER, bad.end)
        if self._disk.size(name) >= 0:
            return
        segment = segments.around(bad.end)
        if segment is None:
            self._copy(segments, -1, bad.end, bad.end, name)
            return
        end = segment.base + segment.file.size()
        if segment is not segments.active:
            end = min(end, segments.follows(segment))
        self._copy(segments, segment.base, bad.end, end, name)

    def _kept(self, base: int) -> str:
        return f"{self._folder}/{file_name(FOLDER, base)}"

    def _copy(self, segments: Segments, base: int, begin: int, end: int, name: str, tail: bytes = b"") -> None:
        """Write the bytes from `begin` to `end` of the segment at `base`, and `tail`, to a file; durable on return."""
        source = next((segment for segment in segments.all if segment.base == base), None)

        def parts() -> Iterator[bytes]:
            for at in range(begin, end, COPY_BYTES):
                size = min(COPY_BYTES, end - at)
                data = b"" if source is None else salvaged(source.file.read, at - base, size)
                yield data + bytes(size - len(data))
            if tail:
                yield tail

        write_copy(self._disk, name, parts())


def _whole(state: LogState) -> list[Stretch]:
    """The bad parts that were promised, those that touch joined, over files too."""
    whole: list[Stretch] = []
    for each in state.bad:
        if each.begin >= state.bound:
            continue
        if whole and whole[-1].end == each.begin:
            last = whole[-1]
            whole[-1] = last._replace(end=each.end, records=last.records + each.records, exact=last.exact and each.exact)
        else:
            whole.append(each)
    for each in whole:
        if each.end - each.begin < batch.FILLER_BYTES:
            raise StoreError(f"{each}: the part is too short for a repair; restore the file from a backup", each.file)
    return whole
