"""Recovery of stored sessions after a start: each session once, in slices, while the node already serves clients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, final

from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.store.store_ports import State
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.retry_until_answered import ask_until_answered
from gateway.usecase.waiting.fan_in import FanIn

KEYS_PER_SLICE: Final = 192
"""State keys read in one slice: a session has one, and four of an earlier version."""

PAUSE_NS: Final = MILLISECOND_NS
"""Pause between two slices, so that connected clients are served first."""


@final
class SessionRecovery:
    """Calls `recover` once with the definition of each stored session, before anything else uses the session.

    `recover` calls its second argument when it has done its part. Each callback of `when_done` is called after the last
    session.

    under_way          True: not all stored sessions have been recovered
    _last              client of the last session: it has two keys when a node went back to an earlier version
    _recovered_early   clients that connected before the turn of their session
    _waiting           client whose session is being recovered -> the callbacks that wait for that
    """

    __slots__ = ("_clock", "_last", "_next", "_recover", "_recovered_early", "_state", "_waiting", "_when_done", "under_way")

    def __init__(
        self,
        state: State,
        clock: Clock,
        recover: Callable[[MqttSession, Callable[[], None]], None],
        *when_done: Callable[[], None],
    ) -> None:
        self._state = state
        self._clock = clock
        self._recover = recover
        self._when_done = when_done
        self._next = b""
        self._last = ""
        self._recovered_early: set[str] = set()
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self.under_way = True
        clock.call_soon(self._slice)

    def recover_now(self, client_id: str, then: Callable[[], None]) -> None:
        """Recover the session of a client that connects, unless it has been recovered; then call `then`."""
        if client_id in self._waiting:
            self._waiting[client_id].append(then)
        elif not self.under_way or client_id in self._recovered_early or snapshot.key(client_id, b"d") < self._next:
            then()
        else:
            self._recovered_early.add(client_id)
            self._one(client_id, then)

    def _one(self, client_id: str, then: Callable[[], None]) -> None:
        waiting = self._waiting[client_id] = [then]

        def recovered() -> None:
            del self._waiting[client_id]
            for each in waiting:
                each()

        def found(session: MqttSession | None) -> None:
            if session is None:
                recovered()
            else:
                self._recover(session, recovered)

        ask_until_answered(self._clock, partial(snapshot.outline, self._state, client_id), found)

    def _slice(self) -> None:
        ask = partial(self._state.keys, snapshot.SPACE, b"", self._next, KEYS_PER_SLICE)
        ask_until_answered(self._clock, ask, self._take)

    def _take(self, keys: list[bytes]) -> None:
        last = len(keys) < KEYS_PER_SLICE
        if keys:
            self._next = keys[-1] + b"\x00"
        clients: list[tuple[str]] = []
        for key in keys:
            name, _, kind = key.partition(b"\x00")
            client_id = name.decode()
            if kind in (b"d", b"e") and client_id != self._last and client_id not in self._recovered_early:
                clients.append((client_id,))
                self._last = client_id
        FanIn(self._ask_one, lambda *_: self._taken(last)).start(clients)

    def _ask_one(self, client_id: str, answer: Callable[[None | Failure], None]) -> None:
        self._one(client_id, lambda: answer(None))

    def _taken(self, last: bool) -> None:
        if not last:
            self._clock.call_at(self._clock.monotonic_ns() + PAUSE_NS, self._slice)
            return
        self.under_way = False
        self._recovered_early.clear()
        for step in self._when_done:
            step()
