"""Sessions without a connection: when each of them ends, and when its will is due."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from gateway.usecase.sessions.subscriber import Subscriber


@final
class Absences:
    """One timer over all sessions that are away. `due` is called with a client id whose session may have something due.

    An entry of a client that has returned in the meantime stays until its time, and `due` finds that nothing is to be done.
    """

    def __init__(self, clock: Clock, due: Callable[[str], None]) -> None:
        self._clock = clock
        self._due = due
        self._heap: list[tuple[int, str]] = []
        self._timer: Timer | None = None
        self._timer_ms = 0

    def add(self, subscriber: Subscriber) -> None:
        """The session is away from now on, or was when the node started: note what comes next for it."""
        moments = [moment for moment in (will_ms(subscriber), subscriber.ends_ms()) if moment >= 0]
        if moments:
            heapq.heappush(self._heap, (min(moments), subscriber.client_id))
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
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait_ms * MILLISECOND_NS, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_ms = self._clock.wall_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            _, client_id = heapq.heappop(self._heap)
            self._due(client_id)
        self._arm()


def will_ms(subscriber: Subscriber) -> int:
    """Wall clock at which the will of a session that is away is published: its delay, or the session's end; -1: no will."""
    if subscriber.will is None:
        return -1
    moment = subscriber.lost_ms + 1000 * subscriber.will.delay_s
    ends = subscriber.ends_ms()
    return moment if ends < 0 else min(moment, ends)
