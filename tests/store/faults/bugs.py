"""Bugs that the store once had, which the checker has to find when they are put back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from domain.errors import Failure, StoreError
from domain.store.store_ports import StateChange
from store.appends.effects import StateEffects
from store.checkpoint import checkpointer, derived_damage
from store.checkpoint import points as checkpoints
from store.checkpoint.checkpointer import Checkpointer
from store.checkpoint.points import Point
from store.checkpoint.recovery import LogRecovery
from store.events import StoreEvents
from store.lease.call import LeaseCall
from store.log.commit import GroupCommit
from store.log.segment import Segments
from store.log.segment_ends import find_gaps
from store.queue.row import Row
from store.state.metadata import Catalogue
from store.state.view import DROPPED, LEASE, TOPIC, failure_only
from tests.simulation.kit.bugs import Bugs, Patch
from tests.store.faults.flips import flips
from tests.store.faults.lives import live
from tests.store.faults.run import check_checkpoints
from tests.store.faults.work import busy, script

BUGS: Final = Bugs()


@BUGS.found_by(live, 60)
def deletion_first(patch: Patch) -> None:
    """A refused deletion of a topic has forgotten its queues."""

    def delete_topic(self: Any, name: str, done: Callable[[None | Failure], None]) -> None:
        changes = self._drop_topic(name)
        self._append([StateChange(TOPIC, name.encode(), None), *changes], failure_only(done))

    patch.setattr(Catalogue, "delete_topic", delete_topic)


@BUGS.found_by(flips, 4)
def damage_is_a_tail(patch: Patch) -> None:
    """Recovery cuts the log at a wrong bit or a missing file."""
    patch.setattr(LogRecovery, "_refuse_damage", lambda self, end, proven: 0)
    patch.setattr(LogRecovery, "_require_files", lambda self, proven: find_gaps(self._segments))


@BUGS.found_by(live, 60)
def errors_escape(patch: Patch) -> None:
    """An unreadable record ends the effects of a sync."""

    def run(self: Any, what: str, call: Callable[..., None], *arguments: Any) -> None:
        call(*arguments)

    def read(self: Any, rows: Sequence[Row]) -> list[bytes]:
        try:
            found: list[bytes] = self._source.records(rows)
        except (OSError, StoreError) as error:
            raise AssertionError(f"the effects of a sync are ended by {error}") from error
        return found

    patch.setattr(StoreEvents, "run", run)
    patch.setattr(LeaseCall, "_readable", read)


@BUGS.found_by(partial(check_checkpoints, load=busy), 8)
def snapshot_ahead(patch: Patch) -> None:
    """A snapshot is published before the log behind its values is synced."""
    patch.setattr(checkpointer, "_SNAPSHOT_BYTES_MIN", 1)
    write, finish = Checkpointer._snapshot, Checkpointer._finish

    def snapshot(self: Any, state: int, stands: int) -> None:
        self._commit = _Impatient(self._commit)
        write(self, state, stands)

    def finished(self: Any, point: Point) -> None:
        if isinstance(self._commit, _Impatient):
            self._commit = self._commit.own
        finish(self, point)

    patch.setattr(Checkpointer, "_snapshot", snapshot)
    patch.setattr(Checkpointer, "_finish", finished)


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


@BUGS.found_by(partial(check_checkpoints, load=script), 8)
def torn_checkpoint(patch: Patch) -> None:
    """A checkpoint is appended to a torn one."""
    patch.setattr(derived_damage, "set_aside", lambda disk, name: None)

    def finish(self: Any, point: Point) -> None:
        point = point._replace(serial=self.last.serial + 1)
        file = self._disk.open(f"{checkpoints.FOLDER}/{point.serial:020d}")
        file.append(checkpoints.encode(point))

        def synced(error: OSError | None) -> None:
            file.close()
            if error is not None:
                self._commit.faults.stop("a sync of the checkpoint", error)
                return
            self.last, self.older = point, checkpoints.NONE
            self._clean()
            self._running = self._snapshot_wanted = False
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter()

        file.sync(synced)

    patch.setattr(Checkpointer, "_finish", finish)


@BUGS.found_by(live, 60)
def unproven(patch: Patch) -> None:
    """After a failed sync the next process builds upon the same pages."""
    patch.setattr(Segments, "renew", lambda self, proven: None)


@BUGS.found_by(live, 60)
def deletion_twice(patch: Patch) -> None:
    """A deletion that retention has copied drops the new topic."""

    def recovered(self: Any, item: StateChange, base: int) -> None:
        if item.space == LEASE:
            self._ledger.apply(item, base)
            return
        self._apply(item, base)
        if item.space == DROPPED and item.value is not None:
            topic = item.key.decode()
            self._index.drop_topic(topic, int(item.value.split(b" ")[0]))

    patch.setattr(StateEffects, "recovered", recovered)
