"""Latest values for a filter that is new: found in slices, delivered as fast as the client takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.mqtt_session import AT_MOST_ONCE, Delivery, Interest, Parcel
from domain.ports import Clock, State
from domain.record import Record
from gateway.usecase.publish.latest import LatestScan, value_at
from gateway.usecase.sessions.facts import Facts
from gateway.usecase.sessions.mqtt_session import Flight, MqttSession, Show
from gateway.usecase.sessions.outflow import Outflow, level_of

VALUES_PER_TURN: Final = 256
PATHS_PER_TURN: Final = 2_048
"""Of a million paths that a filter with leading wildcards looks at, a turn of the loop sees so many."""
STALLED_NS: Final = 20 * MILLISECOND_NS
"""How often a client is looked at that does not read."""


@final
class Showing:
    """Goes on, by way of `again`, whenever there is more to do; a window that is full goes on when the client confirms."""

    __slots__ = ("_again", "_clock", "_facts", "_outflow", "_state")

    def __init__(
        self, state: State, clock: Clock, outflow: Outflow, facts: Facts, again: Callable[[MqttSession], None]
    ) -> None:
        self._state = state
        self._clock = clock
        self._outflow = outflow
        self._facts = facts
        self._again = again

    def begin(self, session: MqttSession, interest: Interest) -> None:
        """Show it what `interest` matches."""
        ready = list(self._facts.paths_under(interest.pattern))
        ready.reverse()
        session.latest.append(Show(interest, LatestScan(self._state, interest.pattern), ready))

    def step(self, session: MqttSession) -> None:
        """One turn's worth, as far as the window and the connection let it."""
        connection = session.connection
        if connection is not None and connection.stalled:
            self._clock.call_at(self._clock.monotonic_ns() + STALLED_NS, lambda: self._again(session))
            return
        sent = 0
        while session.latest and sent < VALUES_PER_TURN:
            show = session.latest[0]
            if session.interests.get(show.interest.pattern) is not show.interest:
                session.latest.pop(0)
            elif show.ready:
                data = self._facts.value(show.ready[-1]) or value_at(self._state, show.ready[-1], self._clock.wall_ms())
                if data is not None and not self._send(session, show, data):
                    return
                show.ready.pop()
                sent += 1
            elif show.walk.next_key is None:
                session.latest.pop(0)
            else:
                show.ready = show.walk.slice(PATHS_PER_TURN)
                show.ready.reverse()
                break
        if session.latest:
            # By way of a timer: whoever has arrived meanwhile is read in between.
            self._clock.call_at(self._clock.monotonic_ns(), lambda: self._again(session))

    def _send(self, session: MqttSession, show: Show, data: bytes) -> bool:
        """False when there is no room for it."""
        interest, path = show.interest, show.ready[-1]
        record = Record(data)
        stored = record.properties
        level = min(level_of(stored), interest.level)
        if level > AT_MOST_ONCE and session.full:
            return False
        identifiers = (interest.identifier,) if interest.identifier else ()
        parcel = Parcel(record, stored, path, level)
        if level > AT_MOST_ONCE:
            self._outflow.launch(session, Flight(level, ("", 0), 0, path, True, identifiers), parcel)
        else:
            session.outbox.append(Delivery(parcel, AT_MOST_ONCE, 0, True, False, identifiers))
            self._outflow.mark(session)
        return True
