"""The runs on the disk, and the merges of neighbouring ones into longer ones below the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, final

from domain.errors import StoreError
from domain.ports import Clock, Disk
from domain.shortage import is_full
from store.disk_full.errors import NotWrittenError
from store.keys.merge import Merge
from store.keys.run import FOLDER, Run, open_run

SPAN_BYTES: Final = 1 << 32
"""Rows hold positions modulo this, so a chunk or a run never crosses a multiple of it."""
_MERGE_RUNS: Final = 16
"""Neighbouring runs of one level that are merged into one."""
_LEVELS: Final = (1_024, 16_384, 262_144, 4_194_304)
"""Rows of a run of each level, at most."""
_SLICE_NS: Final = 2_000_000
"""Pause between two slices of a merge."""


@final
class KeyRuns:
    """The runs of the key index.

    all           oldest first
    newest        position of the log up to which rows are in runs or sorted chunks
    _unsynced     runs that are written and not yet durable
    _merge        the merge under way of runs into a longer one
    _checkpoint   position of the newest checkpoint: runs before it may be merged
    _closed       True after `close`, and after a failed write: nothing more is written
    """

    def __init__(self, disk: Disk, clock: Clock, failed: Callable[[str, OSError], None]) -> None:
        """`failed(what, error)` is called after a failed write: the store then takes no more writes, or none for a while."""
        self._disk = disk
        self._clock = clock
        self._write_failed = failed
        self.all: list[Run] = []
        self.newest = 0
        self._unsynced: list[Run] = []
        self._merge: Merge | None = None
        self._checkpoint = 0
        self._closed = False

    def files(self, position: int) -> list[tuple[str, int]]:
        """(name, bytes) of the durable runs that end at `position` or before."""
        return [(run.name, run.file.size()) for run in self.all if run.whole and not run.damaged and run.end <= position]

    def attempt(self, step: Callable[[], None]) -> None:
        """Run `step`. An OSError stops the store, or pauses it while the disk is full; damage of a run ends a merge only."""
        if self._closed:
            return
        try:
            step()
        except OSError as error:
            self._abandon()
            self._failed(error)
        except StoreError:
            self._abandon()

    def _failed(self, error: OSError) -> None:
        if not is_full(error):
            self._closed = True
        self._write_failed("a write of the key index", error)

    def later(self, step: Callable[[], None]) -> None:
        """Run `step` by `attempt` after a pause."""
        self._clock.call_at(self._clock.monotonic_ns() + _SLICE_NS, lambda: self.attempt(step))

    def add(self, run: Run) -> None:
        """Add the newest run, whose rows are written and not yet durable."""
        self.all.append(run)
        self._unsynced.append(run)

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Make the runs durable: first the rows, then the footer, which is valid only with all rows."""
        todo, self._unsynced = self._unsynced, []

        def step(error: OSError | None) -> None:
            if error is not None or not todo or self._closed:
                done(error)
            else:
                todo[0].file.sync(seal)

        def seal(error: OSError | None) -> None:
            if error is None and not self._closed:
                try:
                    todo[0].file.append(todo[0].footer())
                except OSError as failed:
                    error = failed
                    if is_full(failed):
                        self._unsynced = todo + self._unsynced  # sealed by the next sync
                        error = NotWrittenError(failed.errno, failed.strerror)
            if error is not None or self._closed:
                done(error)
            else:
                todo[0].file.sync(sealed)

        def sealed(error: OSError | None) -> None:
            if error is None:
                todo.pop(0).whole = True
            step(error)

        step(None)

    def checkpointed(self, position: int) -> None:
        """Merge runs that end before `position`, the newest checkpoint: rows before it are never written again."""
        self._checkpoint = position
        if self._merge is None:
            self.attempt(self._begin)

    def _begin(self) -> None:
        chosen = neighbours(
            [run for run in self.all if run.whole and not run.damaged and run.end <= self._checkpoint], self.newest
        )
        if chosen:
            job = self._merge = Merge(self._disk, chosen)
            self.later(lambda: self._continue(job))

    def _abandon(self) -> None:
        """Give up the merge of runs under way: its sources stay."""
        if self._merge is not None:
            job, self._merge = self._merge, None
            self.remove(job.run)

    def _continue(self, job: Merge) -> None:
        if self._merge is not job:
            return
        if not job.step():
            self.later(lambda: self._continue(job))
            return
        job.run.file.sync(lambda error: self._synced(error, lambda: self._finish_rows(job)))

    def _synced(self, error: OSError | None, step: Callable[[], None]) -> None:
        if self._closed:
            return
        if error is not None:
            self._failed(error)
        else:
            self.attempt(step)

    def _finish_rows(self, job: Merge) -> None:
        if self._merge is not job:
            return
        job.run.file.append(job.run.footer())
        job.run.file.sync(lambda error: self._synced(error, lambda: self._replace(job)))

    def _replace(self, job: Merge) -> None:
        if self._merge is not job:
            return
        job.run.whole = True
        at = next(at for at, run in enumerate(self.all) if run is job.sources[0])
        old = self.all[at : at + len(job.sources)]
        self.all[at : at + len(job.sources)] = [job.run]
        for run in old:
            self.remove(run)
        self._merge = None
        self._begin()

    def remove(self, run: Run) -> None:
        """Close and delete the file of a run, which is not among them any more."""
        run.file.close()
        with suppress(OSError):  # the file is left: nothing reads it, and the next start tries again
            self._disk.remove(run.name)

    def drop_before(self, oldest: int) -> None:
        """KeyIndex.drop_before, of the runs."""
        for run in self.all:
            if run.damaged:
                self._disk.remove(run.name)
        if self._merge is None:
            while self.all and self.all[0].end <= oldest and self.all[0].whole:
                self.remove(self.all.pop(0))

    def load(self, position: int, begin: int) -> int:
        """Open the runs of the checkpoint at `position` that cover the log from `begin` on without a gap; returns their end.

        All others are deleted. Raises OSError.
        """
        for run in sorted(_open_runs(self._disk, position), key=lambda run: (run.begin, -run.end)):
            if run.end > begin >= run.begin:
                self.all.append(run)
                begin = run.end
            else:
                self.remove(run)
        self._checkpoint = position
        return begin

    def close(self) -> None:
        """Close the files of all runs."""
        self._closed = True
        for run in self.all:
            run.file.close()
        if self._merge is not None:
            self._merge.run.file.close()


