"""The compacted view of all state records: the newest durable value of every key, in memory or in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure, StoreError
from domain.message.message import Placed
from domain.store.store_ports import StateChange
from store.log.open_batch import Done
from store.state import rows
from store.state.rows import RowCounts
from store.state.sorted_set import SortedSet
from store.state.values import StateValues

TOPIC: Final = "@topic"
GROUP: Final = "@group"
LEASE: Final = "@lease"
DROPPED: Final = "@dropped"
EMPTY: Final = "@empty"
TIMER: Final = "@timer"
HALF: Final = "@half"

FETCH_BYTES: Final = 256 * 1024
"""Bytes of values that are written again in one turn."""
FORGET_COST: Final = 4
"""Cost of forgetting a value, in visits."""

Append = Callable[[Sequence[StateChange], Done | None], None]
Read = Callable[[int, int], bytes]
Snapshotted = tuple[int, StateChange, bool]
"""(base of the segment of the newest record, change, True when its value is a row of 12 bytes)."""


@final
class Space:
    """The keys of one space.

    bytes     bytes of its keys and values
    removed   keys removed by their prefix, whose values are not forgotten yet
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.values = StateValues()
        self.keys: SortedSet[bytes] = SortedSet()
        self.removed: list[list[bytes]] = []

    def value(self, key: bytes) -> bytes | int | None:
        """The value of `key`, or its row; None when it has none."""
        value = self.values.get(key)
        return None if value is not None and self.removed and key not in self.keys else value


