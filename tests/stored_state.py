"""What a store's state holds, for tests: its port answers at once."""

from __future__ import annotations

from collections.abc import Sequence

from domain.errors import Failure
from domain.store.store_event import unheard
from domain.store.store_ports import State, StateChange, StatePairs
from store.events import StoreEvents
from store.log.open_batch import Done
from store.reads.repair_waits import RepairWaits
from store.state.port import StoredState
from store.state.view import StateView
from tests.simulation.kit.clock import VirtualClock


def asked(state: State, space: str, key: bytes) -> bytes | None | Failure:
    """The answer of `State.get`."""
    found: list[bytes | None | Failure] = []
    state.get(space, key, found.append)
    return found[0]


def value_of(state: State, space: str, key: bytes) -> bytes | None:
    """One value."""
    found = asked(state, space, key)
    assert not isinstance(found, Failure), found
    return found


def pairs(state: State, space: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
    """All keys that begin with `prefix`, and their values."""
    all_pairs: list[tuple[bytes, bytes]] = []
    start: bytes | None = prefix
    while start is not None:
        found: list[StatePairs | Failure] = []
        state.pairs(space, prefix, start, 100, found.append)
        slice_ = found[0]
        assert not isinstance(slice_, Failure), slice_
        all_pairs += slice_.pairs
        start = slice_.next_key
    return all_pairs


def memory_state() -> StoredState:
    """A state whose changes are durable at once."""
    view = StateView()

    def append(changes: Sequence[StateChange], done: Done | None) -> None:
        for change in changes:
            view.apply(change, 0)
        if done is not None:
            done([])

    return StoredState(
        view,
        append,
        (),
        StoreEvents(unheard, VirtualClock()),
        RepairWaits(VirtualClock(), StoreEvents(unheard, VirtualClock())),
    )
