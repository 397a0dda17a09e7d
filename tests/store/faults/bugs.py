"""Bugs that the store once had, put back one at a time: the checker has to find each within a stated number of seeds.

    python -m tests.store.faults.bugs NAME [SEEDS]    the first seed that finds it, and what the checker says; -1 when none does

Only pure modules can be patched: run with HEADGATE_PURE=1, in a process of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from domain.errors import Failure, StoreError
from domain.store_ports import StateChange
from store import derived
from store.checkpoint import checkpointer
from store.checkpoint import points as checkpoints
from store.checkpoint.checkpointer import Checkpointer
from store.checkpoint.points import Point
from store.checkpoint.recovery import LogRecovery
from store.effects import StateEffects
from store.events import StoreEvents
from store.lease.call import LeaseCall
from store.log.commit import GroupCommit
from store.log.segment import Segments
from store.queue.row import Row
from store.state.metadata import Catalogue
from store.state.view import DROPPED, LEASE, TOPIC, failure_only
from tests.store.faults.flips import flips
from tests.store.faults.lives import live
from tests.store.faults.run import check_checkpoints
from tests.store.faults.work import busy, script


def _deletion_first() -> None:
    def delete_topic(self: Any, name: str, done: Callable[[None | Failure], None]) -> None:
        changes = self._drop_topic(name)
        self._append([StateChange(TOPIC, name.encode(), None), *changes], failure_only(done))

    Catalogue.delete_topic = delete_topic  # type: ignore[method-assign]


def _damage_is_a_torn_tail() -> None:
    LogRecovery._refuse_damage = lambda self, end, proven: 0  # type: ignore[method-assign]
    LogRecovery._require_files = lambda self, proven: self._segments.find_gaps()  # type: ignore[method-assign]


class EscapedError(Exception):
    """An error of a reader that nobody on its way expects: those that are expected are answered by now."""


def _errors_of_readers_escape() -> None:
    def run(self: Any, what: str, call: Callable[..., None], *arguments: Any) -> None:
        call(*arguments)

    def read(self: Any, rows: Sequence[Row]) -> list[bytes]:
        try:
            found: list[bytes] = self._source.records(rows)
        except (OSError, StoreError) as error:
            raise EscapedError(f"the effects of a sync are ended by {error}") from error
        return found

    StoreEvents.run = run  # type: ignore[method-assign]
    LeaseCall._readable = read  # type: ignore[method-assign]


def _snapshot_before_the_log() -> None:
    """Snapshots are written often, and are not held back until the log is durable up to their values."""
    checkpointer._SNAPSHOT_BYTES_MIN = 1  # type: ignore[misc]
    write, finish = Checkpointer._snapshot, Checkpointer._finish

    def snapshot(self: Any, state: int, stands: int) -> None:
        self._commit = _Impatient(self._commit)
        write(self, state, stands)

    def finished(self: Any, point: Point) -> None:
        if isinstance(self._commit, _Impatient):
            self._commit = self._commit.own
        finish(self, point)

    Checkpointer._snapshot = snapshot  # type: ignore[method-assign]
    Checkpointer._finish = finished  # type: ignore[method-assign]


class _Impatient:
    """A GroupCommit that says all is written and synced."""

    def __init__(self, commit: GroupCommit) -> None:
        self.own = commit

    @property
    def end(self) -> int:
        return self.own.written

    def when_synced(self, done: Callable[[], None]) -> None:
        done()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


def _checkpoint_behind_a_torn_one() -> None:
    """A checkpoint takes the number of a torn one, and its file; the only good one is deleted without a look at the new one."""
    derived.set_aside = lambda disk, name: None

    def finish(self: Any, point: Point) -> None:
        point = point._replace(serial=self.last.serial + 1)
        file = self._disk.open(f"{checkpoints.FOLDER}/{point.serial:020d}")
        file.append(checkpoints.encode(point))

        def synced(error: OSError | None) -> None:
            file.close()
            if error is not None:
                self._commit.stop("a sync of the checkpoint", error)
                return
            self.last, self.older = point, checkpoints.NONE
            self._clean()
            self._running = self._snapshot_wanted = False
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter()

        file.sync(synced)

    Checkpointer._finish = finish  # type: ignore[method-assign]


def _unproven_is_built_upon() -> None:
    Segments.renew = lambda self, proven: None  # type: ignore[method-assign]


def _a_deletion_is_read_twice() -> None:
    def recovered(self: Any, item: StateChange, base: int) -> None:
        if item.space == LEASE:
            self._ledger.apply(item, base)
            return
        self._apply(item, base)
        if item.space == DROPPED and item.value is not None:
            topic = item.key.decode()
            self._index.drop_topic(topic, int(item.value.split(b" ")[0]))

    StateEffects.recovered = recovered  # type: ignore[method-assign]


def _while_busy(seed: int) -> None:
    check_checkpoints(seed, busy)


def _in_script(seed: int) -> None:
    check_checkpoints(seed, script)


class Bug(NamedTuple):
    """One bug. `find(seed)` raises when a run with that seed finds it; `seeds` is how many are enough."""

    what: str
    put_back: Callable[[], None]
    find: Callable[[int], None]
    seeds: int


BUGS: Final = {
    "deletion-first": Bug("a refused deletion of a topic has forgotten its queues", _deletion_first, live, 60),
    "damage-is-a-tail": Bug("recovery cuts the log at a wrong bit or a missing file", _damage_is_a_torn_tail, flips, 4),
    "errors-escape": Bug("an unreadable record ends the effects of a sync", _errors_of_readers_escape, live, 60),
    "snapshot-ahead": Bug(
        "a snapshot is published before the log behind its values is synced",
        _snapshot_before_the_log,
        _while_busy,
        8,
    ),
    "unproven": Bug("after a failed sync the next process builds upon the same pages", _unproven_is_built_upon, live, 60),
    "torn-checkpoint": Bug("a checkpoint is appended to a torn one", _checkpoint_behind_a_torn_one, _in_script, 8),
    "deletion-twice": Bug("a deletion that retention has copied drops the new topic", _a_deletion_is_read_twice, live, 60),
}


def found(bug: Bug, seeds: int) -> tuple[int, str]:
    """The first seed that finds the bug, which is put back, and what the checker says; (-1, "") when none does."""
    bug.put_back()
    for seed in range(seeds):
        try:
            bug.find(seed)
        except (AssertionError, EscapedError) as error:
            return seed, str(error)
    return -1, ""


if __name__ == "__main__":
    name = sys.argv[1]
    seed, said = found(BUGS[name], int(sys.argv[2]) if len(sys.argv) > 2 else BUGS[name].seeds)
    print(f"{seed} {said}")
