"""Sessions without a connection: when each of them ends, and when its will is due."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from gateway.usecase.sessions.mqtt_session import MqttSession

DUE_PER_TURN: Final = 256
"""Of many that were lost together many are due together: others have their turn between them."""

STALE_MAX: Final = 64
"""Entries that something earlier has taken the place of, besides as many as are in force: beyond that all of them go."""


@final
class SessionDeadlines:
    """One timer over all sessions that are away. `due` is called with a client id whose session may have something due.

    An entry of a client that has returned in the meantime stays until its time, and `due` finds that nothing is to be done.
    However often a client comes and goes, it has one entry: another one only for what is due earlier.
    """

    __slots__ = ("_clock", "_due", "_heap", "_next", "_timer", "_timer_ms")

    def __init__(self, clock: Clock, due: Callable[[str], None]) -> None:
        self._clock = clock
        self._due = due
        self._heap: list[tuple[int, str]] = []
        self._next: dict[str, int] = {}
        self._timer: Timer | None = None
        self._timer_ms = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, session: MqttSession) -> None:
        """The session is away from now on, or was when the node started: note what comes next for it."""
        moments = [moment for moment in (will_ms(session), session.expires_ms()) if moment >= 0]
        if not moments:
            return
        moment, client_id = min(moments), session.client_id
        if self._next.get(client_id, moment + 1) > moment:
            self._next[client_id] = moment
            heapq.heappush(self._heap, (moment, client_id))
            if len(self._heap) > 2 * len(self._next) + STALE_MAX:
                self._heap = [(at, name) for name, at in self._next.items()]
                heapq.heapify(self._heap)
            self._arm()

    def _arm(self) -> None:
        if not self._heap:
            return
        moment = self._heap[0][0]
        if self._timer is not None:
            if self._timer_ms <= moment:
                return
            self._timer.cancel()
        self._timer_ms = moment
        wait_ms = max(0, moment - self._clock.wall_ms())
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait_ms * MILLISECOND_NS, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_ms = self._clock.wall_ms()
        for _ in range(DUE_PER_TURN):
            if not self._heap or self._heap[0][0] > now_ms:
                break
            moment, client_id = heapq.heappop(self._heap)
            if self._next.get(client_id) == moment:
                del self._next[client_id]
                self._due(client_id)
        self._arm()


def will_ms(session: MqttSession) -> int:
    """Wall clock at which the will of a session that is away is published: its delay, or the session's end; -1: no will."""
    if session.will is None:
        return -1
    moment = session.disconnected_ms + 1000 * session.will.delay_s
    ends = session.expires_ms()
    return moment if ends < 0 else min(moment, ends)
