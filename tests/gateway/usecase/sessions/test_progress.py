"""Storage of progress: each durable session once within a fraction of a second, in short turns of the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from domain.errors import Failure
from domain.store.store_ports import Expected, State, StateChange
from gateway.usecase.sessions.in_flight import InFlightMessage
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.progress_checkpoints import (
    CHECKPOINT_CHANGES,
    CHECKPOINT_NS,
    CHECKPOINT_SESSIONS,
    ProgressCheckpoints,
)
from tests.gateway.usecase.sessions.test_snapshot import store

Done = Callable[[None | Failure], None]


class WatchedState:
    """A store's state that notes how many changes each call puts."""

    def __init__(self, state: State) -> None:
        self._put = state.put
        self.get, self.pairs, self.keys, self.size, self.follow = state.get, state.pairs, state.keys, state.size, state.follow
        self.kept: list[int] = []

    def put(self, changes: Sequence[StateChange], done: Done | None, expected: Sequence[Expected] = ()) -> None:
        self.kept.append(len(changes))
        self._put(changes, done, expected)


def test_large_windows_are_put_on_record_over_many_turns() -> None:
    opened, clock = store()
    state = WatchedState(opened.state)
    checkpoints = ProgressCheckpoints(state, clock, lambda _lease: None)
    for number in range(8):
        session = MqttSession(f"c{number}")
        session.expiry_s = 1
        for slot in range(1, 401):
            session.in_flight[slot] = InFlightMessage(1, ("t", 0), slot, "", False, ())
            session.changed(slot)
        checkpoints.mark_dirty(session)
    clock.run_for(CHECKPOINT_NS // 1_000_000 + 20)
    assert sum(state.kept) == 8 * 400
    assert max(state.kept) < CHECKPOINT_CHANGES + 400


def test_many_sessions_are_put_on_record_over_many_turns() -> None:
    opened, clock = store()
    state = WatchedState(opened.state)
    kept = state.kept
    checkpoints = ProgressCheckpoints(state, clock, lambda _lease: None)
    sessions = [MqttSession(f"c{number}") for number in range(1_000)]
    for session in sessions:
        session.records.changed_queues[("t", 0)] = None
        checkpoints.mark_dirty(session)
        checkpoints.mark_dirty(session)
    clock.run_for(CHECKPOINT_NS // 1_000_000 + 20)
    assert sum(kept) == len(sessions)
    assert max(kept) <= CHECKPOINT_SESSIONS
    assert not any(session.dirty for session in sessions)
    for session in sessions[3:5]:
        session.records.changed_queues[("t", 0)] = None
        checkpoints.mark_dirty(session)
    checkpoints.forget(sessions[3])
    clock.run_for(CHECKPOINT_NS // 1_000_000 + 20)
    assert kept[-1] == 1
    assert sum(kept) == len(sessions) + 1
