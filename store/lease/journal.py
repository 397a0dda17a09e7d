"""Lease tables as state values: a value holds a whole table, or the changes since the previous value.

    flags 1 | floor 8 | head 8 | pop ms 8 | leases 4 | settled ranges 4 | attempt ids 2 + n
    flags: 1 whole, 2 ordered, 4 the attempt ids are added to the earlier ones
    a lease: first offset 8 | offsets 4 | pop ms 8 | end ms 8 | attempts 4, highest bits: pulled, fleeting | first ms 8
    attempt ids: pop ms, blank, id; a line each
    a settled range: from 8 | to 8

A value holds the newest state of each offset in it, not an operation: replaying a part of the log twice is harmless.
"""

from __future__ import annotations

import struct
from heapq import heapify
from typing import Final

from store.lease.ranges import Ranges
from store.lease.table import Lease, LeaseTable

WHOLE_FLAG: Final = 1
_ORDERED_FLAG: Final = 2
_ADDED_FLAG: Final = 4
_PULLED_BIT: Final = 1 << 31
_FLEETING_BIT: Final = 1 << 30
_ATTEMPTS_MASK: Final = _FLEETING_BIT - 1

_HEADER = struct.Struct(">BqqqIIH")
_LEASE = struct.Struct(">qIqqIq")
_RANGE = struct.Struct(">qq")


def key(group: str, topic: str, queue_id: int) -> bytes:
    """State key of a table. The topic comes first: the tables of a topic are neighbours."""
    return f"{topic}\x00{group}\x00{queue_id}".encode()


def parse_key(data: bytes) -> tuple[str, str, int]:
    """State key -> (group, topic, queue id)."""
    topic, group, queue_id = data.decode().split("\x00")
    return group, topic, int(queue_id)


def is_key(data: bytes) -> bool:
    """False for the prefix of a topic's state keys; a change that removes the prefix removes all tables of the topic."""
    return data.count(b"\x00") == 2


def is_idle(table: LeaseTable) -> bool:
    """True when the table has neither leases nor settled ranges: floor, head and pop time are its whole state."""
    return not table.leases and not len(table.settled)


def whole_value(table: LeaseTable) -> bytes:
    """Value of a whole table. Leaves `changed_offsets` as it is."""
    settled = list(zip(table.settled.starts, table.settled.ends, strict=True))
    return _encode(table, WHOLE_FLAG, sorted(table.leases), settled)


def idle_value(floor: int, pop_ms: int, ordered: bool) -> bytes:
    """Whole value of a table without leases and settled ranges."""
    return _HEADER.pack(WHOLE_FLAG | _ORDERED_FLAG if ordered else WHOLE_FLAG, floor, floor, pop_ms, 0, 0, 0)


def idle_facts(value: bytes) -> tuple[int, int, bool] | None:
    """(floor, pop time, ordered) of the value of an idle table; None for any other value."""
    if len(value) != _HEADER.size or not value[0] & WHOLE_FLAG:
        return None
    flags, floor, head, pop_ms, _, _, _ = _HEADER.unpack(value)
    return (floor, pop_ms, flags & _ORDERED_FLAG != 0) if head == floor else None


def changed_value(table: LeaseTable) -> tuple[bytes, bool]:
    """(value of the changes since the last call, True when it is a whole value). Clears `changed_offsets`."""
    is_whole = table.whole_due or is_idle(table) or len(table.changed_offsets) >= len(table.leases) + len(table.settled)
    if is_whole:
        value = whole_value(table)
    else:
        ranges: list[tuple[int, int]] = []
        held: list[int] = []
        settled = table.settled
        for offset in sorted(table.changed_offsets):
            if offset in table.leases:
                held.append(offset)
            elif offset >= table.floor and (not ranges or offset >= ranges[-1][1]):
                at = settled.around(offset)
                if at is not None:
                    ranges.append(at)
        value = _encode(table, 0, held, ranges)
    table.changed_offsets.clear()
    table.whole_due = False
    table.fresh_attempts = 0
    return value, is_whole


