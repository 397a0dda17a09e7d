"""Who holds which message until when: the pure state behind POP. See docs/decisions/0004-leases.md."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, final

from domain.errors import ErrorCode, Failure
from store.lease.ranges import Ranges

FLOOR_SPAN_MAX: Final = 10_000
FLOOR_HELD_MS_MAX: Final = 600_000
ATTEMPTS_MAX: Final = 32
"""Named attempts of one ordered queue that are remembered."""


@final
class Lease:
    """One offset between floor and head that is not settled.

    pop_ms     names the lease; end_ms: when it ends; free: it has ended, and the message waits for its next delivery
    attempts   deliveries so far, 0: it waits for its turn behind others of its key; first_ms: when the first one was
    pulled     it is the queue's puller that holds it, until it reports a position behind it
    fleeting   it ends when the process that gave it out has ended, and its successor has found out what became of it
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
    """Leases of one consumer group on one queue. Times are wall-clock milliseconds, handed in.

    Invariant: an offset below `floor` is settled, one from `head` on has never been leased, and one between is either in
    `leases` (held, or free again) or in `settled`, never in both. `floor` is never in `settled`. `pop_ms` rises strictly.

    ordered    messages of one key are given out one after the other; `keys`: the keys of leased offsets that are known
    attempts   the pop times of the latest attempts that had a name, oldest first
    shared     receivers take part: members that pull lease what they read. `puller` is the one that pulls, "" unknown;
               `last_receive_ms`: when a receiver last asked; `renewed_ms`: when the puller last showed that it lives
    strays     what the puller was given out of turn (stray.py); `asked`: where it goes on; `reported`: its latest report
    """

    __slots__ = (
        "attempts", "changed_offsets", "dropped", "end_heap", "expiry_ms", "floor", "free_heap", "group", "head", "keys",
        "last_receive_ms", "late_returns", "leases", "ordered", "pop_ms", "pull_offset", "puller", "queue_id", "renewed_ms",
        "reported", "settled", "shared", "topic", "whole_due",
    )  # fmt: skip

    def __init__(self, group: str, topic: str, queue_id: int, floor: int) -> None:
        self.group = group
        self.topic = topic
        self.queue_id = queue_id
        self.floor = floor
        self.head = floor
        self.pop_ms = 0
        self.attempts: dict[str, int] = {}
        self.ordered = False
        self.keys: dict[int, bytes] = {}
        self.shared = False
        self.puller = ""
        self.last_receive_ms = 0
        self.renewed_ms = 0
        self.pull_offset = 0
        self.reported = 0
        self.late_returns: dict[int, tuple[int, int, int]] = {}
        self.leases: dict[int, Lease] = {}
        self.settled = Ranges()
        self.end_heap: list[tuple[int, int]] = []
        self.free_heap: list[int] = []
        self.changed_offsets: dict[int, None] = {}
        self.whole_due = True
        self.expiry_ms = 0
        self.dropped = False

    def next_pop_ms(self, now: int) -> int:
        """The time that the next lease would carry."""
        return now if now > self.pop_ms else self.pop_ms + 1

    def expire(self, now: int) -> list[int]:
        """Leases that have ended become free; their offsets."""
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
        """When the next lease may end; 0 when none is held."""
        return self.end_heap[0][0] if self.end_heap else 0

    def redeliverable(self, limit: int) -> list[int]:
        """At most `limit` offsets that wait for another delivery, lowest first. They stay free until they are taken."""
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
        """Lease a free offset again, or `head`; `pop_ms` is from `next_pop_ms`. `attempt`: it counts as another delivery."""
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
        """Step over `head`, which stays free: it waits for another message of its key."""
        offset = self.head
        lease = self.leases[offset] = Lease(0, 0, 0, 0)
        lease.free = True
        heappush(self.free_heap, offset)
        self.head = offset + 1
        self.changed_offsets[offset] = None

    def skip(self, offset: int) -> None:
        """Settle `offset`, free or `head`, without a delivery: nobody in this group wants it."""
        if offset == self.head:
            self.head = offset + 1
        self._retire(offset)

    def skip_to(self, offset: int) -> None:
        """Settle all from `head` up to `offset`."""
        if offset > self.head:
            start, self.head = self.head, offset
            if start == self.floor:
                self._advance(offset)
            else:
                self.settled.add(start, offset)
                self.changed_offsets[start] = None
                self.changed_offsets[offset - 1] = None

    def settle(self, offset: int, pop_ms: int) -> Failure | None:
        """Retire one lease. Settling twice is harmless; RECEIPT_EXPIRED when the lease is another's now."""
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
        """Move the end of one lease, which is then called `new_pop_ms` (from `next_pop_ms`, or the old one)."""
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
        """The leases that carry the newest pop time were given to this attempt."""
        self.attempts.pop(attempt_id, None)
        if len(self.attempts) >= ATTEMPTS_MAX:
            del self.attempts[next(iter(self.attempts))]
        self.attempts[attempt_id] = self.pop_ms

    def prune(self) -> None:
        """Forget keys and returns of messages that are settled; an ordered table takes nothing from `returned`."""
        bound = 2 * len(self.leases) + 64
        if len(self.keys) > bound:
            self.keys = {offset: key for offset, key in self.keys.items() if offset in self.leases}
        if len(self.free_heap) > bound:
            self.free_heap = sorted([offset for offset, lease in self.leases.items() if lease.free])

    def release(self, offset: int, pop_ms: int, now: int) -> Lease | None:
        """End a lease before its time; None when it is another one by now, or none."""
        lease = self.leases.get(offset)
        if lease is None or lease.free or lease.pop_ms != pop_ms:
            return None
        lease.free = True
        lease.pulled = False
        lease.end_ms = now
        heappush(self.free_heap, offset)
        self.changed_offsets[offset] = None
        return lease

    def release_puller(self, now: int) -> bool:
        """The puller has gone: what it holds is free. True when there was something."""
        found = [offset for offset, lease in self.leases.items() if lease.pulled]
        for offset in found:
            lease = self.leases[offset]
            lease.pulled = False
            lease.free = True
            lease.end_ms = now
            heappush(self.free_heap, offset)
            self.changed_offsets[offset] = None
        self.puller = ""
        self.reported = 0
        self.late_returns.clear()
        return bool(found)

    def renew(self, now: int, end_ms: int) -> None:
        """The puller lives: what it holds is held until `end_ms`."""
        self.renewed_ms = now
        for offset, lease in self.leases.items():
            if lease.pulled and not lease.free:
                lease.end_ms = end_ms
                self._schedule(end_ms, offset)
                self.changed_offsets[offset] = None

    def report(self, offset: int) -> None:
        """The puller has handled everything below `offset` that it was given in turn; what others hold is not settled.

        Below the floor it says nothing new: positions of a shared queue never go back by a report.
        """
        for at in [at for at, lease in self.leases.items() if lease.pulled and not lease.fleeting and at < offset]:
            self._retire(at)
        self.skip_to(offset)

    def end_sharing(self) -> None:
        """Nobody but the puller has anything here: the table is one number again."""
        self.head = self.floor
        self.leases.clear()
        self._clear()
        self.shared = False

    def blocks_floor(self, offset: int, now: int) -> bool:
        """True when `offset`, free again, holds the floor too far back and has to go on elsewhere."""
        lease = self.leases[offset]
        if not lease.attempts:
            return False
        return self.head - offset > FLOOR_SPAN_MAX or now - lease.first_ms >= FLOOR_HELD_MS_MAX

    def commit(self, offset: int) -> None:
        """Set the floor. Forward settles what lies below; back forgets all leases: everything from there on is free and new."""
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
        """Begin anew at `offset`: all leases are forgotten, everything from there on is free and new."""
        self.floor = self.head = offset
        self.leases.clear()
        self._clear()

    def _clear(self) -> None:
        self.settled = Ranges()
        self.end_heap.clear()
        self.free_heap.clear()
        self.attempts.clear()
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
            if self.ordered:
                self.keys.clear()
                self.attempts.clear()
