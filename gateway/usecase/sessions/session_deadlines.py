"""Deadlines of disconnected sessions: the expiry of each, and the publication of its will."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from gateway.usecase.sessions.mqtt_session import MqttSession

DUE_PER_TURN: Final = 256
"""Sessions handled in one turn of the loop: many sessions that disconnected together are due together."""

STALE_MAX: Final = 64
"""Replaced heap entries that are kept besides as many as there are sessions; beyond that all replaced entries are removed."""


@final
class SessionDeadlines:
    """One timer for all disconnected sessions. Calls `due` with the client id of a session at its deadline.

    The entry of a client that has reconnected stays until its deadline: `due` checks whether something is to be done. A client
    has one entry however often it disconnects, and a second one only when an earlier deadline comes up.
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
        """Add the next deadline of a session that is disconnected."""
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
    """Wall clock in milliseconds at which the will of a disconnected session is published; -1: no will.

    That is the end of the Will Delay Interval or of the session, whichever comes first (MQTT 5, 3.1.3.2.2).
    """
    if session.will is None:
        return -1
    moment = session.disconnected_ms + 1000 * session.will.delay_s
    ends = session.expires_ms()
    return moment if ends < 0 else min(moment, ends)
