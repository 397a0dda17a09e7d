"""The lease ledger: the lease tables of all groups, journaled once a turn, expired by one timer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import final

from domain.errors import Failure
from domain.ports import Clock
from domain.store.store_ports import StateChange
from store.lease import journal
from store.lease.attempts import Attempts
from store.lease.expiry import Expiry
from store.lease.lease_journal import LeaseJournal
from store.lease.pull_progress import PullProgressTable
from store.lease.replay import LeaseReplay
from store.lease.table import LeaseTable
from store.log.commit import GroupCommit
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.reads.hot import HotLog
from store.state.view import LEASE


@final
class JournaledTables:
    """The lease tables by (group, topic, queue id), with their journal, expiry and candidates.

    turn            the journal of this turn's changed tables
    attempts        queues of attempts in unordered groups
    pull_progress   progress of members that pull from queues without receivers
    inherited_delay_ms   ms that `recovered` adds to the end of each lease: another node's clock has timed them
    freed           to call with (group, topic) when messages can be leased again
    replay          applies the values that recovery reads
    _round_robin    (group, topic) -> number of lease calls for any queue so far
    """

    __slots__ = (
        "_commit", "_expiry", "_hot", "_index", "_round_robin", "attempts", "freed", "inherited_delay_ms", "pull_progress",
        "replay", "tables", "turn",
    )  # fmt: skip

    def __init__(
        self,
        index: QueueIndex,
        clock: Clock,
        turn: LeaseJournal,
        commit: GroupCommit,
        hot: HotLog,
        freed: Callable[[str, str], None],
    ) -> None:
        self._index = index
        self._commit = commit
        self._hot = hot
        self.freed = freed
        self.inherited_delay_ms = 0
        self.turn = turn
        self.tables = turn.tables
        self.attempts = Attempts()
        self.pull_progress = PullProgressTable()
        self._round_robin: dict[tuple[str, str], int] = {}
        self.replay = LeaseReplay(turn.tables, turn)
        self._expiry = Expiry(clock, turn.tables.schedule, freed, turn.candidates.changed)

    def broken(self) -> Failure | None:
        """Failure because of which the store takes no more writes; None while it takes them."""
        return self._commit.refusal()

    def table(self, group: str, queue: Queue, from_first: bool) -> LeaseTable:
        """Table of a group on a queue, created if missing, and cut to the offsets of the queue."""
        key = (group, queue.name, queue.id)
        table = self.tables.get(key)
        self._index.refresh(queue)
        if table is None:
            removing = self.tables.is_removing(queue.name)
            progress = None if removing else self.pull_progress.get(key)
            start = self._hot.start_of(queue, from_first) if progress is None else progress.start
            table = self.tables[key] = LeaseTable(*key, start)
            self.turn.mark_changed(table)
        if table.floor < queue.first:
            table.commit(queue.first)
            self.turn.mark_changed(table)
        elif table.head > queue.next:
            table.commit(min(table.floor, queue.next))
            table.head = min(table.head, queue.next)
            self.turn.mark_changed(table)
        return table

    def next_round(self, group: str, topic: str) -> int:
        """Number of earlier lease calls of `group` for any queue of `topic`; it selects the first queue of the call."""
        count = self._round_robin.get((group, topic), 0)
        self._round_robin[group, topic] = count + 1
        return count

    def share(self, table: LeaseTable, queue: Queue, now: int) -> None:
        """Share the queue with receivers: the messages that a member has pulled and not reported become its leases."""
        table.shared = True
        progress = self.pull_progress.drop((table.group, table.topic, table.queue_id))
        if progress is not None:
            progress.become_leases(table, queue.visible, now)
            self.changed(table)

    def changed(self, table: LeaseTable) -> None:
        """Journal the changed `table` at the end of this turn, and schedule the expiry of its leases."""
        self.turn.mark_changed(table)
        self._expiry.schedule(table)

    def drop_topic(self, topic: str) -> list[StateChange]:
        """Remove all tables of a topic and of its lite queues; returns the changes for the log, at most two.

        A few hundred tables are forgotten at once, the others by `forget_removed`.
        """
        changes = [StateChange(LEASE, prefix, None) for prefix in self.tables.take(topic)]
        if changes:
            self.turn.drop_removed()
            next(self.forget_removed(), 0)
            next(self.forget_removed(), 0)
        return changes

    def forget_removed(self) -> Iterator[int]:
        """Forget the tables of deleted topics in steps; yields the cost of each one, in visits."""
        return self.tables.forget(self._forget)

    def _forget(self, key: bytes, table: LeaseTable | None) -> None:
        group, topic, queue_id = journal.parse_key(key)
        if self._round_robin:
            self._round_robin.pop((group, topic), None)
        self.turn.candidates.drop(group, topic)
        if len(self.pull_progress):
            self.pull_progress.drop((group, topic, queue_id))
        if table is not None:
            self.turn.drop(table)

    def tables_of_group(self, group: str) -> Iterator[list[tuple[str, str, int]]]:
        """Places of the tables of a group, one list per step of a walk over all tables."""
        middle = f"\x00{group}\x00".encode()
        for chunk in self.tables.chunks():
            yield [journal.parse_key(key) for key in chunk.keys if middle in key]

    def drop_places(self, keys: Sequence[tuple[str, str, int]]) -> list[StateChange]:
        """Remove the tables at `keys` that exist; returns the changes for the log."""
        return self.drop([key for key in keys if key in self.tables])

    def drop(self, keys: list[tuple[str, str, int]]) -> list[StateChange]:
        """Remove the tables at `keys`, all of which exist; returns the changes for the log."""
        changes: list[StateChange] = []
        for key in keys:
            table = self.tables.pop(key)
            self.pull_progress.drop(key)
            self._round_robin.pop((key[0], key[1]), None)
            self.turn.candidates.drop(key[0], key[1])
            if table is not None:
                self.turn.drop(table)
            changes.append(StateChange(LEASE, journal.key(*key), None))
        return changes

    def apply(self, change: StateChange, base: int) -> None:
        """Apply a change that recovery has read from the log or a snapshot, in the segment at `base`."""
        if change.value is None:
            self.replay.remove(change.key)
        else:
            self.replay.put(change.key, change.value, base)

    def recovered(self) -> None:
        """Rebuild the heaps and start the timer, after recovery has applied all changes."""
        for table in self.tables.live.values():
            if self.turn.packed(table):
                continue
            if self.inherited_delay_ms:
                for lease in table.leases.values():
                    lease.end_ms += self.inherited_delay_ms
            journal.recovered(table)
            self.attempts.load(table)
            self._expiry.schedule(table)

    def stop(self) -> None:
        """Stop the timer: the store is closed."""
        self._expiry.stop()

    @property
    def expired(self) -> int:
        """Leases that have ended without being settled, since the start."""
        return self._expiry.expired

    def leased(self) -> int:
        """Number of unsettled offsets between the floors and heads: held leases and free ones."""
        return sum(len(table.leases) for table in self.tables.live.values())
