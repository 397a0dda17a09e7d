"""Storage of progress: each durable session once within a fraction of a second, in short turns of the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from domain.errors import Failure
from domain.store_ports import State, StateChange
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.outbound import CHECKPOINT_NS, CHECKPOINT_SESSIONS, OutboundDelivery
from tests.gateway.usecase.sessions.test_snapshot import store

Done = Callable[[None | Failure], None]


class WatchedState:
    """A store's state that notes how many changes each call puts."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.kept: list[int] = []

    def get(self, space: str, key: bytes) -> bytes | None:
        return self._state.get(space, key)

    def scan(self, space: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._state.scan(space, prefix)

    def keys(self, space: str, prefix: bytes, start: bytes, limit: int) -> list[bytes]:
        return self._state.keys(space, prefix, start, limit)

    def size(self, space: str) -> tuple[int, int]:
        return self._state.size(space)

    def put(self, changes: Sequence[StateChange], done: Done | None) -> None:
        self.kept.append(len(changes))
        self._state.put(changes, done)


def test_many_sessions_are_put_on_record_over_many_turns() -> None:
    opened, clock = store()
    state = WatchedState(opened.state)
    kept = state.kept
    outbound = OutboundDelivery(state, clock, lambda lease: None)
    sessions = [MqttSession(f"c{number}") for number in range(1_000)]
    for session in sessions:
        outbound.mark_dirty(session)
        outbound.mark_dirty(session)
    clock.run_for(CHECKPOINT_NS // 1_000_000 + 20)
    assert sum(kept) == len(sessions)
    assert max(kept) <= CHECKPOINT_SESSIONS
    assert not any(session.dirty for session in sessions)
    outbound.mark_dirty(sessions[3])
    outbound.mark_dirty(sessions[4])
    outbound.forget(sessions[3])
    clock.run_for(CHECKPOINT_NS // 1_000_000 + 20)
    assert kept[-1] == 1
    assert sum(kept) == len(sessions) + 1
