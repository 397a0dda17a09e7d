"""Delivery of new messages to connected sessions, and their acknowledgements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, final

from domain.client.mqtt_session import (
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    Deliveries,
    MqttSubscription,
)
from domain.delivery.expiry import has_expired
from domain.delivery.routed import Delivery, RoutedRecord
from domain.message import property as properties
from domain.message.record import Record
from domain.octets import uint64
from domain.ports import Clock
from domain.store.store_ports import State
from gateway.routing.routes import SubscriberRoutes
from gateway.usecase.consume.watch import Interest
from gateway.usecase.sessions.in_flight import DeliveryLease, InFlightMessage, QueueKey, QueueKeys
from gateway.usecase.sessions.mqtt_session import MergedSubscription, MqttSession, merge_by_session
from gateway.usecase.sessions.offer_queue import OfferQueue
from gateway.usecase.sessions.progress_checkpoints import ProgressCheckpoints
from gateway.usecase.sessions.publisher import is_from, level_of

TURN_DELIVERIES: Final = 512
"""Deliveries that are sent in one turn."""

TURN_OFFERS: Final = 512
"""Sessions to which messages are offered in one turn: one message to ten thousand subscribers takes twenty."""

RUN_RECORDS: Final = 32
"""Records that are offered together at most when they go to the same sessions."""


@final
class OfferRun:
    """Records for the same sessions. It goes round these, and each gets in one write all that has joined since its last turn.

    records    the records, with queue, offset, and the value of `offered` at which all sessions have been offered it
    offered    turns of sessions so far: the session that is next has this number, modulo the number of sessions
    """

    __slots__ = ("offered", "records", "sessions")

    def __init__(self, sessions: list[MergedSubscription]) -> None:
        self.records: list[tuple[RoutedRecord, QueueKey, int, int]] = []
        self.sessions = sessions
        self.offered = 0


class LiveDelivery:
    """Delivers messages to all connected sessions, with one Deliveries event for each session and loop turn.

    A delivery above AT_MOST_ONCE occupies a slot of the in-flight window. When the window is full, the message is not kept:
    its queue enters the session's `lag`, and `catchup` reads it from the log when slots become free. So a slow client costs
    one offset for each queue. `settle` ends the lease of a confirmed message.

    A turn offers messages to TURN_OFFERS sessions: further arrivals wait, in their order. So do all while `hold` is in force.
    A turn sends at most TURN_DELIVERIES; the others wait in the outboxes of their sessions for the next turn.

    checkpoints  storage of the progress of durable sessions
    log_end      physical log offset behind the last record that arrived
    waiting      deliveries that were left for the next turn
    arrivals     records that have not been offered to all sessions yet
    _offers      offers that this turn may still make
    _holds       calls of `hold` without one of `release`
    _going_on    True: the arrivals are offered in the next turn
    _run         the first of them, while they are offered; None: no session has been offered any of them
    """

    def __init__(
        self,
        state: State,
        clock: Clock,
        settle: Callable[[DeliveryLease], None],
        interest: Interest | None = None,
    ) -> None:
        """`interest` is called with the filter of each subscription that begins (True) or ends (False)."""
        self._interest = interest
        self._settle = settle
        self._clock = clock
        self._routes: SubscriberRoutes[tuple[MqttSession, MqttSubscription], list[MergedSubscription]] = SubscriberRoutes(
            merge_by_session
        )
        self._roots: Counter[str] = Counter()
        self._busy: list[MqttSession] = []
        self._queue_keys = QueueKeys()
        self.checkpoints = ProgressCheckpoints(state, clock, settle)
        self.log_end = 0
        self.waiting = 0
        self._offers = TURN_OFFERS
        self.arrivals = OfferQueue()
        self._holds = 0
        self._going_on = False
        self._run: OfferRun | None = None

    @property
    def subscription_count(self) -> int:
        """Number of subscriptions of connected sessions, shared subscriptions excluded."""
        return self._routes.size

    # Subscriptions

    def listens(self, root: str) -> bool:
        """True when a subscription of a connected session starts with the first level of `root`."""
        return root.partition("/")[0] in self._roots

    def connect(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """Deliver by this subscription from now on."""
        root = subscription.pattern.partition("/")[0]
        self._roots[root] += 1
        self._routes.insert(subscription.pattern, (session, subscription))
        if self._interest is not None:
            self._interest(subscription.pattern, True)

    def disconnect(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """Stop delivering by this subscription."""
        root = subscription.pattern.partition("/")[0]
        self._roots[root] -= 1
        if self._roots[root] <= 0:
            del self._roots[root]
        self._routes.remove(subscription.pattern, (session, subscription))
        if self._interest is not None:
            self._interest(subscription.pattern, False)

    # New messages

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """StoreListener: deliver each record to the sessions whose subscriptions match its path."""
        if not records:
            return
        self.log_end = max(self.log_end, uint64(records[-1], 28) + 1)
        if not self._routes.size:
            return
        queue = self._queue_keys.of(topic, queue_id)
        for at, data in enumerate(records):
            if self._holds or self.arrivals or not self._offer_now(queue, data):
                for each in records[at:]:
                    self.arrivals.add(queue, each)
                self._go_on_soon()
                return

    def hold(self) -> None:
        """Offer nothing until `release`: what arrives meanwhile waits."""
        self._holds += 1

    def release(self) -> None:
        """End one hold. What waits is offered after the last one."""
        self._holds -= 1
        if self.arrivals:
            self._go_on_soon()

    def after_arrivals(self, then: Callable[[], None]) -> None:
        """Call `then` when what has arrived is offered: at once, or in a later turn."""
        if self.arrivals:
            self.arrivals.after(lambda: self._clock.call_soon(then))
        else:
            then()

    def _go_on_soon(self) -> None:
        if not self._going_on and not self._holds:
            self._going_on = True
            self._clock.call_at(self._clock.monotonic_ns(), self._go_on)

    def _matching(self, queue: QueueKey, data: bytes) -> tuple[list[MergedSubscription], Record, bytes, str]:
        """(the subscriptions that match the path of a record, the record, its stored properties, its path)."""
        record = Record(data)
        stored = record.properties
        path, merged_subscriptions = self._routes.of(queue[0], properties.find(stored, properties.ORIGIN_MQTT_TOPIC_START))
        return merged_subscriptions, record, stored, path

    def _offer_now(self, queue: QueueKey, data: bytes) -> bool:
        """Offer a record to the sessions whose subscriptions match its path; False when these are too many for this turn."""
        merged_subscriptions, record, stored, path = self._matching(queue, data)
        if len(merged_subscriptions) > self._offers:
            return False
        if merged_subscriptions and not _has_expired(data, stored, self._clock):
            routed = RoutedRecord(record, stored, path, level_of(stored))
            self._offers -= len(merged_subscriptions)
            offset = uint64(data, 20)
            for merged in merged_subscriptions:
                self._offer(merged, routed, queue, offset)
        return True

    def _go_on(self) -> None:
        """Offer the records that have arrived and wait, in their order."""
        self._going_on = False
        self._offers = TURN_OFFERS
        while self.arrivals and not self._holds:
            if self._offers <= 0:
                self._go_on_soon()
                return
            run = self._join()
            if run is not None:
                self._offer_run(run)

    def _join(self) -> OfferRun | None:
        """The run of the first waiting record, joined by those behind it that go to the same sessions, RUN_RECORDS at most.

        None: nobody gets the first record, which is taken away.
        """
        run = self._run
        for queue, data in self.arrivals.some(0 if run is None else len(run.records), RUN_RECORDS):
            merged_subscriptions, record, stored, path = self._matching(queue, data)
            wanted = bool(merged_subscriptions) and not _has_expired(data, stored, self._clock)
            if run is None:
                if not wanted:
                    self.arrivals.offered()
                    self._offers -= 1
                    return None
                run = self._run = OfferRun(merged_subscriptions)
            elif not wanted or merged_subscriptions is not run.sessions:
                break
            routed = RoutedRecord(record, stored, path, level_of(stored))
            run.records.append((routed, queue, uint64(data, 20), run.offered + len(run.sessions)))
        return run

    def _offer_run(self, run: OfferRun) -> None:
        """Offer all records of a run to the sessions that are next, unless they have left since."""
        records, sessions = run.records, run.sessions
        first = run.offered % len(sessions)
        number = min(max(1, self._offers // len(records)), records[0][3] - run.offered, len(sessions) - first)
        self._offers -= number * len(records)
        for merged in sessions[first : first + number]:
            if merged.session.connection is not None:
                for routed, queue, offset, _ in records:
                    self._offer(merged, routed, queue, offset)
        run.offered += number
        while records and records[0][3] <= run.offered:
            del records[0]
            self.arrivals.offered()
        if not records:
            self._run = None

    def resume(self, session: MqttSession) -> None:
        """A session begins to read the log: records that wait to be offered can be read already, or were read by it before."""
        session.firsts.update(self.arrivals.firsts)

    def _offer(self, merged: MergedSubscription, routed: RoutedRecord, queue: QueueKey, offset: int) -> None:
        session = merged.session
        if merged.excludes_own and is_from(routed.stored, session.client_id, session.user):
            if merged.for_own_messages is None:
                return
            merged = merged.for_own_messages
        if session.live_values is not None:
            session.live_values.add(routed)
        level = min(routed.level, merged.level)
        retained = merged.as_published and properties.find(routed.stored, properties.MQTT_RETAIN_START) == b"true"
        if level == AT_MOST_ONCE:
            session.outbox.append(Delivery(routed, AT_MOST_ONCE, 0, retained, False, merged.identifiers))
            self.schedule(session)
        elif offset < session.positions.get(queue, 0) and (
            offset or session.firsts.get(queue) == uint64(routed.record.data, 28)
        ):
            return  # the session has read it from the log before it arrived
        elif session.finding_lag or (session.lag and queue in session.lag) or session.full:
            session.lag.setdefault(queue, offset)
            session.missed[queue] = offset
        else:
            # Another record at offset 0, below a position: the topic was deleted and created again.
            self.deliver(session, InFlightMessage(level, queue, offset, "", retained, merged.identifiers), routed)

    def deliver(self, session: MqttSession, flight: InFlightMessage, routed: RoutedRecord) -> None:
        """Occupy a slot and send the message. An EXACTLY_ONCE delivery of a durable session waits until its slot is stored."""
        delivery = session.occupy_slot(flight, routed)
        moves = not flight.path and flight.lease is None
        if moves:
            session.positions[flight.queue] = flight.offset + 1
        if session.durable:
            if moves:
                session.records.changed_queues[flight.queue] = None
            self.checkpoints.mark_dirty(session)
            (session.unstored_deliveries if flight.level == EXACTLY_ONCE else session.outbox).append(delivery)
        else:
            session.outbox.append(delivery)
        self.schedule(session)

    def schedule(self, session: MqttSession) -> None:
        """Send the session's waiting deliveries at the end of this turn."""
        if not session.scheduled:
            if not self._busy:
                self._clock.call_soon(self._finish_turn)
            self._keep_busy(session)

    def _keep_busy(self, session: MqttSession) -> None:
        """Send the session's deliveries in the next `_finish_turn`, once: an answer may have asked for it already."""
        if not session.scheduled:
            session.scheduled = True
            self._busy.append(session)

    def _finish_turn(self) -> None:
        """Send deliveries that wait, TURN_DELIVERIES at most; sessions that are left go first in the next turn."""
        busy, self._busy = self._busy, []
        if not self.arrivals:
            self._offers = TURN_OFFERS
        for session in busy:
            session.scheduled = False
        left = TURN_DELIVERIES
        waiting = 0
        for session in busy:
            connection = session.connection
            if connection is None:
                continue
            if left <= 0:
                self._keep_busy(session)
                waiting += len(session.outbox)
                continue
            items = session.outbox
            if items:
                if len(items) > left:
                    items, session.outbox = items[:left], items[left:]
                    self._keep_busy(session)
                    waiting += len(session.outbox)
                else:
                    session.outbox = []
                left -= len(items)
                connection.answer(Deliveries(items))
            if session.unstored_deliveries or session.unstored_accepts:
                self.checkpoints.store(session)
        self.waiting = waiting
        if self._busy:
            # By a timer, so that other work of the loop runs in between.
            self._clock.call_at(self._clock.monotonic_ns(), self._finish_turn)

    # Acknowledgements

    def confirm(self, session: MqttSession, slots: list[int]) -> None:
        """Free slots and settle their leases."""
        for slot in slots:
            lease = session.free_slot(slot)
            if lease is not None:
                self._settle(lease)
        if session.durable:
            self.checkpoints.mark_dirty(session)

    def accept(self, session: MqttSession, slots: list[int]) -> None:
        """Never send these deliveries again; answer when the store has recorded that. Free slots count as accepted."""
        for slot in slots:
            flight = session.in_flight.get(slot)
            if flight is not None:
                flight.accepted = True
                session.changed(slot)
        session.unstored_accepts += slots
        self.schedule(session)


def _has_expired(data: bytes, stored: bytes, clock: Clock) -> bool:
    """True for a message that expired before it arrived here: its delivery time was later than its expiry."""
    return properties.has(stored, properties.HG_EXPIRE_MS_START) and has_expired(data, clock.wall_ms())