@final
class StateView:
    """All values, in memory or in the log; the port is in port.py.

    Spaces that begin with @ are the store's own (README.md). Topics are kept elsewhere (metadata.py).

    Long values stay in the log, with a row for each in memory. Invariant: a row points into an existing segment, since
    retention writes the values of a segment again before it deletes the segment.

    bytes       bytes of all keys and values
    _anchored   base of a segment -> number of values in memory whose newest records it holds
    _rows       number of rows for each segment
    """

    def __init__(self) -> None:
        self._spaces: dict[str, Space] = {}
        self._anchored: dict[int, int] = {}
        self._rows = RowCounts()
        self._followers: dict[str, list[Callable[[bytes, bytes | None], None]]] = {}
        self._read: Read | None = None
        self.bytes = 0

    def connect(self, read: Read) -> None:
        """Set the function that reads (position, size) of the log."""
        self._read = read

    def get(self, space: str, key: bytes) -> bytes | None:
        """One value as last made durable."""
        found = self._spaces.get(space)
        value = None if found is None else found.value(key)
        return self._fetch(value) if isinstance(value, int) else value

    def _fetch(self, row: int) -> bytes:
        """Read a long value. Raises StoreError when the log does not hold it, OSError when the disk fails."""
        position, size = rows.unpack(row)
        assert self._read is not None
        data = self._read(position, size)
        if len(data) != size:
            raise StoreError(f"the log holds no value of {size} bytes at {position}, where the state says one is")
        return data

    def keys(self, space: str, prefix: bytes, start: bytes, limit: int) -> list[bytes]:
        """At most `limit` keys that begin with `prefix`, from `start` on, in order: one slice of a scan."""
        found = self._spaces.get(space)
        out: list[bytes] = []
        for key in found.keys.since(max(prefix, start)) if found is not None else ():
            if len(out) == limit or not key.startswith(prefix):
                break
            out.append(key)
        return out

    def scan(self, space: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) pairs whose key begins with `prefix`, in key order, as they are at the time of the call."""
        found = self._spaces.get(space)
        if found is None:
            return iter(())
        pairs: list[tuple[bytes, bytes | int]] = []
        for key in found.keys.since(prefix):
            if not key.startswith(prefix):
                break
            value = found.values.get(key)
            if value is not None:
                pairs.append((key, value))
        return ((key, self._fetch(value) if isinstance(value, int) else value) for key, value in pairs)

    def follow(self, space: str, changed: Callable[[bytes, bytes | None], None]) -> None:
        """Call `changed` with each key of `space` that changes from now on, and its value."""
        self._followers.setdefault(space, []).append(changed)

    def apply(self, change: StateChange, base: int) -> None:
        """Apply a durable change whose record is in the segment at `base`."""
        key, value = change.key, change.value
        followers = self._followers.get(change.space)
        if value is None and is_beginning(change):
            self._remove_all(change.space, key)
        elif value is None:
            self._set(change.space, key, None, 0, base)
        elif change.at >= 0:
            self.put_row(change.space, key, rows.pack(change.at, len(value)), base)
        else:
            self._set(change.space, key, value, len(value), base)
        if followers is not None:
            for changed in followers:
                changed(key, value)

    def _remove_all(self, name: str, beginning: bytes) -> None:
        """Remove the keys that begin with `beginning`: at once, but `forget_removed` has to follow for all but a few."""
        space = self._spaces.get(name)
        if space is not None:
            space.removed += space.keys.take(beginning)
            next(self.forget_removed(), 0)

    def forget_removed(self) -> Iterator[int]:
        """Forget the values of keys that were removed by their beginning; yields the cost of each step, in visits."""
        for space in list(self._spaces.values()):
            while space.removed:
                keys = space.removed.pop()
                for key in keys:
                    if key in space.values and key not in space.keys:
                        self._forget(space, key)
                yield FORGET_COST * len(keys)

    def _forget(self, space: Space, key: bytes) -> None:
        """Forget the value of a key that is no longer among the sorted ones, if it has one."""
        old = space.values.get(key)
        if old is not None:
            self._uncount(space, key, old)
            space.values.remove(key)

    def _uncount(self, space: Space, key: bytes, old: bytes | int) -> None:
        """Stop counting the value of `key`, which will be removed or replaced."""
        if isinstance(old, int):
            position, size = rows.unpack(old)
            self._rows.remove(position)
        else:
            size = len(old)
            self._release(space.values.anchor(key))
        self._grow(space, -len(key) - size)

    def put_value(self, name: str, key: bytes, value: bytes, base: int) -> None:
        """Set `key` to a value that stays in memory, whose record is in the segment at `base`."""
        self._set(name, key, value, len(value), base)

    def put_row(self, name: str, key: bytes, row: int, base: int) -> None:
        """Set `key` to the long value that `row` refers to, in the segment at `base`."""
        self._set(name, key, row, rows.unpack(row)[1], base)

    def _set(self, name: str, key: bytes, value: bytes | int | None, size: int, base: int) -> None:
        space = self._spaces.get(name)
        if space is None:
            space = self._spaces[name] = Space()
        if space.removed and key not in space.keys:
            self._forget(space, key)
        old = space.values.get(key)
        if old is not None:
            self._uncount(space, key, old)
            if value is None:
                space.values.remove(key)
                space.keys.remove(key)
        if value is None:
            return
        if old is None:
            space.keys.add(key)
        space.values.put(key, value, base)
        self._grow(space, len(key) + size)
        if isinstance(value, int):
            self._rows.add(base)
        else:
            self._anchored[base] = self._anchored.get(base, 0) + 1

    def _release(self, base: int) -> None:
        """Note that the newest record of a value in memory is no longer in the segment at `base`."""
        left = self._anchored[base] - 1
        if left:
            self._anchored[base] = left
        else:
            del self._anchored[base]

    def _grow(self, space: Space, size: int) -> None:
        space.bytes += size
        self.bytes += size

    def size(self, space: str) -> tuple[int, int]:
        """(keys, bytes of keys and values) of one space."""
        found = self._spaces.get(space)
        return (0, 0) if found is None else (len(found.values), found.bytes)

    def refusal(self, change: StateChange) -> Failure | None:
        """QUOTA when `change` would make its space exceed `change.within`; None when it may be appended."""
        limit, value = change.within, change.value
        if limit is None or value is None:
            return None
        count, size = self.size(change.space)
        if count < limit.keys_max and size + len(change.key) + len(value) <= limit.bytes_max:
            return None
        old_size = self.size_of(change.space, change.key)
        if old_size >= 0 and (len(value) <= old_size or size - old_size + len(value) <= limit.bytes_max):
            return None
        text = f"{count} values of {size} bytes are kept in {change.space}, {limit.keys_max} of {limit.bytes_max} are allowed"
        return Failure(ErrorCode.QUOTA, text)

    def size_of(self, space: str, key: bytes) -> int:
        """Bytes of one value, -1: there is none."""
        found = self._spaces.get(space)
        value = None if found is None else found.values.get(key)
        if value is None:
            return -1
        return rows.unpack(value)[1] if isinstance(value, int) else len(value)

    def snapshot(self) -> Iterator[list[Snapshotted] | None]:
        """All keys, in lists of about a thousand, each in the order of segments; None for a list that holds nothing.

        The view may change between two lists.
        """
        for name, space in list(self._spaces.items()):
            for keys in _steps(space):
                found: list[Snapshotted] = []
                for key in keys:
                    value = space.values.get(key)
                    if isinstance(value, int):
                        base = self._rows.base_of(rows.unpack(value)[0])
                        found.append((base, StateChange(name, key, value.to_bytes(12, "big")), True))
                    elif value is not None:
                        found.append((space.values.anchor(key), StateChange(name, key, value), False))
                found.sort(key=_place)
                yield found or None

    def anchored_below(self, base: int) -> Iterator[list[StateChange]]:
        """Changes to write again before the segments before `base` may be deleted, in lists that one turn can look for.

        The view may change between two lists. Raises StoreError, OSError.
        """
        if not self._rows.any_below(base) and not any(each < base for each in self._anchored):
            return
        for name, space in list(self._spaces.items()):
            for keys in _steps(space):
                found: list[StateChange] = []
                size = 0
                for key in keys:
                    value = space.values.get(key)
                    if isinstance(value, int):
                        if rows.unpack(value)[0] < base:
                            found.append(StateChange(name, key, self._fetch(value)))
                            size += rows.unpack(value)[1]
                    elif value is not None and space.values.anchor(key) < base:
                        found.append(StateChange(name, key, value))
                        size += len(value)
                    if size >= FETCH_BYTES:
                        yield found
                        found, size = [], 0
                yield found

    def count(self) -> int:
        """Number of keys in all spaces."""
        return sum(len(space.values) for space in self._spaces.values())


def is_beginning(change: StateChange) -> bool:
    """True for the removal of all keys of `@empty` that begin with its key: a whole one is a name, a zero and a number."""
    return change.space == EMPTY and (b"\x00" not in change.key or change.key.endswith(b"\x00"))


def _steps(space: Space) -> Iterator[list[bytes]]:
    """The keys of a space in lists of about a thousand. The space may change between two lists."""
    keys = space.keys.after(b"")
    if b"" in space.values:
        yield [b""]
    while keys:
        yield keys
        keys = space.keys.after(keys[-1])


def _place(item: Snapshotted) -> tuple[int, bool]:
    return item[0], item[2]


def failure_only(done: Callable[[None | Failure], None]) -> Done:
    """The callback of an append whose caller needs only the failure, not the places of messages."""

    def answer(result: list[Placed] | Failure) -> None:
        done(result if isinstance(result, Failure) else None)

    return answer
