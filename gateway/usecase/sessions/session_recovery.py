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
    _last              name of the last session: it has two keys when a node went back to an earlier version
    _recovered_early   names of sessions whose clients connected before their turn
    _waiting           name of a session that is being recovered -> the callbacks that wait for that
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

    def recover_now(self, name: str, then: Callable[[], None]) -> None:
        """Recover the session of a client that connects, unless it has been recovered; then call `then`."""
        if name in self._waiting:
            self._waiting[name].append(then)
        elif not self.under_way or name in self._recovered_early or snapshot.key(name, b"d") < self._next:
            then()
        else:
            self._recovered_early.add(name)
            self._one(name, then)

    def _one(self, name: str, then: Callable[[], None]) -> None:
        waiting = self._waiting[name] = [then]

        def recovered() -> None:
            del self._waiting[name]
            for each in waiting:
                each()

        def found(session: MqttSession | None) -> None:
            if session is None:
                recovered()
            else:
                self._recover(session, recovered)

        ask_until_answered(self._clock, partial(snapshot.outline, self._state, name), found)

    def _slice(self) -> None:
        ask = partial(self._state.keys, snapshot.SPACE, b"", self._next, KEYS_PER_SLICE)
        ask_until_answered(self._clock, ask, self._take)

    def _take(self, keys: list[bytes]) -> None:
        last = len(keys) < KEYS_PER_SLICE
        if keys:
            self._next = keys[-1] + b"\x00"
        names: list[tuple[str]] = []
        for key in keys:
            before, _, kind = key.partition(b"\x00")
            name = before.decode()
            if kind in (b"d", b"e") and name != self._last and name not in self._recovered_early:
                names.append((name,))
                self._last = name
        FanIn(self._ask_one, lambda *_: self._taken(last)).start(names)

    def _ask_one(self, name: str, answer: Callable[[None | Failure], None]) -> None:
        self._one(name, lambda: answer(None))

    def _taken(self, last: bool) -> None:
        if not last:
            self._clock.call_at(self._clock.monotonic_ns() + PAUSE_NS, self._slice)
            return
        self.under_way = False
        self._recovered_early.clear()
        for step in self._when_done:
            step()
