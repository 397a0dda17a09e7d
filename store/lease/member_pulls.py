"""Pulls and reports by members of a group, on the same ledger as receives (docs/decisions/0015-one-ledger.md).

without receivers      a pull is a read, and the group's position is one number; the pull progress is in memory only
with receivers         messages pulled and not reported become leases of the puller; from then on a pull leases the messages
                       that it returns, and a report settles the puller's leases below it
receivers have left    once all leases are the puller's, the position is one number again
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, final

from domain.errors import Failure, StoreError
from domain.ports import Clock
from domain.store.store_ports import ReadResult
from domain.store.store_request import PullRequest
from store.events import StoreEvents
from store.lease import returned_messages
from store.lease.journaled_tables import JournaledTables
from store.lease.lease_records import LeaseSource
from store.lease.positions import StoredPositions
from store.lease.pull import PullCall
from store.lease.pull_progress import PULL_LEASE_MS, PullProgress
from store.lease.table import LeaseTable
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.reads.reading import Reading
from store.reads.repair_waits import unreadable
from store.reads.startup_queue import StartupQueue

RENEW_MS: Final = 30_000
"""Shortest time between two extensions of a puller's leases."""
LATE_RETURN_MS: Final = 30_000
"""Time without a receiver's lease after which a late return moves to the retry topic of its group."""
LATE_RETURNS_PER_PULL_MAX: Final = 64
"""Late returns that one pull moves to the retry topic, at most."""
NO_RECEIVER_MS: Final = 600_000
"""Time since the last receive after which a queue counts as one without receivers."""


