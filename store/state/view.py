"""The compacted view of all state records: the newest value of every key, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from domain.errors import Failure
from domain.message import Placed
from domain.ports import StateChange
from store.log.commit import Done
from store.state.anchors import Anchors
from store.state.keys import SortedKeys

TOPIC: Final = "@topic"
GROUP: Final = "@group"
LEASE: Final = "@lease"
DROPPED: Final = "@dropped"
EMPTY: Final = "@empty"
TIMER: Final = "@timer"
HALF: Final = "@half"

Append = Callable[[Sequence[StateChange], Done | None], None]
Item = tuple[str, bytes]


@final
class Space:
    """The keys of one space; `bytes` of keys and values."""

    __slots__ = ("bytes", "keys", "values")

    def __init__(self) -> None:
        self.bytes = 0
        self.values: dict[bytes, bytes] = {}
        self.keys = SortedKeys()


@final
class StateView:
    """The `State` port. Spaces that begin with @ are the store's own: topics, groups, and what the log must not forget."""

    def __init__(self) -> None:
        self._spaces: dict[str, Space] = {}
        self._anchors: Anchors[Item] = Anchors()
        self._append: Append | None = None
        self.bytes = 0

    def connect(self, append: Append) -> None:
        """Give the way into the log."""
        self._append = append

    def get(self, space: str, key: bytes) -> bytes | None:
        """One value as last made durable."""
        found = self._spaces.get(space)
        return None if found is None else found.values.get(key)

    def scan(self, space: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) pairs whose key begins with `prefix`, in key order, as they are now."""
        found = self._spaces.get(space)
        if found is None:
            return iter(())
        pairs: list[tuple[bytes, bytes]] = []
        for key in found.keys.since(prefix):
            if not key.startswith(prefix):
                break
            pairs.append((key, found.values[key]))
        return iter(pairs)

    def put(self, changes: Sequence[StateChange], done: Callable[[None | Failure], None] | None) -> None:
        """Change keys, all or none, durably before `done` at the store's default level. ValueError for the store's spaces."""
        if any(change.space.startswith("@") for change in changes):
            raise ValueError("state spaces that begin with @ belong to the store")
        assert self._append is not None
        self._append(changes, None if done is None else answering(done))

    def apply(self, change: StateChange, base: int) -> None:
        """A change that has become durable; its record is in the segment at `base`."""
        space = self._spaces.get(change.space)
        if space is None:
            space = self._spaces[change.space] = Space()
        key, value = change.key, change.value
        old = space.values.get(key)
        if value is None:
            if old is not None:
                del space.values[key]
                space.keys.remove(key)
                self._anchors.forget((change.space, key))
                self._grow(space, -len(key) - len(old))
            return
        if old is None:
            space.keys.add(key)
            self._grow(space, len(key) + len(value))
        else:
            self._grow(space, len(value) - len(old))
        space.values[key] = value
        self._anchors.touch((change.space, key), base)

    def _grow(self, space: Space, size: int) -> None:
        space.bytes += size
        self.bytes += size

    def size(self, space: str) -> tuple[int, int]:
        """(keys, bytes of keys and values) of one space."""
        found = self._spaces.get(space)
        return (0, 0) if found is None else (len(found.values), found.bytes)

    def items(self) -> list[tuple[int, Item]]:
        """(base of the segment, (space, key)) of every value, oldest record first."""
        return self._anchors.items()

    def anchored_below(self, base: int) -> list[StateChange]:
        """What has to be written again before the segments before `base` may go."""
        found: list[StateChange] = []
        for space, key in self._anchors.below(base):
            found.append(StateChange(space, key, self._spaces[space].values[key]))
        return found

    def count(self) -> int:
        """Keys in all spaces."""
        return len(self._anchors)


def answering(done: Callable[[None | Failure], None]) -> Done:
    """An append's answer, for those who only want to know whether it holds."""

    def answer(result: list[Placed] | Failure) -> None:
        done(result if isinstance(result, Failure) else None)

    return answer
