"""A space of few keys of the state, kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from domain.errors import Failure
from domain.store.store_ports import State, StateChange

Value = TypeVar("Value")


class FollowedSpace(Generic[Value]):
    """All values of one space of the state, so that a look-up asks no store. For a space whose user bounds the number of keys.

    A value is here as soon as it is durable, before `done` of its change.

    values   key -> value; one dictionary for the whole life, which readers do not change
    """

    def __init__(self, state: State, space: str, decode: Callable[[bytes], Value]) -> None:
        """`decode` reads a stored value; its exceptions are faults of the code, since `put` has stored the value."""
        self._state = state
        self._space = space
        self._decode = decode
        self._followers: list[Callable[[bytes, Value | None, Value | None], None]] = []
        self.values: dict[bytes, Value] = {}
        state.follow(space, self._changed)

    def follow(self, changed: Callable[[bytes, Value | None, Value | None], None]) -> None:
        """Call `changed(key, old, new)` with all that is there, and later with each change when `values` has it."""
        for key, value in self.values.items():
            changed(key, None, value)
        self._followers.append(changed)

    def put(self, changes: Mapping[bytes, bytes | None], done: Callable[[None | Failure], None] | None) -> None:
        """Set keys, and remove those whose value is None: all or none, durably before `done`. Failure: as `State.put`."""
        self._state.put([StateChange(self._space, key, value) for key, value in changes.items()], done)

    def _changed(self, key: bytes, value: bytes | None) -> None:
        old, new = self.values.get(key), None
        if value is not None:
            new = self.values[key] = self._decode(value)
        else:
            self.values.pop(key, None)
        for changed in self._followers:
            changed(key, old, new)
