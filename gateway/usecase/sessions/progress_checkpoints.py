"""Checkpoints: storage of the progress of durable sessions."""

from __future__ import annotations

from itertools import islice
from typing import Final, final

from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.store.store_ports import State, StateChange
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.mqtt_session import MqttSession

CHECKPOINT_NS: Final = 200 * MILLISECOND_NS
"""Longest time for which progress of a durable session is newer in memory than in the store."""

CHECKPOINT_SESSIONS: Final = 256
"""Sessions whose progress is stored in one turn; the others follow a millisecond later."""

CHECKPOINT_CHANGES: Final = 1_024
"""Changes after which the others follow, too: a session has two for each message of its window, at most."""


@final
class ProgressCheckpoints:
    """Stores the progress of sessions some time after it has changed."""

    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._dirty: dict[MqttSession, None] = {}

    def mark_dirty(self, session: MqttSession) -> None:
        """Store the session's progress within CHECKPOINT_NS."""
        if session.dirty:
            return
        session.dirty = True
        if not self._dirty:
            self._clock.call_at(self._clock.monotonic_ns() + CHECKPOINT_NS, self._checkpoint)
        self._dirty[session] = None

    def forget(self, session: MqttSession) -> None:
        """Do not store the session's progress: the caller stores or removes it."""
        self._dirty.pop(session, None)
        session.dirty = False

    def _checkpoint(self) -> None:
        written: list[snapshot.SessionChanges] = []
        changes: list[StateChange] = []
        for session in list(islice(self._dirty, CHECKPOINT_SESSIONS)):
            if len(changes) >= CHECKPOINT_CHANGES:
                break
            del self._dirty[session]
            written.append(snapshot.progress(session))
            changes += written[-1].changes
        if self._dirty:
            self._clock.call_at(self._clock.monotonic_ns() + MILLISECOND_NS, self._checkpoint)

        def done(result: None | Failure) -> None:
            for each in written:
                each.settle(result)

        if changes:
            self._state.put(changes, done)