def _encode(table: LeaseTable, flags: int, offsets: list[int], settled: list[tuple[int, int]]) -> bytes:
    runs: list[bytes] = []
    at = 0
    while at < len(offsets):
        first = offsets[at]
        lease = table.leases[first]
        run = at + 1
        while run < len(offsets) and offsets[run] == first + run - at and _same_run(lease, table.leases[offsets[run]]):
            run += 1
        attempts = lease.attempts | (_PULLED_BIT if lease.pulled else 0) | (_FLEETING_BIT if lease.fleeting else 0)
        runs.append(_LEASE.pack(first, run - at, lease.pop_ms, lease.end_ms, attempts, lease.first_ms))
        at = run
    attempt = b""
    if table.ordered:
        flags |= _ORDERED_FLAG
    if table.attempt_pops:
        named = list(table.attempt_pops.items())
        if not flags & WHOLE_FLAG and not table.ordered:
            # An unordered group has too many concurrent attempts to write all of them each time.
            flags |= _ADDED_FLAG
            named = named[len(named) - min(table.fresh_attempts, len(named)) :]
        attempt = "\n".join([f"{pop_ms} {name}" for name, pop_ms in named]).encode()
    front = _HEADER.pack(flags, table.floor, table.head, table.pop_ms, len(runs), len(settled), len(attempt))
    return b"".join((front, attempt, *runs, *(_RANGE.pack(start, end) for start, end in settled)))


def _same_run(one: Lease, other: Lease) -> bool:
    # One call uses one pop time: leases with equal pop times have equal `pulled` and `fleeting`.
    return (
        one.pop_ms == other.pop_ms
        and one.end_ms == other.end_ms
        and one.attempts == other.attempts
        and one.first_ms == other.first_ms
    )


def apply(table: LeaseTable, value: bytes) -> None:
    """Apply `value` to `table`; values come in log order. Call `recovered` after the last one."""
    flags, floor, head, pop_ms, leases, ranges, length = _HEADER.unpack_from(value)
    at = _HEADER.size
    table.ordered = flags & _ORDERED_FLAG != 0
    if not flags & _ADDED_FLAG:
        table.attempt_pops.clear()
    for line in value[at : at + length].decode().split("\n") if length else ():
        named_ms, name = line.split(" ", 1)
        table.note_attempt(name, int(named_ms))
    at += length
    if flags & WHOLE_FLAG:
        table.leases.clear()
        table.settled = Ranges()
    for _ in range(leases):
        first, count, pop, end_ms, attempts, first_ms = _LEASE.unpack_from(value, at)
        at += _LEASE.size
        for offset in range(first, first + count):
            lease = table.leases[offset] = Lease(pop, end_ms, attempts & _ATTEMPTS_MASK, first_ms)
            lease.pulled = attempts & _PULLED_BIT != 0
            lease.fleeting = attempts & _FLEETING_BIT != 0
    for _ in range(ranges):
        start, end = _RANGE.unpack_from(value, at)
        at += _RANGE.size
        if end - start <= len(table.leases):
            for offset in range(start, end):
                table.leases.pop(offset, None)
        else:
            for offset in [held for held in table.leases if start <= held < end]:
                del table.leases[offset]
        table.settled.add(start, end)
    if floor > table.floor:
        for offset in [held for held in table.leases if held < floor]:
            del table.leases[offset]
    table.settled.pop_from(floor)
    table.floor, table.head, table.pop_ms = floor, head, pop_ms


def recovered(table: LeaseTable) -> None:
    """Rebuild the heap after the last `apply`. Leases that have ended become free at the next `expire`."""
    table.changed_offsets.clear()
    table.fresh_attempts = 0
    table.free_heap.clear()
    table.end_heap = [(lease.end_ms, offset) for offset, lease in table.leases.items()]
    heapify(table.end_heap)
    table.whole_due = False
    table.shared = not is_idle(table)
