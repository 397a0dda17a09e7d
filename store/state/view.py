"""The compacted view of all state records: the newest durable value of every key, in memory or in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from domain.errors import Failure, StoreError
from domain.message import Placed
from domain.store_ports import StateChange
from store.log.open_batch import Done
from store.state import rows
from store.state.anchors import Anchors
from store.state.keys import SortedKeys
from store.state.rows import RowCounts

TOPIC: Final = "@topic"
GROUP: Final = "@group"
LEASE: Final = "@lease"
DROPPED: Final = "@dropped"
EMPTY: Final = "@empty"
TIMER: Final = "@timer"
HALF: Final = "@half"

Append = Callable[[Sequence[StateChange], Done | None], None]
Read = Callable[[int, int], bytes]
Item = tuple[str, bytes]


@final
class Space:
    """The keys of one space.

    bytes    bytes of its keys and values
    values   key -> value, or the row of a long value (rows.py)
    keys     its keys, sorted
    """

    __slots__ = ("bytes", "keys", "values")

    def __init__(self) -> None:
        self.bytes = 0
        self.values: dict[bytes, bytes | int] = {}
        self.keys = SortedKeys()


@final
class StateView:
    """The `State` port. Spaces that begin with @ are the store's own (README.md).

    Long values stay in the log, with a row for each in memory. Invariant: a row points into an existing segment, since
    retention writes the values of a segment again before it deletes the segment.

    bytes      bytes of all keys and values
    _anchors   (space, key) of values in memory, by the segment that holds their newest record
    _rows      number of rows for each segment
    """

    def __init__(self) -> None:
        self._spaces: dict[str, Space] = {}
        self._anchors: Anchors[Item] = Anchors()
        self._rows = RowCounts()
        self._append: Append | None = None
        self._read: Read | None = None
        self.bytes = 0

    def connect(self, append: Append, read: Read) -> None:
        """Set how to append changes to the log, and how to read (position, size) of it."""
        self._append = append
        self._read = read

    def get(self, space: str, key: bytes) -> bytes | None:
        """One value as last made durable."""
        found = self._spaces.get(space)
        value = None if found is None else found.values.get(key)
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
            pairs.append((key, found.values[key]))
        return ((key, self._fetch(value) if isinstance(value, int) else value) for key, value in pairs)

    def put(self, changes: Sequence[StateChange], done: Callable[[None | Failure], None] | None) -> None:
        """Change keys, all or none, durably before `done` at the store's default level. ValueError for the store's spaces."""
        if any(change.space.startswith("@") for change in changes):
            raise ValueError("state spaces that begin with @ belong to the store")
        assert self._append is not None
        self._append(changes, None if done is None else failure_only(done))

    def apply(self, change: StateChange, base: int) -> None:
        """Apply a durable change whose record is in the segment at `base`."""
        key, value = change.key, change.value
        if value is None:
            self._set(change.space, key, None, 0, base)
        elif change.at >= 0:
            self.put_row(change.space, key, rows.pack(change.at, len(value)), base)
        else:
            self._set(change.space, key, value, len(value), base)

    def put_row(self, name: str, key: bytes, row: int, base: int) -> None:
        """Set `key` to the long value that `row` refers to, in the segment at `base`."""
        self._set(name, key, row, rows.unpack(row)[1], base)

    def _set(self, name: str, key: bytes, value: bytes | int | None, size: int, base: int) -> None:
        space = self._spaces.get(name)
        if space is None:
            space = self._spaces[name] = Space()
        old = space.values.get(key)
        if old is not None:
            if isinstance(old, int):
                position, old_size = rows.unpack(old)
                self._rows.remove(position)
            else:
                old_size = len(old)
                if value is None or isinstance(value, int):
                    self._anchors.forget((name, key))
            self._grow(space, -len(key) - old_size)
            if value is None:
                del space.values[key]
                space.keys.remove(key)
        if value is None:
            return
        if old is None:
            space.keys.add(key)
        space.values[key] = value
        self._grow(space, len(key) + size)
        if isinstance(value, int):
            self._rows.add(base)
        else:
            self._anchors.touch((name, key), base)

    def _grow(self, space: Space, size: int) -> None:
        space.bytes += size
        self.bytes += size

    def size(self, space: str) -> tuple[int, int]:
        """(keys, bytes of keys and values) of one space."""
        found = self._spaces.get(space)
        return (0, 0) if found is None else (len(found.values), found.bytes)

    def snapshot(self) -> Iterator[tuple[int, StateChange, bool] | None]:
        """(base of the segment, change, True when its value is a row of 12 bytes) of all keys (CheckpointSource).

        Values in memory come first, oldest first, then rows; None for each key that was looked at in vain. The view may change
        during the iteration.
        """
        for base, (name, key) in self._anchors.items():
            value = self._spaces[name].values.get(key)
            yield None if value is None or isinstance(value, int) else (base, StateChange(name, key, value), False)
        for name, space in list(self._spaces.items()):
            for key in list(space.values) if self._rows.total and not name.startswith("@") else ():
                value = space.values.get(key)
                if isinstance(value, int):
                    base = self._rows.base_of(rows.unpack(value)[0])
                    yield base, StateChange(name, key, value.to_bytes(12, "big")), True
                else:
                    yield None

    def anchored_below(self, base: int) -> Iterator[StateChange | None]:
        """Changes to write again before the segments before `base` may be deleted; None for a key that needs none.

        The view may change during the iteration. Raises StoreError, OSError.
        """
        for thing in self._anchors.below(base):
            value = self._spaces[thing[0]].values.get(thing[1])
            if value is None or isinstance(value, int) or not 0 <= self._anchors.base_of(thing) < base:
                yield None
            else:
                yield StateChange(thing[0], thing[1], value)
        for name, space in list(self._spaces.items()) if self._rows.any_below(base) else ():
            for key in list(space.values) if not name.startswith("@") else ():
                value = space.values.get(key)
                old = isinstance(value, int) and rows.unpack(value)[0] < base
                yield StateChange(name, key, self._fetch(value)) if old and isinstance(value, int) else None

    def count(self) -> int:
        """Number of keys in all spaces."""
        return len(self._anchors) + self._rows.total


def failure_only(done: Callable[[None | Failure], None]) -> Done:
    """The callback of an append whose caller needs only the failure, not the places of messages."""

    def answer(result: list[Placed] | Failure) -> None:
        done(result if isinstance(result, Failure) else None)

    return answer
