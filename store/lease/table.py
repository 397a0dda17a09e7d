"""The leases of one consumer group on one queue, as a pure data structure. See docs/decisions/0004-leases.md."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, final

from domain.errors import ErrorCode, Failure
from store.lease.ranges import Ranges

ATTEMPTS_MAX: Final = 32
"""Remembered attempt ids per queue of an ordered group; the oldest is forgotten first."""
ATTEMPTS_UNORDERED_MAX: Final = 100
"""The same for other groups, whose members receive from one queue concurrently."""


@final
class Lease:
    """State of an unsettled offset between floor and head. Times are wall-clock milliseconds.

    pop_ms     pop time that identifies the lease in receipts; each delivery changes it
    end_ms     end of the lease, unless it is settled or extended before
    free       True when the lease has ended: the message waits for redelivery
    attempts   deliveries so far; 0 when an ordered call deferred the message before its first delivery
    first_ms   time of the first delivery
    pulled     True when the queue's puller holds the lease; its report of a higher position settles it
    fleeting   True when the lease is valid only in the process that granted it: the next process releases it
               (Leases.lapse)
    """

    __slots__ = ("attempts", "end_ms", "first_ms", "fleeting", "free", "pop_ms", "pulled")

    def __init__(self, pop_ms: int, end_ms: int, attempts: int, first_ms: int) -> None:
        self.pop_ms = pop_ms
        self.end_ms = end_ms
        self.attempts = attempts
        self.first_ms = first_ms
        self.fleeting = False
        self.free = False
        self.pulled = False


@final
class LeaseTable:
    """Leases of one consumer group on one queue. Times are wall-clock milliseconds from the caller.

    Invariants: an offset below `floor` is settled; an offset from `head` on has never been leased; an offset between is either
    in `leases` (held, or free again) or in `settled`, never in both. `floor` is never in `settled`. `pop_ms` rises strictly.

    Journaled: group, topic, queue_id, floor (the group's committed offset), head, leases, settled, pop_ms (the newest in use)
    Heaps for the next offset; an entry that no longer matches its lease is ignored
        end_heap, free_heap   (end_ms, offset) of held leases; offsets of free ones
    Attempts of clients
        attempt_pops     attempt id -> pop time of its leases, oldest first
        fresh_attempts   number of the newest ones that are not in the last journal value
    Members that pull (member_pulls.py)
        shared           True when receivers lease from this queue too: pulls then lease
        puller           client id of the member that pulls, "" when unknown
        pull_offset      expected offset of the puller's next pull
        reported         position of the puller's latest report, or returned_messages.REPORTS_MOVED_BACK
        late_returns     offset -> (pop_ms, previous report, head at that time) of late returns that the puller holds
        renewed_ms       time of the last renewal of the puller's leases
    Bookkeeping
        journaled        `floor` in the newest journal value; -1: the table is new, and no value has it
        keys             ordering keys of leased offsets, a cache (ordered_lease.py)
        changed_offsets  offsets changed since the last journal value
        whole_due        True when the next journal value has to be a whole value
        expiry_ms, expiry_place   time of the table in LeaseSchedule, 0: it has none; index among the tables of that time
        dropped          True when the table has been removed or packed: its leases are void
        anchor           base of the log segment with the newest whole value, -1 for none
        serial           number of the table in the order of becoming live (tables.py)
    """

    __slots__ = (
        "anchor", "attempt_pops", "changed_offsets", "dropped", "end_heap", "expiry_ms", "expiry_place", "floor", "free_heap",
        "fresh_attempts", "group", "head", "journaled", "keys", "last_receive_ms", "late_returns", "leases", "ordered",
        "pop_ms", "pull_offset", "puller", "queue_id", "renewed_ms", "reported", "serial", "settled", "shared", "topic",
        "whole_due",
    )  # fmt: skip

    def __init__(self, group: str, topic: str, queue_id: int, floor: int) -> None:
        self.group = group
        self.topic = topic
        self.queue_id = queue_id
        self.floor = self.head = floor
        self.journaled = -1
        self.pop_ms = 0
        self.attempt_pops: dict[str, int] = {}
        self.fresh_attempts = 0
        self.ordered = False
        self.keys: dict[int, bytes] = {}
        self.shared = False
        self.puller = ""
        self.last_receive_ms = self.renewed_ms = 0
        self.pull_offset = self.reported = 0
        self.late_returns: dict[int, tuple[int, int, int]] = {}
        self.leases: dict[int, Lease] = {}
        self.settled = Ranges()
        self.end_heap: list[tuple[int, int]] = []
        self.free_heap: list[int] = []
        self.changed_offsets: dict[int, None] = {}
        self.whole_due = True
        self.expiry_ms = 0
        self.expiry_place = 0
        self.dropped = False
        self.anchor = -1
        self.serial = 0

    def next_pop_ms(self, now: int) -> int:
        """Pop time for leases at `now`: `now`, or one more than the newest pop time."""
        return now if now > self.pop_ms else self.pop_ms + 1

    def expire(self, now: int) -> list[int]:
        """Free the leases that end at `now` or before; returns their offsets."""
        ended: list[int] = []
        ends = self.end_heap
        while ends and ends[0][0] <= now:
            end_ms, offset = heappop(ends)
            lease = self.leases.get(offset)
            if lease is not None and not lease.free and lease.end_ms == end_ms:
                lease.free = True
                heappush(self.free_heap, offset)
                ended.append(offset)
        return ended

    def next_end_ms(self) -> int:
        """Lower bound of the next end of a lease; 0 when no lease is held."""
        return self.end_heap[0][0] if self.end_heap else 0

    def redeliverable(self, limit: int) -> list[int]:
        """The lowest `limit` offsets that wait for redelivery, ascending. They stay free until they are leased."""
        found: list[int] = []
        returned = self.free_heap
        while returned and len(found) < limit:
            offset = heappop(returned)
            lease = self.leases.get(offset)
            if lease is not None and lease.free and (not found or found[-1] != offset):
                found.append(offset)
        for offset in found:
            heappush(returned, offset)
        return found

    def lease(self, offset: int, pop_ms: int, end_ms: int, attempt: bool = True) -> Lease:
        """Lease a free offset again, or lease `head`. `pop_ms` comes from `next_pop_ms`; `attempt`: count a delivery."""
        lease = self.leases.get(offset)
        if lease is None:
            assert offset == self.head
            lease = self.leases[offset] = Lease(pop_ms, end_ms, 1, pop_ms)
            self.head = offset + 1
        else:
            lease.pop_ms = pop_ms
            lease.end_ms = end_ms
            lease.fleeting = False
            lease.free = False
            lease.pulled = False
            if attempt:
                lease.attempts += 1
                if lease.attempts == 1:
                    lease.first_ms = pop_ms
        self.pop_ms = pop_ms
        self._schedule(end_ms, offset)
        self.changed_offsets[offset] = None
        return lease

    def defer(self) -> None:
        """Move `head` past a message that another message of its ordering key blocks; it becomes free, without a delivery."""
        offset = self.head
        lease = self.leases[offset] = Lease(0, 0, 0, 0)
        lease.free = True
        heappush(self.free_heap, offset)
        self.head = offset + 1
        self.changed_offsets[offset] = None

    def skip(self, offset: int) -> None:
        """Settle `offset`, which is free or `head`, without a delivery: the filter rejects it, or the record is gone."""
        if offset == self.head:
            self.head = offset + 1
        self._retire(offset)

    def skip_to(self, offset: int) -> None:
        """Settle all offsets from `head` up to and excluding `offset`, without a delivery."""
        if offset > self.head:
            start, self.head = self.head, offset
            if start == self.floor:
                self._advance(offset)
            else:
                self.settled.add(start, offset)
                self.changed_offsets[start] = None
                self.changed_offsets[offset - 1] = None

    def settle(self, offset: int, pop_ms: int) -> Failure | None:
        """Settle one lease. Settling twice is harmless; RECEIPT_EXPIRED when the offset has been leased again since."""
        lease = self.leases.get(offset)
        if lease is not None:
            if lease.pop_ms != pop_ms:
                return Failure(ErrorCode.RECEIPT_EXPIRED, f"offset {offset} has been leased again since")
            self._retire(offset)
            return None
        if offset < self.floor or offset in self.settled:
            return None
        return Failure(ErrorCode.RECEIPT_EXPIRED, f"offset {offset} is not leased")

    def extend(self, offset: int, pop_ms: int, new_pop_ms: int, end_ms: int) -> Failure | None:
        """Move the end of one lease and rename it to `new_pop_ms` (from `next_pop_ms`, or unchanged). RECEIPT_EXPIRED."""
        lease = self.leases.get(offset)
        if lease is None or lease.pop_ms != pop_ms:
            return Failure(ErrorCode.RECEIPT_EXPIRED, f"offset {offset} is settled, or has been leased again since")
        lease.pop_ms = new_pop_ms
        lease.end_ms = end_ms
        lease.free = False
        self.pop_ms = max(self.pop_ms, new_pop_ms)
        self._schedule(end_ms, offset)
        self.changed_offsets[offset] = None
        return None

    def remember_attempt(self, attempt_id: str) -> None:
        """Record that this attempt got the leases with the newest pop time."""
        self.note_attempt(attempt_id, self.pop_ms)
        self.fresh_attempts += 1

    def note_attempt(self, attempt_id: str, pop_ms: int) -> None:
        """Record that an attempt got the leases of `pop_ms`; forgets the oldest attempt beyond the limit."""
        pops = self.attempt_pops
        pops.pop(attempt_id, None)
        if len(pops) >= (ATTEMPTS_MAX if self.ordered else ATTEMPTS_UNORDERED_MAX):
            del pops[next(iter(pops))]
        pops[attempt_id] = pop_ms

    def held_by(self, attempt_id: str) -> list[int]:
        """Offsets that the attempt holds, ascending."""
        pop_ms = self.attempt_pops.get(attempt_id, -1)
        if pop_ms < 0:
            return []
        return sorted([at for at, lease in self.leases.items() if lease.pop_ms == pop_ms and not (lease.free or lease.pulled)])

    def prune(self) -> None:
        """Remove keys and heap entries of settled messages. Ordered tables need it: they never pop from `free_heap`."""
        bound = 2 * len(self.leases) + 64
        if len(self.keys) > bound:
            self.keys = {offset: key for offset, key in self.keys.items() if offset in self.leases}
        if len(self.free_heap) > bound:
            self.free_heap = sorted([offset for offset, lease in self.leases.items() if lease.free])

    def release(self, offset: int, pop_ms: int, now: int) -> Lease | None:
        """Free a held lease before its end; None when the offset has no held lease of `pop_ms`."""
        lease = self.leases.get(offset)
        if lease is None or lease.free or lease.pop_ms != pop_ms:
            return None
        self._free(lease, offset, now)
        return lease

    def _free(self, lease: Lease, offset: int, now: int) -> None:
        lease.free = True
        lease.pulled = False
        lease.end_ms = now
        heappush(self.free_heap, offset)
        self.changed_offsets[offset] = None

    def release_puller(self, now: int) -> bool:
        """Free all leases of the puller, which has left. True when it held one."""
        found = [offset for offset, lease in self.leases.items() if lease.pulled]
        for offset in found:
            self._free(self.leases[offset], offset, now)
        self.puller = ""
        self.reported = 0
        self.late_returns.clear()
        return bool(found)

    def renew(self, now: int, end_ms: int) -> None:
        """Extend all leases of the puller to `end_ms`, after a sign of life."""
        self.renewed_ms = now
        for offset, lease in self.leases.items():
            if lease.pulled and not lease.free:
                lease.end_ms = end_ms
                self._schedule(end_ms, offset)
                self.changed_offsets[offset] = None

    def report(self, offset: int) -> None:
        """Settle the puller's leases below `offset`, except late returns. A report never moves the floor back."""
        for at in [at for at, lease in self.leases.items() if lease.pulled and not lease.fleeting and at < offset]:
            self._retire(at)
        self.skip_to(offset)

    def end_sharing(self) -> None:
        """Forget all leases and return to one position, the floor: receivers have left."""
        self.head = self.floor
        self.leases.clear()
        self._clear()
        self.shared = False

    def commit(self, offset: int) -> None:
        """Set the floor. A higher one settles all offsets below `offset`; a lower one is `reset`."""
        if offset < self.floor:
            self.reset(offset)
            return
        self.head = max(self.head, offset)
        if offset == self.floor:
            return
        for below in [at for at in self.leases if at < offset]:
            del self.leases[below]
        self._advance(offset)

    def reset(self, offset: int) -> None:
        """Restart at `offset`: forget all leases, and deliver all messages from `offset` on as new ones."""
        self.floor = self.head = offset
        self.leases.clear()
        self._clear()

    def _clear(self) -> None:
        self.settled = Ranges()
        self.end_heap.clear()
        self.free_heap.clear()
        self.attempt_pops.clear()
        self.keys.clear()
        self.late_returns.clear()
        self.pull_offset = self.reported = 0
        self.changed_offsets.clear()
        self.whole_due = True

    def _schedule(self, end_ms: int, offset: int) -> None:
        if len(self.end_heap) > 2 * len(self.leases) + 64:
            self.end_heap = [(lease.end_ms, at) for at, lease in self.leases.items() if not lease.free]
            heapify(self.end_heap)
        else:
            heappush(self.end_heap, (end_ms, offset))

    def _retire(self, offset: int) -> None:
        self.leases.pop(offset, None)
        if offset == self.floor:
            self._advance(offset + 1)
        else:
            self.settled.add(offset, offset + 1)
            self.changed_offsets[offset] = None

    def _advance(self, floor: int) -> None:
        self.floor = self.settled.pop_from(floor) if len(self.settled) else floor
        if not self.leases:
            self.free_heap.clear()
            self.end_heap.clear()
            if self.attempt_pops:
                self.attempt_pops.clear()
            if self.ordered:
                self.keys.clear()
