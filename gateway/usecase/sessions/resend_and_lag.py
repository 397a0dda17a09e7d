"""Reads from the log for sessions that reconnect or are slow: retransmissions, retained messages, lagging queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeVar

from domain.address import path_in
from domain.client.mqtt_session import AT_MOST_ONCE, DeliveriesAccepted
from domain.delivery.expiry import has_expired
from domain.delivery.retry_owner import origin_topic
from domain.delivery.routed import Delivery, RoutedRecord
from domain.errors import Failure
from domain.limits import PULL_BYTES_MAX, SECOND_NS
from domain.message import property as properties
from domain.message.record import Record
from domain.octets import uint64
from domain.ports import Clock
from domain.store.message_store import MessageStore
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from gateway.access.path_rights import PathRights
from gateway.routing.routes import is_routed, topic_of_filter
from gateway.usecase.publish.latest import read_value
from gateway.usecase.sessions.in_flight import InFlightMessage, QueueKey
from gateway.usecase.sessions.index.filter_index import FilterIndex
from gateway.usecase.sessions.live_delivery import LiveDelivery
from gateway.usecase.sessions.mqtt_session import MergedSubscription, MqttSession
from gateway.usecase.sessions.publisher import is_from, level_of
from gateway.usecase.sessions.retained_delivery import RetainedDelivery
from gateway.usecase.sessions.retry_until_answered import ask_until_answered
from gateway.usecase.sessions.sys_topics import SysTopics

T = TypeVar("T")

READ_BYTES_MAX: Final = 1024 * 1024
READ_RECORDS_MAX: Final = 256
"""Records of one read of the log."""
CLOCKS_MS: Final = 10_000
"""By how much the clock of a store may be behind the one of this node."""
UNREAD_MAX: Final = 64
"""Lagging queues of one session that are tried without a pause while none can be read."""
QUEUES_PER_TURN_MAX: Final = 512
"""Queues of one session that are checked for lag in one turn of the loop."""

EXPIRED: Final = "expired"
GONE: Final = "gone"
TOO_LARGE: Final = "too-large"
NOT_ALLOWED: Final = "not-allowed"
"""Losses of a message above QoS 0 to a session: it has expired, is no longer stored, is too large for the client, or was sent
before by a subscription that the user may not have any more."""


class CatchUp:
    """Brings a session up to date, with one read of the log at a time.

    The order is: retransmission of in-flight messages, retained messages of new subscriptions, lagging queues.

    lost                number of messages lost to their sessions, by EXPIRED, GONE, TOO_LARGE and NOT_ALLOWED
    """

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        outbound: LiveDelivery,
        sys_topics: SysTopics,
        filter_index: FilterIndex,
        freed: Callable[[MqttSession], None],
        rights: PathRights,
    ) -> None:
        """`freed` is called with a session whose slot has become free without an answer of its client."""
        log, metadata, state = store.log, store.metadata, store.state
        self._rights = rights
        self._freed = freed
        self.retained_delivery = RetainedDelivery(log, state, clock, outbound, sys_topics, self.catch_up)
        self.lost = {EXPIRED: 0, GONE: 0, TOO_LARGE: 0, NOT_ALLOWED: 0}
        self._filter_index = filter_index
        self._log = log
        self._metadata = metadata
        self._state = state
        self._clock = clock
        self._outbound = outbound

    def resume(self, session: MqttSession) -> None:
        """The client has connected: send in-flight messages again, then missed messages, then new messages as they arrive."""
        session.finding_lag = True
        self._outbound.resume(session)
        accepted = [slot for slot, flight in session.in_flight.items() if flight.accepted]
        session.to_resend.extend(slot for slot, flight in session.in_flight.items() if not flight.accepted)
        for subscription in session.subscriptions.values():
            self._outbound.connect(session, subscription)
        if accepted and session.connection is not None:
            session.connection.answer(DeliveriesAccepted(accepted))
        self._find_lag(session, session.epoch, self._queues_of(session))

    def _queues_of(self, session: MqttSession) -> Iterator[QueueKey]:
        """Every queue that may hold messages for the session above AT_MOST_ONCE."""
        subscriptions = [subscription for subscription in session.subscriptions.values() if subscription.level > AT_MOST_ONCE]
        names = {topic_of_filter(subscription.pattern) for subscription in subscriptions}
        wanted = filter(is_routed, self._metadata.topic_names()) if "" in names else iter(sorted(names))
        for name in wanted:
            topic = self._metadata.topic(name)
            if topic is not None:
                yield from ((name, at) for at in range(max(topic.read_queues, topic.write_queues)))
        # A topic that a far store does not know yet after a start lags until it can be read.
        for queue in list(session.positions):
            if self._metadata.topic(queue[0]) is None and ("" in names or queue[0] in names):
                yield queue

    def _find_lag(self, session: MqttSession, epoch: int, queues: Iterator[QueueKey]) -> None:
        """Check all queues for lag, QUEUES_PER_TURN_MAX in each turn of the loop."""
        if session.epoch != epoch:
            return
        more = False
        for number, queue in enumerate(queues, 1):
            self._find_lag_of(session, queue)
            if number == QUEUES_PER_TURN_MAX:
                more = True
                break
        if more:
            self._clock.call_soon(lambda: self._find_lag(session, epoch, queues))
            return
        session.finding_lag = False
        self.catch_up(session)

    def _find_lag_of(self, session: MqttSession, queue: QueueKey) -> None:
        """Enter `queue` in the session's lag, from the session's position in it."""
        topic = self._metadata.topic(queue[0])
        if topic is not None and queue in session.positions and topic.created_ms > session.left_ms > 0:
            # The topic was deleted and created again while the session was away.
            session.positions[queue] = 0
            session.records.changed_queues[queue] = None
        # Without a baseline, the topic or this queue of it was created after the session subscribed.
        position = session.positions.get(queue, -session.baseline_ms)
        session.lag[queue] = min(position, session.lag.get(queue, position))

    def catch_up(self, session: MqttSession) -> None:
        """Continue with retransmissions, retained messages and lagging queues, as far as the in-flight window allows."""
        if session.connection is None or session.catching_up or session.finding_lag:
            return
        if session.to_resend:
            if len(session.in_flight) - len(session.to_resend) < session.window:
                self._resend(session)
            return
        if session.retained_scans:
            self.retained_delivery.step(session)
        if not session.lag:
            session.left_ms = 0
        if not session.lag or session.full:
            return
        queue = next(iter(session.lag))
        if session.lag[queue] < 0:
            self._search(session, queue)
            return
        room = session.window - len(session.in_flight)
        limit = min(READ_RECORDS_MAX, max(16, 4 * room))
        offset, count = self._filter_index.following(session.subscriptions.values(), queue, session.lag[queue], limit)
        self._read(session, queue, offset, count or limit, READ_BYTES_MAX, self._deliver_read)

    def restart_topic(self, session: MqttSession, topic: str) -> None:
        """A topic was deleted and created again under a connected session."""
        for queue in [queue for queue in session.positions if queue[0] == topic]:
            self.begin_at(session, queue, 0)

    def begin_at(self, session: MqttSession, queue: QueueKey, offset: int) -> None:
        """The messages of a queue from `offset` on are others than those before, and new for a connected session."""
        if queue in session.lag:
            # What arrived behind `offset` is not there any more: nothing waits for it, or lies before the lag.
            session.missed.pop(queue, None)
            session.lag[queue] = min(offset, session.lag[queue])
        if session.positions.get(queue, 0) <= offset:
            return
        session.positions[queue] = offset
        session.records.changed_queues[queue] = None
        if session.durable:
            self._outbound.checkpoints.mark_dirty(session)

    def _search(self, session: MqttSession, queue: QueueKey) -> None:
        """Look for the first message of a lagging queue that was stored since a time: reading begins there."""

        def found(offset: int) -> None:
            session.lag[queue] = offset
            self._clock.call_soon(lambda: self.catch_up(session))

        self._log.search(*queue, -session.lag[queue], False, self._asked(session, queue, found))

    def _asked(self, session: MqttSession, queue: QueueKey, found: Callable[[T], None]) -> Callable[[T | Failure], None]:
        """Begin to ask the log about a queue. The answer is for this connection of the session alone."""
        session.catching_up = True
        epoch = session.epoch

        def done(result: T | Failure) -> None:
            if session.epoch != epoch:
                return
            session.catching_up = False
            if isinstance(result, Failure):
                self._read_failed(session, queue)
                return
            session.unread = 0
            found(result)

        return done

    def _read_failed(self, session: MqttSession, queue: QueueKey) -> None:
        """Try other lagging queues first, since the broker of this one may be away; pause when none can be read."""
        if queue in session.lag:
            session.lag[queue] = session.lag.pop(queue)
        session.unread += 1
        now = self._clock.monotonic_ns()
        if session.to_resend or session.unread >= min(len(session.lag), UNREAD_MAX):
            session.unread = 0
            now += SECOND_NS
        self._clock.call_at(now, lambda: self.catch_up(session))

    def _read(
        self,
        session: MqttSession,
        queue: QueueKey,
        offset: int,
        limit: int,
        most: int,
        then: Callable[[MqttSession, QueueKey, ReadResult], None],
    ) -> None:
        def found(result: ReadResult) -> None:
            then(session, queue, result)
            # By a timer, so that other work of the loop runs between two reads.
            self._clock.call_at(self._clock.monotonic_ns(), lambda: self.catch_up(session))

        self._log.read(ReadRequest(queue[0], queue[1], offset, limit, most), self._asked(session, queue, found))

    def _deliver_read(self, session: MqttSession, queue: QueueKey, result: ReadResult) -> None:
        self._filter_index.trim(session.subscriptions.values(), queue, result.min_offset)
        for data in result.records:
            offset = uint64(data, 20)
            if session.full:
                session.lag[queue] = offset
                return
            self._deliver_record(session, data, queue, offset)
        session.lag.pop(queue, None)
        end = result.status == "EMPTY" or result.next_offset >= result.max_offset
        if result.status == "TOO_LARGE":
            # The position lies behind the end: the topic was deleted and created again, or a broker has lost its newest
            # messages. What has come while the session was away is found by time, once.
            self._filter_index.forget(queue)
            if session.left_ms > CLOCKS_MS and session.positions.get(queue, 0) >= 0:
                session.positions[queue] = session.lag[queue] = CLOCKS_MS - session.left_ms
                return
            session.positions[queue] = result.next_offset
        if end and session.missed.get(queue, -1) < result.next_offset:
            session.missed.pop(queue, None)
        else:
            # Entered last, so that lagging queues take turns.
            session.lag[queue] = result.next_offset

    def _deliver_record(self, session: MqttSession, data: bytes, queue: QueueKey, offset: int) -> None:
        """Deliver one record read from the log if a subscription matches it and it has not expired."""
        record = Record(data)
        stored = record.properties
        origin = properties.find(stored, properties.ORIGIN_MQTT_TOPIC_START)
        path, subscriptions = session.matching(queue[0], origin, uint64(data, 28))
        if subscriptions and is_from(stored, session.client_id, session.user):
            subscriptions = [subscription for subscription in subscriptions if not subscription.no_local]
        if not subscriptions:
            return
        merged = MergedSubscription(session, subscriptions)
        level = min(level_of(stored), merged.level)
        if level > AT_MOST_ONCE and has_expired(data, self._clock.wall_ms()):
            self.lost[EXPIRED] += 1
        elif level > AT_MOST_ONCE:
            retained = merged.as_published and properties.find(stored, properties.MQTT_RETAIN_START) == b"true"
            flight = InFlightMessage(level, queue, offset, "", retained, merged.identifiers)
            self._outbound.deliver(session, flight, RoutedRecord(record, stored, path, level))
            if not offset:
                session.firsts[queue] = record.physical_offset

    def _resend(self, session: MqttSession) -> None:
        """Send the oldest in-flight message that this connection has not been sent yet."""
        slot = session.to_resend[0]
        flight = session.in_flight.get(slot)
        if flight is None:
            session.to_resend.pop(0)
            self._clock.call_soon(lambda: self.catch_up(session))
        elif flight.path:
            self._resend_value(session, flight.path)
        else:
            self._read(session, flight.queue, flight.offset, 1, PULL_BYTES_MAX, self._resend_read)

    def _resend_value(self, session: MqttSession, path: str) -> None:
        session.catching_up = True
        epoch = session.epoch

        def got(value: bytes | None) -> None:
            if session.epoch != epoch:
                return
            session.catching_up = False
            self._resend_record(session, path, value)
            self._clock.call_soon(lambda: self.catch_up(session))

        ask_until_answered(self._clock, partial(read_value, self._state, path, self._clock), got)

    def _resend_read(self, session: MqttSession, queue: QueueKey, result: ReadResult) -> None:
        data = result.records[0] if result.records else None
        path = ""
        if data is not None:
            flight = session.in_flight.get(session.to_resend[0])
            there = uint64(data, 20)
            if flight is None or flight.offset != there:
                data = None
            elif has_expired(data, self._clock.wall_ms()):
                self._abandon_resend(session, EXPIRED)
                return
            else:
                stored = Record(data).properties
                # A member of a shared subscription may have got the message from the group's retry topic.
                path = path_in(origin_topic(queue[0], stored), properties.find(stored, properties.ORIGIN_MQTT_TOPIC_START))
        self._resend_record(session, path, data)

    def _resend_record(self, session: MqttSession, path: str, data: bytes | None) -> None:
        """Send the message with the DUP flag. Without `data` the record is no longer stored: free its slot."""
        flight = session.in_flight.get(session.to_resend[0])
        if flight is None or data is None:
            self._abandon_resend(session, GONE)
            return
        if not session.wants(path) and self._rights.read_denial(session.connection, path) is not None:
            self._abandon_resend(session, NOT_ALLOWED)
            return
        slot = session.to_resend.pop(0)
        flight.size = len(data)
        session.in_flight_bytes += flight.size
        record = Record(data)
        routed = RoutedRecord(record, record.properties, path, flight.level)
        session.outbox.append(Delivery(routed, flight.level, slot, flight.retained, True, flight.identifiers))
        self._outbound.schedule(session)

    def _abandon_resend(self, session: MqttSession, reason: str) -> None:
        """Free the slot of a message that cannot be sent again, and count it as lost."""
        slot = session.to_resend.pop(0)
        if slot in session.in_flight:
            self.lost[reason] += 1
            session.free_slot(slot)
            self._outbound.checkpoints.mark_dirty(session)
            self._freed(session)
