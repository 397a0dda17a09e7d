"""Who holds which message until when: the pure state behind POP. See docs/decisions/0004-leases.md."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, final

from domain.errors import ErrorCode, Failure
from store.lease.ranges import Ranges

FLOOR_SPAN_MAX: Final = 10_000
FLOOR_HELD_MS_MAX: Final = 600_000


@final
class Lease:
    """One offset between floor and head that is not settled.

    pop_ms     names the lease; end_ms: when it ends; free: it has ended, and the message waits for its next delivery
    attempts   deliveries so far; first_ms: when the first one was
    """

    __slots__ = ("attempts", "end_ms", "first_ms", "free", "pop_ms")

    def __init__(self, pop_ms: int, end_ms: int, attempts: int, first_ms: int) -> None:
        self.pop_ms = pop_ms
        self.end_ms = end_ms
        self.attempts = attempts
        self.first_ms = first_ms
        self.free = False


@final
class LeaseTable:
    """Leases of one consumer group on one queue. Times are wall-clock milliseconds, handed in.

    Invariant: an offset below `floor` is settled, one from `head` on has never been leased, and one between is either in
    `leases` (held, or free again) or in `settled`, never in both. `floor` is never in `settled`. `pop_ms` rises strictly.
    """

    __slots__ = (
        "attempt_id", "changed", "dropped", "ends", "floor", "group", "head", "leases", "pop_ms", "queue_id", "reset_since",
        "returned",
        "settled", "topic", "wake_ms",
    )  # fmt: skip

    def __init__(self, group: str, topic: str, queue_id: int, floor: int) -> None:
        self.group = group
        self.topic = topic
        self.queue_id = queue_id
        self.floor = floor
        self.head = floor
        self.pop_ms = 0
        self.attempt_id = ""
        self.leases: dict[int, Lease] = {}
        self.settled = Ranges()
        self.ends: list[tuple[int, int]] = []
        self.returned: list[int] = []
        self.changed: dict[int, None] = {}
        self.reset_since = True
        self.wake_ms = 0
        self.dropped = False

    def next_pop(self, now: int) -> int:
        """The time that the next lease would carry."""
        return now if now > self.pop_ms else self.pop_ms + 1

    def expire(self, now: int) -> list[int]:
        """Leases that have ended become free; their offsets."""
        ended: list[int] = []
        ends = self.ends
        while ends and ends[0][0] <= now:
            end_ms, offset = heappop(ends)
            lease = self.leases.get(offset)
            if lease is not None and not lease.free and lease.end_ms == end_ms:
                lease.free = True
                heappush(self.returned, offset)
                ended.append(offset)
        return ended

    def next_end(self) -> int:
        """When the next lease may end; 0 when none is held."""
        return self.ends[0][0] if self.ends else 0

    def free(self, limit: int) -> list[int]:
        """At most `limit` offsets that wait for another delivery, lowest first. They stay free until they are taken."""
        found: list[int] = []
        returned = self.returned
        while returned and len(found) < limit:
            offset = heappop(returned)
            lease = self.leases.get(offset)
            if lease is not None and lease.free and (not found or found[-1] != offset):
                found.append(offset)
        for offset in found:
            heappush(returned, offset)
        return found

    def take(self, offset: int, pop_ms: int, end_ms: int, attempt: bool = True) -> Lease:
        """Lease a free offset again, or `head`; `pop_ms` is from `next_pop`. `attempt`: it counts as another delivery."""
        lease = self.leases.get(offset)
        if lease is None:
            assert offset == self.head
            lease = self.leases[offset] = Lease(pop_ms, end_ms, 1, pop_ms)
            self.head = offset + 1
        else:
            lease.pop_ms = pop_ms
            lease.end_ms = end_ms
            lease.free = False
            if attempt:
                lease.attempts += 1
        self.pop_ms = pop_ms
        self._schedule(end_ms, offset)
        self.changed[offset] = None
        return lease

    def pass_by(self, offset: int) -> None:
        """Settle `offset`, free or `head`, without a delivery: nobody in this group wants it."""
        if offset == self.head:
            self.head = offset + 1
        self._retire(offset)

    def pass_to(self, offset: int) -> None:
        """Settle all from `head` up to `offset`."""
        if offset > self.head:
            start, self.head = self.head, offset
            if start == self.floor:
                self._advance(offset)
            else:
                self.settled.add(start, offset)
                self.changed[start] = None
                self.changed[offset - 1] = None

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
        """Move the end of one lease, which is then called `new_pop_ms` (from `next_pop`, or the old one)."""
        lease = self.leases.get(offset)
        if lease is None or lease.pop_ms != pop_ms:
            return Failure(ErrorCode.RECEIPT_EXPIRED, f"offset {offset} is settled, or has been leased again since")
        lease.pop_ms = new_pop_ms
        lease.end_ms = end_ms
        lease.free = False
        self.pop_ms = max(self.pop_ms, new_pop_ms)
        self._schedule(end_ms, offset)
        self.changed[offset] = None
        return None

    def held(self, now: int) -> bool:
        """True while some lease has not ended: what an ordered queue waits for."""
        self.expire(now)
        return any(not lease.free for lease in self.leases.values())

    def overdue(self, offset: int, now: int) -> bool:
        """True when `offset`, free again, holds the floor too far back and has to go on elsewhere."""
        lease = self.leases[offset]
        return self.head - offset > FLOOR_SPAN_MAX or now - lease.first_ms >= FLOOR_HELD_MS_MAX

    def commit(self, offset: int) -> None:
        """Set the floor. Forward settles what lies below; back forgets all leases: everything from there on is free and new."""
        if offset < self.floor:
            self._reset(offset)
            return
        self.head = max(self.head, offset)
        if offset == self.floor:
            return
        for below in [at for at in self.leases if at < offset]:
            del self.leases[below]
        self._advance(offset)

    def _reset(self, offset: int) -> None:
        self.floor = self.head = offset
        self.leases.clear()
        self.settled = Ranges()
        self.ends.clear()
        self.returned.clear()
        self.changed.clear()
        self.reset_since = True

    def _schedule(self, end_ms: int, offset: int) -> None:
        if len(self.ends) > 2 * len(self.leases) + 64:
            self.ends = [(lease.end_ms, at) for at, lease in self.leases.items() if not lease.free]
            heapify(self.ends)
        else:
            heappush(self.ends, (end_ms, offset))

    def _retire(self, offset: int) -> None:
        self.leases.pop(offset, None)
        if offset == self.floor:
            self._advance(offset + 1)
        else:
            self.settled.add(offset, offset + 1)
            self.changed[offset] = None

    def _advance(self, floor: int) -> None:
        self.floor = self.settled.pop_from(floor) if len(self.settled) else floor
        if not self.leases:
            self.returned.clear()
            self.ends.clear()
