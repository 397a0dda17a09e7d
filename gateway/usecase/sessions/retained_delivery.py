"""Latest values for a filter that is new: found in slices, delivered as fast as the client takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.mqtt_session import AT_MOST_ONCE, Delivery, MqttSubscription, RoutedRecord
from domain.ports import Clock
from domain.record import Record
from domain.store_ports import State
from gateway.usecase.publish.latest import LatestScan, value_at
from gateway.usecase.sessions.mqtt_session import InFlightMessage, MqttSession, RetainedScan
from gateway.usecase.sessions.outbound import OutboundDelivery, level_of
from gateway.usecase.sessions.sys_topics import SysTopics

VALUES_PER_TURN: Final = 256
PATHS_PER_TURN: Final = 2_048
"""Of a million paths that a filter with leading wildcards looks at, a turn of the loop sees so many."""
STALLED_NS: Final = 20 * MILLISECOND_NS
"""How often a client is looked at that does not read."""


@final
class RetainedDelivery:
    """Goes on, by way of `again`, whenever there is more to do; a window that is full goes on when the client confirms."""

    __slots__ = ("_clock", "_continue", "_outbound", "_state", "_sys_topics")

    def __init__(
        self,
        state: State,
        clock: Clock,
        outbound: OutboundDelivery,
        sys_topics: SysTopics,
        again: Callable[[MqttSession], None],
    ) -> None:
        self._state = state
        self._clock = clock
        self._outbound = outbound
        self._sys_topics = sys_topics
        self._continue = again

    def begin(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """Show it what `interest` matches."""
        ready = list(self._sys_topics.paths_under(subscription.pattern))
        ready.reverse()
        session.retained_scans.append(RetainedScan(subscription, LatestScan(self._state, subscription.pattern), ready))

    def step(self, session: MqttSession) -> None:
        """One turn's worth, as far as the window and the connection let it."""
        connection = session.connection
        if connection is not None and connection.stalled:
            self._clock.call_at(self._clock.monotonic_ns() + STALLED_NS, lambda: self._continue(session))
            return
        sent = 0
        while session.retained_scans and sent < VALUES_PER_TURN:
            scan = session.retained_scans[0]
            if session.subscriptions.get(scan.subscription.pattern) is not scan.subscription:
                session.retained_scans.pop(0)
            elif scan.ready:
                data = self._sys_topics.value(scan.ready[-1]) or value_at(self._state, scan.ready[-1], self._clock.wall_ms())
                if data is not None and not self._send(session, scan, data):
                    return
                scan.ready.pop()
                sent += 1
            elif scan.walk.next_key is None:
                session.retained_scans.pop(0)
            else:
                scan.ready = scan.walk.slice(PATHS_PER_TURN)
                scan.ready.reverse()
                break
        if session.retained_scans:
            # By way of a timer: whoever has arrived meanwhile is read in between.
            self._clock.call_at(self._clock.monotonic_ns(), lambda: self._continue(session))

    def _send(self, session: MqttSession, scan: RetainedScan, data: bytes) -> bool:
        """False when there is no room for it."""
        subscription, path = scan.subscription, scan.ready[-1]
        record = Record(data)
        stored = record.properties
        level = min(level_of(stored), subscription.level)
        if level > AT_MOST_ONCE and session.full:
            return False
        identifiers = (subscription.identifier,) if subscription.identifier else ()
        routed = RoutedRecord(record, stored, path, level)
        if level > AT_MOST_ONCE:
            self._outbound.deliver(session, InFlightMessage(level, ("", 0), 0, path, True, identifiers), routed)
        else:
            session.outbox.append(Delivery(routed, AT_MOST_ONCE, 0, True, False, identifiers))
            self._outbound.schedule(session)
        return True