@final
class StoredMemberPulls:
    """The `MemberPulls` port over the ledger."""

    def __init__(
        self,
        ledger: JournaledTables,
        positions: StoredPositions,
        index: QueueIndex,
        reading: Reading,
        source: LeaseSource,
        held: StartupQueue,
        clock: Clock,
        events: StoreEvents,
    ) -> None:
        self._ledger = ledger
        self._positions = positions
        self._index = index
        self._reading = reading
        self._source = source
        self._held = held
        self._clock = clock
        self._events = events

    def pull(self, request: PullRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """MemberPulls.pull."""
        if self._held.holding:
            self._held.add(self.pull, request, done)
            return
        read = request.read
        group, member, topic, queue_id, offset = request.group, request.member, read.topic, read.queue_id, read.offset
        ledger = self._ledger
        place = (group, topic, queue_id)
        table = ledger.tables.awake(place)
        queue = self._index.queue(topic, queue_id)
        if table is None or not table.shared or queue is None:
            self._pull_unshared(request, done)
            return
        if ledger.refuses(done):
            return
        now = self._clock.wall_ms()
        freed = table.puller not in ("", member) and table.release_puller(now)
        if table.puller != member:
            table.puller = member
            table.pull_offset = table.reported = 0
            table.renewed_ms = now
            ledger.pull_progress.add_queue(member, place)
        elif offset < table.pull_offset:
            freed = returned_messages.puller_moved_back(table, now)
        elif now - table.renewed_ms >= RENEW_MS:
            table.renew(now, now + PULL_LEASE_MS)
        retry_topic = request.retry_topic
        call = PullCall(self._index, self._source, table, queue, now, read)
        moved = False
        result: ReadResult | Failure
        try:
            ledger.table(group, queue, True)
            moved = bool(retry_topic) and self._move_late_returns(table, queue, offset, retry_topic, now)
            result = call.run(offset, not retry_topic)
        except (OSError, StoreError) as error:
            call.error = error
            result = unreadable(error, f"{topic} queue {queue_id} holds a message that cannot be read: {error}")
        if call.error is not None:
            self._events.unreadable(call.error)
        if not isinstance(result, Failure):
            table.pull_offset = result.next_offset
        waits = isinstance(result, Failure) and self._held.repairs.hold(result, done, partial(self.pull, request, done))
        if call.changed or freed or moved or (not isinstance(result, Failure) and result.pop_ms):
            ledger.changed(table)
            if not waits:
                ledger.when_written(done, result)
        elif not waits:
            done(result)
        if freed:
            self._ledger.freed(group, topic)

    def _pull_unshared(self, request: PullRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """A pull from a queue without receivers: a read, whose range is noted as the member's progress."""
        read = request.read
        result = self._reading.read(read)
        if isinstance(result, Failure):
            if self._held.repairs.hold(result, done, partial(self.pull, request, done)):
                return
        else:
            place = (request.group, read.topic, read.queue_id)
            progress = self._ledger.pull_progress.get(place)
            if progress is None or progress.member != request.member:
                self._ledger.pull_progress.put(place, PullProgress(request.member, read.offset, result.next_offset))
            else:
                progress.start = min(progress.start, read.offset)
                progress.end = result.next_offset
        done(result)

    def _move_late_returns(self, table: LeaseTable, queue: Queue, offset: int, retry_topic: str, now: int) -> bool:
        """Move late returns that no receiver leases to `retry_topic`; True when a message was moved or skipped."""
        table.expire(now)
        if table.last_receive_ms + LATE_RETURN_MS > now or not self._index.has_topic(retry_topic):
            return False
        found = returned_messages.find(table, offset, LATE_RETURNS_PER_PULL_MAX)
        late = [at for at in found if table.leases[at].end_ms + LATE_RETURN_MS <= now]
        moved = False
        for at in late:
            records = self._source.records(self._index.rows(queue, at, 1))
            if records and records[0]:
                moved = self._source.move_to_retry_topic(table, at, records[0], retry_topic) or moved
            else:
                table.skip(at)
                moved = True
        return moved

    def report(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """MemberPulls.report."""
        ledger = self._ledger
        plain: list[tuple[str, int, int]] = []
        failure = ledger.broken()
        now = self._clock.wall_ms()
        for topic, queue_id, offset in offsets:
            table = ledger.tables.get((group, topic, queue_id))
            if table is None or not table.shared:
                # On a queue that has had a receiver, a lower report may be outdated, or be of a late return: ignore it.
                if table is None or not table.pop_ms or offset > table.floor:
                    plain.append((topic, queue_id, offset))
            elif failure is None:
                self._report(table, offset, now)
        if failure is not None:
            self._positions.commit(group, plain, done)
            return
        if plain:
            self._positions.commit(group, plain, None)
        if done is not None:
            ledger.when_durable(group, [place[0] for place in offsets], done, None)

    def _report(self, table: LeaseTable, offset: int, now: int) -> None:
        table.report(offset)
        returned_messages.settle_handled(table, offset)
        quiet = now - table.last_receive_ms >= NO_RECEIVER_MS and not len(table.settled) and not table.late_returns
        if quiet and all(lease.pulled for lease in table.leases.values()):
            place = (table.group, table.topic, table.queue_id)
            progress = PullProgress(table.puller, table.floor, table.head)
            table.end_sharing()
            if progress.member:
                self._ledger.pull_progress.put(place, progress)
        self._ledger.changed(table)

    def renew(self, group: str, member: str, reconnected: bool) -> None:
        """MemberPulls.renew."""
        if self._ledger.broken() is not None:
            return
        now = self._clock.wall_ms()
        for place in self._ledger.pull_progress.queues_of(group, member):
            table = self._ledger.tables.awake(place)
            if table is None or not table.shared or table.puller != member:
                continue
            freed = reconnected and returned_messages.release_leased(table, now)
            due = now - table.renewed_ms >= RENEW_MS
            if due:
                table.renew(now, now + PULL_LEASE_MS)
            if due or freed:
                self._ledger.changed(table)
            if freed:
                self._ledger.freed(group, place[1])

    def release(self, group: str, member: str, kept: Collection[str]) -> None:
        """MemberPulls.release."""
        ledger = self._ledger
        if ledger.broken() is not None:
            return
        now = self._clock.wall_ms()
        for place in ledger.pull_progress.queues_of(group, member):
            if place[1] in kept:
                continue
            ledger.pull_progress.remove_queue(member, place)
            table = ledger.tables.awake(place)
            if table is not None and table.puller == member and table.release_puller(now):
                ledger.changed(table)
                self._ledger.freed(group, place[1])
