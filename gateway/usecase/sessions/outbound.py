"""From the log to the sessions that keep up, and what each of them has confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from domain import property as properties
from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.mqtt_session import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    Deliveries,
    DeliveriesAccepted,
    Delivery,
    MqttSubscription,
    RoutedRecord,
)
from domain.ports import Clock
from domain.record import Record
from domain.store_ports import State, StateChange
from gateway.routing.routes import SubscriberRoutes
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.mqtt_session import (
    DeliveryLease,
    InFlightMessage,
    MergedSubscription,
    MqttSession,
    QueueKey,
    merge_by_session,
)

CHECKPOINT_NS: Final = 200 * MILLISECOND_NS
"""How long the progress of a durable session may be younger in memory than in the store."""

CHECKPOINT_SESSIONS: Final = 256
"""Of so many sessions the progress is put on record in one turn; the others follow a millisecond later."""


def level_of(stored: bytes) -> int:
    """The promise that the sender of a message made: its `qosLevel`; AT_LEAST_ONCE for what did not come by MQTT."""
    value = properties.find(stored, properties.QOS_LEVEL_START)
    if value == b"0":
        return AT_MOST_ONCE
    return EXACTLY_ONCE if value == b"2" else AT_LEAST_ONCE


def is_from(stored: bytes, client_id: str) -> bool:
    """True when the message was sent by the MQTT client `client_id`."""
    return (
        properties.find(stored, properties.HG_CLIENT_START) == client_id.encode()
        and properties.find(stored, properties.HG_PROTOCOL_START) == b"mqtt"
    )


class OutboundDelivery:
    """Delivery to all attached sessions. One Deliveries event a session a loop turn.

    A delivery above AT_MOST_ONCE takes a slot of the session's window. When there is none, the queue that it came from
    begins to lag, and is read from the log as slots become free (`catchup`): a slow client costs a number, not memory.
    `settle` is told of leases whose messages have done their duty.
    """

    def __init__(self, state: State, clock: Clock, settle: Callable[[DeliveryLease], None]) -> None:
        self._settle = settle
        self._state = state
        self._clock = clock
        self._routes: SubscriberRoutes[tuple[MqttSession, MqttSubscription], list[MergedSubscription]] = SubscriberRoutes(
            merge_by_session
        )
        self._roots: dict[str, int] = {}
        self._busy: dict[MqttSession, None] = {}
        self._dirty: dict[MqttSession, None] = {}
        self.log_end = 0

    @property
    def subscription_count(self) -> int:
        """How many filters of attached sessions there are."""
        return self._routes.size

    # Filters

    def listens(self, root: str) -> bool:
        """True when some filter of an attached session may match paths below `root`, whose first level is no wildcard."""
        return self._roots.get(root.partition("/")[0], 0) > 0

    def connect(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """Deliver by this filter from now on."""
        root = subscription.pattern.partition("/")[0]
        self._roots[root] = self._roots.get(root, 0) + 1
        self._routes.insert(subscription.pattern, (session, subscription))

    def disconnect(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """No longer."""
        root = subscription.pattern.partition("/")[0]
        left = self._roots.get(root, 0) - 1
        if left > 0:
            self._roots[root] = left
        else:
            self._roots.pop(root, None)
        self._routes.remove(subscription.pattern, (session, subscription))

    # Live

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """StoreListener: hand each record to those whom its path reaches."""
        if not records:
            return
        self.log_end = max(self.log_end, int.from_bytes(records[-1][28:36], "big") + 1)
        routes = self._routes
        if not routes.size:
            return
        queue = (topic, queue_id)
        for data in records:
            record = Record(data)
            stored = record.properties
            path, merged_subscriptions = routes.of(topic, properties.find(stored, properties.ORIGIN_MQTT_TOPIC_START))
            if merged_subscriptions:
                routed = RoutedRecord(record, stored, path, level_of(stored))
                offset = int.from_bytes(data[20:28], "big")
                for merged in merged_subscriptions:
                    self._offer(merged, routed, queue, offset)

    def _offer(self, merged: MergedSubscription, routed: RoutedRecord, queue: QueueKey, offset: int) -> None:
        session = merged.session
        if merged.excludes_own and is_from(routed.stored, session.client_id):
            if merged.for_own_messages is None:
                return
            merged = merged.for_own_messages
        level = routed.level
        level = min(level, merged.level)
        retained = merged.as_published and properties.find(routed.stored, properties.MQTT_RETAIN_START) == b"true"
        if level == AT_MOST_ONCE:
            session.outbox.append(Delivery(routed, AT_MOST_ONCE, 0, retained, False, merged.identifiers))
            self.schedule(session)
        elif session.finding_lag or queue in session.lag or session.full:
            session.lag.setdefault(queue, offset)
            session.missed[queue] = offset
        elif offset >= session.positions.get(queue, 0) or offset == 0:
            # Offset 0 below a position: the topic was deleted and made anew.
            self.deliver(session, InFlightMessage(level, queue, offset, "", retained, merged.identifiers), routed)

    def deliver(self, session: MqttSession, flight: InFlightMessage, routed: RoutedRecord) -> None:
        """Into a slot and on its way; what must come exactly once waits until the slot is on record."""
        delivery = session.occupy_slot(flight, routed)
        moves = not flight.path and flight.lease is None
        if moves:
            session.positions[flight.queue] = flight.offset + 1
        if session.durable:
            if moves:
                session.changed_topics[flight.queue[0]] = None
            self.mark_dirty(session)
            (session.unstored_deliveries if flight.level == EXACTLY_ONCE else session.outbox).append(delivery)
        else:
            session.outbox.append(delivery)
        self.schedule(session)

    def schedule(self, session: MqttSession) -> None:
        """See to it that what waits for this session is handed out at the end of this turn."""
        if not self._busy:
            self._clock.call_soon(self._finish_turn)
        self._busy[session] = None

    def _finish_turn(self) -> None:
        busy, self._busy = self._busy, {}
        for session in busy:
            connection = session.connection
            if connection is None:
                continue
            if session.outbox:
                items, session.outbox = session.outbox, []
                connection.answer(Deliveries(items))
            if session.unstored_deliveries or session.unstored_takes:
                self._record(session)

    # What the client says

    def confirm(self, session: MqttSession, slots: list[int]) -> None:
        """Free slots."""
        for slot in slots:
            lease = session.free_slot(slot)
            if lease is not None:
                self._settle(lease)
        if session.durable:
            self.mark_dirty(session)

    def take(self, session: MqttSession, slots: list[int]) -> None:
        """Note that these must not be delivered again; Taken when that is on record. Slots that are free count as taken."""
        for slot in slots:
            flight = session.in_flight.get(slot)
            if flight is not None:
                flight.taken = True
        session.unstored_takes += slots
        self.schedule(session)

    def _record(self, session: MqttSession) -> None:
        """Keep the session's progress, then send what waits for that."""
        held, session.unstored_deliveries = session.unstored_deliveries, []
        taking, session.unstored_takes = session.unstored_takes, []
        epoch = session.epoch

        def done(failure: None | Failure) -> None:
            connection = session.connection
            if connection is None or session.epoch != epoch:
                return
            if failure is not None:
                connection.driver.close()
                return
            self._take_over(session, held)
            if held:
                connection.answer(Deliveries(held))
            if taking:
                connection.answer(DeliveriesAccepted(taking))

        if session.durable:
            self._dirty.pop(session, None)
            self._state.put(snapshot.progress(session), done)
        else:
            done(None)

    def _take_over(self, session: MqttSession, held: list[Delivery]) -> None:
        """What a session that is kept delivers exactly once is on record with it: it is this member's from now on."""
        for delivery in held:
            flight = session.in_flight.get(delivery.slot)
            if flight is not None and flight.lease is not None:
                lease, flight.lease = flight.lease, None
                session.leases -= 1
                self._settle(lease)
                self.mark_dirty(session)

    # Progress on record

    def mark_dirty(self, session: MqttSession) -> None:
        """Progress of a durable session is to be kept, within CHECKPOINT_NS."""
        if session.dirty:
            return
        session.dirty = True
        if not self._dirty:
            self._clock.call_at(self._clock.monotonic_ns() + CHECKPOINT_NS, self._checkpoint)
        self._dirty[session] = None

    def forget(self, session: MqttSession) -> None:
        """Its progress is being kept, or dropped, by someone else."""
        self._dirty.pop(session, None)
        session.dirty = False

    def _checkpoint(self) -> None:
        changes: list[StateChange] = []
        for session in list(islice(self._dirty, CHECKPOINT_SESSIONS)):
            del self._dirty[session]
            changes += snapshot.progress(session)
        if self._dirty:
            self._clock.call_at(self._clock.monotonic_ns() + MILLISECOND_NS, self._checkpoint)
        if changes:
            self._state.put(changes, None)
