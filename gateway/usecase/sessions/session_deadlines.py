"""Deadlines of disconnected sessions: the expiry of each, and the publication of its will."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain.lazy_heap import LazyHeap
from domain.limits import MILLISECOND_NS
from domain.ports import Timer
from domain.walk import UNANSWERED_BYTES, PausingWalk, Walks
from gateway.usecase.sessions.mqtt_session import MqttSession


@final
class SessionDeadlines:
    """One timer for all disconnected sessions. Calls `due` with the name of a session at its deadline.

    Many sessions that disconnected together are due together: `due` is called in a walk. The deadline of a client that has
    reconnected stays: `due` checks whether something is to be done. A client has one deadline, the earliest.
    """

    __slots__ = ("_by_moment", "_clock", "_due", "_timer", "_timer_ms", "_unanswered_bytes", "_walking", "_walks")

    def __init__(self, walks: Walks, due: Callable[[str], None], unanswered_bytes: Callable[[], int]) -> None:
        """`unanswered_bytes`: of the store, to which `due` writes."""
        self._walks = walks
        self._unanswered_bytes = unanswered_bytes
        self._clock = walks.clock
        self._due = due
        self._by_moment: LazyHeap[str] = LazyHeap()
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._walking = False

    def __len__(self) -> int:
        return len(self._by_moment.places)

    def add(self, session: MqttSession) -> None:
        """Add the next deadline of a session that is disconnected."""
        moments = [moment for moment in (will_ms(session), session.expires_ms()) if moment >= 0]
        if not moments:
            return
        moment, name = min(moments), session.name
        known = self._by_moment.places.get(name)
        if known is None or known[0] > moment:
            self._by_moment.put(name, moment)
            self._arm()

    def _arm(self) -> None:
        first = self._by_moment.first()
        if first is None or self._walking:
            return
        moment = first[0]
        if self._timer is not None:
            if self._timer_ms <= moment:
                return
            self._timer.cancel()
        self._timer_ms = moment
        wait_ms = max(0, moment - self._clock.wall_ms())
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait_ms * MILLISECOND_NS, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._walking = True
        self._walks.begin(self._all_due())

    def _all_due(self) -> PausingWalk:
        first = self._by_moment.first()
        while first is not None and first[0] <= self._clock.wall_ms():
            self._by_moment.remove(first[2])
            self._due(first[2])
            yield self._unanswered_bytes() > UNANSWERED_BYTES
            first = self._by_moment.first()
        self._walking = False
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
