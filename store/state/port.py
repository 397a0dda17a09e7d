"""The `State` port over the view: every question is answered at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, final

from domain.errors import ErrorCode, Failure, StoreError
from domain.store.store_ports import PAIRS_BYTES, Expected, StateChange, StatePairs
from store.events import StoreEvents
from store.log.open_batch import Done
from store.reads.repair_waits import RepairWaits, unreadable
from store.state.view import StateView, failure_only

_WHAT: Final = "the answer of a question to the state"


@final
class StoredState:
    """`domain.store.store_ports.State`.

    unapplied   (space, key) of changes that are accepted and not durable yet
    repairs     long values that cannot be read wait for a repair
    """

    def __init__(
        self,
        view: StateView,
        append: Callable[[Sequence[StateChange], Done | None], None],
        unapplied: Collection[tuple[str, bytes]],
        events: StoreEvents,
        repairs: RepairWaits,
    ) -> None:
        self._repairs = repairs
        self._view = view
        self._append = append
        self._unapplied = unapplied
        self._events = events

    def get(self, space: str, key: bytes, done: Callable[[bytes | None | Failure], None]) -> None:
        """State.get."""
        try:
            value = self._view.get(space, key)
        except (OSError, StoreError) as error:
            failure = self._unreadable(error)
            if not self._repairs.hold(failure, done, partial(self.get, space, key, done)):
                done(failure)
            return
        done(value)

    def pairs(self, space: str, prefix: bytes, start: bytes, limit: int, done: Callable[[StatePairs | Failure], None]) -> None:
        """State.pairs."""
        found: list[tuple[bytes, bytes]] = []
        size = 0
        keys = self._view.keys(space, prefix, start, limit)
        try:
            for key in keys:
                value = self._view.get(space, key)
                assert value is not None
                found.append((key, value))
                size += len(key) + len(value)
                if size >= PAIRS_BYTES:
                    break
        except (OSError, StoreError) as error:
            failure = self._unreadable(error)
            if not self._repairs.hold(failure, done, partial(self.pairs, space, prefix, start, limit, done)):
                done(failure)
            return
        more = len(found) == limit or len(found) < len(keys)
        done(StatePairs(found, found[-1][0] + b"\x00" if more and found else None))

    def _unreadable(self, error: OSError | StoreError) -> Failure:
        self._events.unreadable(error)
        return unreadable(error, f"the state cannot be read: {error}")

    def keys(self, space: str, prefix: bytes, start: bytes, limit: int, done: Callable[[list[bytes] | Failure], None]) -> None:
        """State.keys."""
        done(self._view.keys(space, prefix, start, limit))

    def size(self, space: str, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """State.size."""
        done(self._view.size(space))

    def put(
        self,
        changes: Sequence[StateChange],
        done: Callable[[None | Failure], None] | None,
        expected: Sequence[Expected] = (),
    ) -> None:
        """State.put. Writes nothing when nothing changes. Raises ValueError for the spaces of the store."""
        if any(change.space.startswith("@") for change in changes):
            raise ValueError("state spaces that begin with @ belong to the store")
        for each in expected:
            if (each.space, each.key) in self._unapplied or self._view.get(each.space, each.key) != each.value:
                if done is not None:
                    done(Failure(ErrorCode.CHANGED, f"the value of {each.space} {each.key!r} is not the one expected"))
                return
        if changes and all(self._is_so(change) for change in changes):
            if done is not None:
                done(None)
            return
        self._append(changes, None if done is None else failure_only(done))

    def _is_so(self, change: StateChange) -> bool:
        """True when the key has this value, and no change of it is under way: there is nothing to write."""
        if (change.space, change.key) in self._unapplied:
            return False
        size = -1 if change.value is None else len(change.value)
        if self._view.size_of(change.space, change.key) != size:
            return False
        try:
            return self._view.get(change.space, change.key) == change.value
        except (OSError, StoreError):
            return False

    def follow(self, space: str, changed: Callable[[bytes, bytes | None], None]) -> None:
        """State.follow."""
        for key, value in self._view.scan(space, b""):
            changed(key, value)
        self._view.follow(space, lambda key, value: self._events.run(_WHAT, changed, key, value))
