"""Idle lease tables as sorted columns; a live table has a marked row.

A row is a key and three integers, 24 bytes beside the key; snapshots write and read the columns as they are.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final, final

from store.checkpoint.columns import ColumnReader, pack, pack_names
from store.lease.lag_sums import RowSums
from store.state.sorted_set import first_behind

CHUNK_ROWS: Final = 512
LIVE: Final = -1
"""Floor of a live table; the other columns of its row are void."""
_BITS: Final = 10
_MASK: Final = (1 << _BITS) - 1


@final
class Chunk:
    """Rows of neighbouring keys.

    keys     state keys, ascending
    floors   floor of each table, LIVE for live ones
    pops     newest pop time, epoch ms
    bases    base of the segment with its newest value, twice; odd for an ordered table
    sums     sums of these rows for the walk over the lag (lag.py); None when a row has changed
    """

    __slots__ = ("bases", "floors", "keys", "pops", "sums")

    def __init__(self, keys: list[bytes], floors: array[int], pops: array[int], bases: array[int]) -> None:
        self.keys = keys
        self.floors = floors
        self.pops = pops
        self.bases = bases
        self.sums: RowSums | None = None

    def note_change(self, row: int) -> None:
        """Forget the sums that a change of this row makes wrong."""
        if self.sums is not None and self.sums.depend_on(row):
            self.sums = None

    def part(self, begin: int, end: int) -> Chunk:
        """Copy of the rows [`begin`, `end`)."""
        return Chunk(self.keys[begin:end], self.floors[begin:end], self.pops[begin:end], self.bases[begin:end])

    def remove(self, begin: int, end: int) -> None:
        """Remove the rows [`begin`, `end`)."""
        self.sums = None
        del self.keys[begin:end]
        del self.floors[begin:end]
        del self.pops[begin:end]
        del self.bases[begin:end]

    def idle(self) -> Chunk:
        """Rows of idle tables; this chunk itself when none is live."""
        floors = self.floors
        if LIVE not in floors:
            return self
        rows = [row for row, floor in enumerate(floors) if floor != LIVE]
        pops, bases = self.pops, self.bases
        return Chunk(
            [self.keys[row] for row in rows],
            array("q", [floors[row] for row in rows]),
            array("q", [pops[row] for row in rows]),
            array("q", [bases[row] for row in rows]),
        )

    def encode(self) -> bytes:
        """Body of a snapshot frame."""
        return pack_names(self.keys) + pack(self.floors) + pack(self.pops) + pack(self.bases)


def decode(body: bytes) -> Chunk:
    """Rows of the body of a snapshot frame."""
    reader = ColumnReader(body)
    keys = reader.names()
    floors, pops, bases = reader.integers(), reader.integers(), reader.integers()
    return Chunk(keys if floors else [], array("q", floors), array("q", pops), array("q", bases))


@final
class IdleTables:
    """Rows of all lease tables, by state key. A place is the number of a row, valid until a row is added or removed.

    _chunks   the rows in order; no chunk is empty
    _firsts   first key of each chunk
    _found    place of the last hit of `find`: successive keys are often neighbours
    """

    def __init__(self) -> None:
        self.count = 0
        self._chunks: list[Chunk] = []
        self._firsts: list[bytes] = []
        self._found = 0

    def find(self, key: bytes) -> int:
        """Place of the row of `key`; -1 without a row."""
        at, row = self._found >> _BITS, (self._found & _MASK) + 1
        if at < len(self._chunks):
            keys = self._chunks[at].keys
            if row < len(keys) and keys[row] == key:
                self._found += 1
                return self._found
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            return -1
        keys = self._chunks[at].keys
        row = bisect_left(keys, key)
        if row == len(keys) or keys[row] != key:
            return -1
        self._found = at << _BITS | row
        return self._found

    def floor(self, place: int) -> int:
        """Floor of the table at `place`; LIVE for a live one."""
        return self._chunks[place >> _BITS].floors[place & _MASK]

    def pop_ms(self, place: int) -> int:
        """Newest pop time of the idle table at `place`, epoch ms."""
        return self._chunks[place >> _BITS].pops[place & _MASK]

    def base(self, place: int) -> int:
        """Base of the segment with the newest value of the idle table at `place`."""
        return self._chunks[place >> _BITS].bases[place & _MASK] >> 1

    def ordered(self, place: int) -> bool:
        """True when the idle table at `place` is ordered."""
        return self._chunks[place >> _BITS].bases[place & _MASK] & 1 == 1

    def set(self, place: int, floor: int, pop_ms: int, base: int, ordered: bool) -> None:
        """Overwrite the row at `place`."""
        chunk, row = self._chunks[place >> _BITS], place & _MASK
        chunk.floors[row] = floor
        chunk.pops[row] = pop_ms
        chunk.bases[row] = base << 1 | (1 if ordered else 0)

    def put(self, key: bytes, floor: int, pop_ms: int, base: int, ordered: bool) -> None:
        """Insert or overwrite the row of `key`."""
        marked = base << 1 | (1 if ordered else 0)
        if not self._chunks:
            self._chunks.append(Chunk([key], array("q", (floor,)), array("q", (pop_ms,)), array("q", (marked,))))
            self._firsts.append(key)
            self.count += 1
            return
        at = max(bisect_right(self._firsts, key) - 1, 0)
        chunk = self._chunks[at]
        keys = chunk.keys
        row = bisect_left(keys, key)
        if row < len(keys) and keys[row] == key:
            chunk.note_change(row)
            chunk.floors[row] = floor
            chunk.pops[row] = pop_ms
            chunk.bases[row] = marked
            return
        self.count += 1
        if len(keys) >= CHUNK_ROWS:
            # Ascending keys fill a chunk to its end; any other insertion halves it.
            half = CHUNK_ROWS if row == len(keys) and at == len(self._chunks) - 1 else CHUNK_ROWS // 2
            fresh = chunk.part(half, len(keys))
            chunk.remove(half, len(keys))
            self._chunks.insert(at + 1, fresh)
            self._firsts.insert(at + 1, fresh.keys[0] if fresh.keys else key)
            if row > half or (row == half and not fresh.keys):
                at += 1
                chunk = fresh
                row -= half
        chunk.sums = None
        chunk.keys.insert(row, key)
        chunk.floors.insert(row, floor)
        chunk.pops.insert(row, pop_ms)
        chunk.bases.insert(row, marked)
        self._firsts[at] = chunk.keys[0]

    def mark_live(self, place: int) -> None:
        """Mark the table at `place` as live."""
        chunk = self._chunks[place >> _BITS]
        chunk.note_change(place & _MASK)
        chunk.floors[place & _MASK] = LIVE

    def rebase(self, key: bytes, base: int) -> None:
        """Set the base of the segment with the newest value of an idle table."""
        place = self.find(key)
        if place >= 0:
            bases = self._chunks[place >> _BITS].bases
            bases[place & _MASK] = base << 1 | bases[place & _MASK] & 1

    def remove(self, key: bytes) -> bool:
        """Remove the row of `key`; False without a row."""
        place = self.find(key)
        if place < 0:
            return False
        at, row = place >> _BITS, place & _MASK
        chunk = self._chunks[at]
        chunk.remove(row, row + 1)
        self._trim(at)
        self.count -= 1
        return True

    def _trim(self, at: int) -> None:
        """Update the first key of chunk number `at` after a removal, or remove the chunk when it is empty."""
        keys = self._chunks[at].keys
        if keys:
            self._firsts[at] = keys[0]
        else:
            del self._chunks[at]
            del self._firsts[at]

    def take(self, prefix: bytes) -> list[Chunk]:
        """Remove and return the rows whose keys begin with `prefix`. The cost grows with the chunks, not with the rows."""
        taken: list[Chunk] = []
        at = max(bisect_right(self._firsts, prefix) - 1, 0)
        begin = at
        kept: list[Chunk] = []
        while at < len(self._chunks) and (self._firsts[at] <= prefix or self._firsts[at].startswith(prefix)):
            chunk = self._chunks[at]
            keys = chunk.keys
            low = bisect_left(keys, prefix)
            high = low
            if low < len(keys) and keys[low].startswith(prefix):
                high = len(keys) if keys[-1].startswith(prefix) else first_behind(keys, prefix, low)
            if high - low == len(keys):
                taken.append(chunk)
            else:
                if high > low:
                    taken.append(chunk.part(low, high))
                    chunk.remove(low, high)
                kept.append(chunk)
            self.count -= high - low
            at += 1
        self._chunks[begin:at] = kept
        self._firsts[begin:at] = [chunk.keys[0] for chunk in kept]
        return taken

    def load(self, chunk: Chunk) -> None:
        """Insert the rows of a chunk that was read from a snapshot."""
        keys = chunk.keys
        if not keys:
            return
        if self._chunks and keys[0] <= self._chunks[-1].keys[-1]:
            for row, key in enumerate(keys):
                marked = chunk.bases[row]
                self.put(key, chunk.floors[row], chunk.pops[row], marked >> 1, marked & 1 == 1)
            return
        for begin in range(0, len(keys), CHUNK_ROWS):
            part = chunk if len(keys) <= CHUNK_ROWS else chunk.part(begin, begin + CHUNK_ROWS)
            self._chunks.append(part)
            self._firsts.append(part.keys[0])
        self.count += len(keys)

    def behind(self, key: bytes) -> tuple[Chunk | None, int]:
        """(chunk of the lowest key behind `key`, row of that key in it); (None, 0) when there is none.

        The chunk is no copy: it is valid until a row is added or removed.
        """
        at = max(bisect_right(self._firsts, key) - 1, 0)
        while at < len(self._chunks):
            chunk = self._chunks[at]
            begin = bisect_right(chunk.keys, key)
            if begin < len(chunk.keys):
                return chunk, begin
            at += 1
        return None, 0

    def after(self, key: bytes) -> Chunk | None:
        """Copy of the next rows behind `key`, at most CHUNK_ROWS; None at the end. One step of a walk over all rows."""
        at = max(bisect_right(self._firsts, key) - 1, 0)
        while at < len(self._chunks):
            chunk = self._chunks[at]
            begin = bisect_right(chunk.keys, key)
            if begin < len(chunk.keys):
                return chunk.part(begin, len(chunk.keys))
            at += 1
        return None
