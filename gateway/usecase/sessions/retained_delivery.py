"""Retained messages for new subscriptions (MQTT 5, 3.8.4): found in slices, delivered as fast as the client reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain.client.mqtt_session import AT_MOST_ONCE, MqttSubscription
from domain.delivery.routed import Delivery, RoutedRecord
from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.message.record import Record
from domain.ports import Clock
from domain.store.store_ports import MessageLog, State
from gateway.usecase.publish.latest import RACE_MS, LatestScan, LiveValues, read_value
from gateway.usecase.sessions.in_flight import InFlightMessage
from gateway.usecase.sessions.live_delivery import LiveDelivery
from gateway.usecase.sessions.mqtt_session import MqttSession, RetainedScan
from gateway.usecase.sessions.publisher import level_of
from gateway.usecase.sessions.retry_until_answered import ask_until_answered
from gateway.usecase.sessions.sys_topics import SysTopics
from gateway.usecase.waiting.fan_in import FanIn

IN_FLIGHT_BYTES: Final = 64
"""Bytes that a stored delivery counts for, besides its path."""
VALUES_PER_TURN: Final = 256
PATHS_PER_TURN: Final = 2_048
"""Paths that a scan compares with a wildcard filter in one turn of the loop."""
VALUES_TOGETHER: Final = 16
"""Values that the store is asked for at a time."""
STALLED_NS: Final = 20 * MILLISECOND_NS
"""Time before delivery to a client that does not read is tried again."""


@final
class RetainedDelivery:
    """Delivers retained messages in turns of the loop.

    `again` schedules the next turn of a session. When the in-flight window is full, the next acknowledgement does.
    """

    __slots__ = ("_clock", "_continue", "_log", "_outbound", "_state", "_sys_topics")

    def __init__(
        self,
        log: MessageLog,
        state: State,
        clock: Clock,
        outbound: LiveDelivery,
        sys_topics: SysTopics,
        again: Callable[[MqttSession], None],
    ) -> None:
        self._log = log
        self._state = state
        self._clock = clock
        self._outbound = outbound
        self._sys_topics = sys_topics
        self._continue = again

    def scans(self, session: MqttSession, subscriptions: Sequence[MqttSubscription]) -> list[RetainedScan]:
        """Scans for the retained messages that new subscriptions match. They leave out what comes live from now on."""
        if not subscriptions:
            return []
        live = session.live_values
        if live is None:
            live = session.live_values = LiveValues()
        live.coming += len(subscriptions)
        return [RetainedScan(each, live.number, self._clock.wall_ms()) for each in subscriptions]

    def begin(self, session: MqttSession, scans: Sequence[RetainedScan], failed: bool) -> None:
        """The subscriptions of these scans are answered: the retained messages follow, unless they have failed."""
        if session.live_values is not None:
            session.live_values.coming -= len(scans)
        if not failed:
            session.retained_scans += scans
        self._close(session)

    def _close(self, session: MqttSession) -> None:
        live = session.live_values
        if live is not None and not live.coming and not session.retained_scans:
            session.live_values = None

    def step(self, session: MqttSession) -> None:
        """Send the messages of one turn, as far as the in-flight window and the connection allow."""
        connection = session.connection
        if connection is not None and connection.stalled:
            self._clock.call_at(self._clock.monotonic_ns() + STALLED_NS, lambda: self._continue(session))
            return
        sent = 0
        while session.retained_scans and sent < VALUES_PER_TURN:
            scan = session.retained_scans[0]
            pattern = scan.subscription.pattern
            if session.subscriptions.get(pattern) is not scan.subscription:
                session.retained_scans.pop(0)
            elif scan.asking:
                return
            elif scan.values:
                if not self._send(session, scan, *scan.values[0]):
                    return
                scan.values.popleft()
                sent += 1
            elif scan.ready:
                self._read(session, scan)
            elif scan.walk is None:
                scan.walk = LatestScan(self._state, pattern)
                scan.ready = [*self._sys_topics.paths_under(pattern)][::-1]
            elif scan.walk.next_key is None:
                session.retained_scans.pop(0)
            else:
                self._poll(session, scan, scan.walk)
                break
        self._close(session)
        if session.retained_scans and not session.retained_scans[0].asking:
            # By a timer, so that the loop reads its sockets in between.
            self._clock.call_at(self._clock.monotonic_ns(), lambda: self._continue(session))

    def _poll(self, session: MqttSession, scan: RetainedScan, walk: LatestScan) -> None:
        """Ask for the next paths."""
        answered = self._asking(session, scan)

        def found(paths: list[str]) -> None:
            scan.ready = paths[::-1]
            answered()

        ask_until_answered(self._clock, partial(walk.slice, PATHS_PER_TURN), found)
        scan.waited = scan.asking

    def _read(self, session: MqttSession, scan: RetainedScan) -> None:
        """Ask for the values of the next paths."""
        paths = scan.ready[: -VALUES_TOGETHER - 1 : -1]
        del scan.ready[-len(paths) :]
        answered = self._asking(session, scan)

        def found(values: dict[tuple[str], bytes | None], _: Failure | None) -> None:
            scan.values.extend((path, value) for (path,), value in values.items() if value is not None)
            if any(Record(value).store_ms > scan.since_ms - RACE_MS for _, value in scan.values):
                # Their messages are given live, or were before the subscription, when all before are.
                self._log.append((), lambda _: self._outbound.after_arrivals(answered))
            else:
                answered()

        FanIn(self._value, found).start((path,) for path in paths)
        scan.waited = scan.asking

    def _value(self, path: str, done: Callable[[bytes | None | Failure], None]) -> None:
        status = self._sys_topics.value(path)
        if status is not None:
            done(status)
        else:
            ask_until_answered(self._clock, partial(read_value, self._state, path, self._clock), done)

    def _asking(self, session: MqttSession, scan: RetainedScan) -> Callable[[], None]:
        """The store is asked for the scan. Call the result when it has answered: `step` goes on if it has returned by then."""
        scan.asking = True
        scan.waited = False

        def answered() -> None:
            scan.asking = False
            if scan.waited:
                self._continue(session)

        return answered

    def _send(self, session: MqttSession, scan: RetainedScan, path: str, data: bytes) -> bool:
        """Send one retained message unless it, or a newer one, has come live; False when the in-flight window is full."""
        subscription = scan.subscription
        record = Record(data)
        stored = record.properties
        if session.live_values is not None and session.live_values.has(path, scan.since):
            return True
        level = min(level_of(stored), subscription.level)
        if level > AT_MOST_ONCE and session.full:
            return False
        identifiers = (subscription.identifier,) if subscription.identifier else ()
        routed = RoutedRecord(record, stored, path, level)
        if level > AT_MOST_ONCE:
            if session.connection is not None and session.durable:  # what is in flight is stored, with its path
                session.connection.wrote(IN_FLIGHT_BYTES + len(path))
            self._outbound.deliver(session, InFlightMessage(level, ("", 0), 0, path, True, identifiers), routed)
        else:
            session.outbox.append(Delivery(routed, AT_MOST_ONCE, 0, True, False, identifiers))
            self._outbound.schedule(session)
        return True