def _open_runs(disk: Disk, position: int) -> list[Run]:
    """The runs on the disk that end at `position` or before; deletes all other files of the folder."""
    found: list[Run] = []
    for name in disk.names(FOLDER):
        file = disk.open(f"{FOLDER}/{name}")
        run = open_run(f"{FOLDER}/{name}", file)
        if run is not None and run.end <= position:
            found.append(run)
        else:
            file.close()
            disk.remove(f"{FOLDER}/{name}")
    return found


def neighbours(runs: Sequence[Run], newest: int) -> Sequence[Run]:
    """Neighbouring runs that are worth merging: sixteen of one level or below, or two in a span that is complete.

    `newest` is the end of the log. The merged run stays within one span, and within the size of the highest level.
    """
    for level in range(len(_LEVELS)):
        for at in range(len(runs)):
            count, end = 0, at
            span = runs[at].begin // SPAN_BYTES
            while end < len(runs) and runs[end].begin // SPAN_BYTES == span and runs[end].count <= _LEVELS[level]:
                count += runs[end].count
                if count > _LEVELS[-1] * _MERGE_RUNS or (end > at and runs[end].begin != runs[end - 1].end):
                    break
                end += 1
            if end - at >= (_MERGE_RUNS if span == newest // SPAN_BYTES else 2):
                return runs[at:end]
    return ()
