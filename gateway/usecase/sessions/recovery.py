"""Recovery of stored sessions after a start: each session once, in slices, while the node already serves clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.store_ports import State
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.mqtt_session import MqttSession

KEYS_PER_SLICE: Final = 512
"""State keys read in one slice; a session has two to four."""

PAUSE_NS: Final = MILLISECOND_NS
"""Pause between two slices, so that connected clients are served first."""


@final
class SessionRecovery:
    """Calls `recover` once with the definition of each stored session, before anything else uses the session.

    Each callback of `when_done` is called after the last session.

    under_way   True: not all stored sessions have been recovered
    """

    __slots__ = ("_clock", "_next", "_recover", "_recovered_early", "_state", "_when_done", "under_way")

    def __init__(
        self, state: State, clock: Clock, recover: Callable[[MqttSession], None], *when_done: Callable[[], None]
    ) -> None:
        self._state = state
        self._clock = clock
        self._recover = recover
        self._when_done = when_done
        self._next = b""
        self._recovered_early: set[str] = set()
        self.under_way = True
        clock.call_soon(self._slice)

    def recover_now(self, client_id: str) -> None:
        """Recover the session of a client that connects, unless it has been recovered."""
        if not self.under_way or client_id in self._recovered_early or snapshot.key(client_id, b"d") < self._next:
            return
        self._recovered_early.add(client_id)
        found = snapshot.outline(self._state, client_id)
        if found is not None:
            self._recover(found)

    def _slice(self) -> None:
        keys = self._state.keys(snapshot.SPACE, b"", self._next, KEYS_PER_SLICE)
        if keys:
            self._next = keys[-1] + b"\x00"
        for key in keys:
            name, _, kind = key.partition(b"\x00")
            client_id = name.decode()
            if kind == b"d" and client_id not in self._recovered_early:
                found = snapshot.outline(self._state, client_id)
                if found is not None:
                    self._recover(found)
        if len(keys) == KEYS_PER_SLICE:
            self._clock.call_at(self._clock.monotonic_ns() + PAUSE_NS, self._slice)
            return
        self.under_way = False
        self._recovered_early.clear()
        for step in self._when_done:
            step()
