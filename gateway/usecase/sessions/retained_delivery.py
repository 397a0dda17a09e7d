"""Retained messages for new subscriptions (MQTT 5, 3.8.4): found in slices, delivered as fast as the client reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.delivery.routed import Delivery, RoutedRecord
from domain.limits import MILLISECOND_NS
from domain.mqtt_session import AT_MOST_ONCE, MqttSubscription
from domain.ports import Clock
from domain.record import Record
from domain.store_ports import State
from gateway.usecase.publish.latest import LatestScan, value_at
from gateway.usecase.sessions.mqtt_session import InFlightMessage, MqttSession, RetainedScan
from gateway.usecase.sessions.outbound import OutboundDelivery, level_of
from gateway.usecase.sessions.sys_topics import SysTopics

VALUES_PER_TURN: Final = 256
PATHS_PER_TURN: Final = 2_048
"""Paths that a scan compares with a wildcard filter in one turn of the loop."""
STALLED_NS: Final = 20 * MILLISECOND_NS
"""Time before delivery to a client that does not read is tried again."""


@final
class RetainedDelivery:
    """Delivers retained messages in turns of the loop.

    `again` schedules the next turn of a session. When the in-flight window is full, the next acknowledgement does.
    """

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
        """Start delivering the retained messages that `subscription` matches."""
        session.retained_scans.append(RetainedScan(subscription))

    def step(self, session: MqttSession) -> None:
        """Send the messages of one turn, as far as the in-flight window and the connection allow."""
        connection = session.connection
        if connection is not None and connection.stalled:
            self._clock.call_at(self._clock.monotonic_ns() + STALLED_NS, lambda: self._continue(session))
            return
        sent = 0
        while session.retained_scans and sent < VALUES_PER_TURN:
            scan = session.retained_scans[0]
            if session.subscriptions.get(scan.subscription.pattern) is not scan.subscription:
                session.retained_scans.pop(0)
                continue
            walk = scan.walk
            if walk is None:
                walk = scan.walk = LatestScan(self._state, scan.subscription.pattern)
                scan.ready = [*self._sys_topics.paths_under(scan.subscription.pattern)][::-1]
            if scan.ready:
                data = self._sys_topics.value(scan.ready[-1]) or value_at(self._state, scan.ready[-1], self._clock.wall_ms())
                if data is not None and not self._send(session, scan, data):
                    return
                scan.ready.pop()
                sent += 1
            elif walk.next_key is None:
                session.retained_scans.pop(0)
            else:
                scan.ready = walk.slice(PATHS_PER_TURN)
                scan.ready.reverse()
                break
        if session.retained_scans:
            # By a timer, so that the loop reads its sockets in between.
            self._clock.call_at(self._clock.monotonic_ns(), lambda: self._continue(session))

    def _send(self, session: MqttSession, scan: RetainedScan, data: bytes) -> bool:
        """Send one retained message; False when the in-flight window is full."""
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
