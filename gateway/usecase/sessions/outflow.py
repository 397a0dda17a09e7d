"""From the log to the sessions that keep up, and what each of them has confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from domain import property as properties
from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.mqtt_session import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, Deliveries, Delivery, Interest, Parcel, Taken
from domain.ports import Clock, State, StateChange
from domain.record import Record
from gateway.routing.routes import Routes
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.mqtt_session import Claim, Flight, Place, Reach, Subscriber, fold

CHECKPOINT_NS: Final = 200 * MILLISECOND_NS
"""How long the progress of a durable session may be younger in memory than in the store."""

CHECKPOINT_SESSIONS: Final = 256
"""Of so many sessions the progress is put on record in one turn; the others follow a millisecond later."""


def level_of(stored: bytes) -> int:
    """The promise that the sender of a message made: its `qosLevel`; AT_LEAST_ONCE for what did not come by MQTT."""
    value = properties.find(stored, b"qosLevel")
    if value == b"0":
        return AT_MOST_ONCE
    return EXACTLY_ONCE if value == b"2" else AT_LEAST_ONCE


def is_from(stored: bytes, client_id: str) -> bool:
    """True when the message was sent by the MQTT client `client_id`."""
    return properties.find(stored, b"HG_CLIENT") == client_id.encode() and properties.find(stored, b"HG_PROTOCOL") == b"mqtt"


class Outflow:
    """Delivery to all attached sessions. One Deliveries event a session a loop turn.

    A delivery above AT_MOST_ONCE takes a slot of the session's window. When there is none, the queue that it came from
    begins to lag, and is read from the log as slots become free (`catchup`): a slow client costs a number, not memory.
    `settle` is told of leases whose messages have done their duty.
    """

    def __init__(self, state: State, clock: Clock, settle: Callable[[Claim], None]) -> None:
        self._settle = settle
        self._state = state
        self._clock = clock
        self._routes: Routes[tuple[Subscriber, Interest], list[Reach]] = Routes(fold)
        self._roots: dict[str, int] = {}
        self._busy: dict[Subscriber, None] = {}
        self._dirty: dict[Subscriber, None] = {}
        self.high = 0

    @property
    def interests(self) -> int:
        """How many filters of attached sessions there are."""
        return self._routes.size

    # Filters

    def listens(self, root: str) -> bool:
        """True when some filter of an attached session may match paths below `root`, whose first level is no wildcard."""
        return self._roots.get(root.partition("/")[0], 0) > 0

    def connect(self, subscriber: Subscriber, interest: Interest) -> None:
        """Deliver by this filter from now on."""
        root = interest.pattern.partition("/")[0]
        self._roots[root] = self._roots.get(root, 0) + 1
        self._routes.insert(interest.pattern, (subscriber, interest))

    def disconnect(self, subscriber: Subscriber, interest: Interest) -> None:
        """No longer."""
        root = interest.pattern.partition("/")[0]
        left = self._roots.get(root, 0) - 1
        if left > 0:
            self._roots[root] = left
        else:
            self._roots.pop(root, None)
        self._routes.remove(interest.pattern, (subscriber, interest))

    # Live

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """StoreListener: hand each record to those whom its path reaches."""
        if not records:
            return
        self.high = max(self.high, int.from_bytes(records[-1][28:36], "big") + 1)
        routes = self._routes
        if not routes.size:
            return
        place = (topic, queue_id)
        for data in records:
            record = Record(data)
            stored = record.properties
            path, reaches = routes.of(topic, properties.find(stored, b"originMqttTopic"))
            if reaches:
                parcel = Parcel(record, stored, path, level_of(stored))
                offset = int.from_bytes(data[20:28], "big")
                for reach in reaches:
                    self._offer(reach, parcel, place, offset)

    def _offer(self, reach: Reach, parcel: Parcel, place: Place, offset: int) -> None:
        subscriber = reach.subscriber
        if reach.picky and is_from(parcel.stored, subscriber.client_id):
            if reach.own is None:
                return
            reach = reach.own
        level = parcel.level
        level = min(level, reach.level)
        retained = reach.as_published and properties.find(parcel.stored, b"mqttRetain") == b"true"
        if level == AT_MOST_ONCE:
            subscriber.outbox.append(Delivery(parcel, AT_MOST_ONCE, 0, retained, False, reach.identifiers))
            self.mark(subscriber)
        elif subscriber.sorting or place in subscriber.lag or subscriber.full:
            subscriber.lag.setdefault(place, offset)
            subscriber.missed[place] = offset
        elif offset >= subscriber.positions.get(place, 0) or offset == 0:
            # Offset 0 below a position: the topic was deleted and made anew.
            self.launch(subscriber, Flight(level, place, offset, "", retained, reach.identifiers), parcel)

    def launch(self, subscriber: Subscriber, flight: Flight, parcel: Parcel) -> None:
        """Into a slot and on its way; what must come exactly once waits until the slot is on record."""
        delivery = subscriber.enter(flight, parcel)
        moves = not flight.path and flight.claim is None
        if moves:
            subscriber.positions[flight.place] = flight.offset + 1
        if subscriber.durable:
            if moves:
                subscriber.touched[flight.place[0]] = None
            self.stain(subscriber)
            (subscriber.held if flight.level == EXACTLY_ONCE else subscriber.outbox).append(delivery)
        else:
            subscriber.outbox.append(delivery)
        self.mark(subscriber)

    def mark(self, subscriber: Subscriber) -> None:
        """See to it that what waits for this session is handed out at the end of this turn."""
        if not self._busy:
            self._clock.call_soon(self._finish_turn)
        self._busy[subscriber] = None

    def _finish_turn(self) -> None:
        busy, self._busy = self._busy, {}
        for subscriber in busy:
            session = subscriber.session
            if session is None:
                continue
            if subscriber.outbox:
                items, subscriber.outbox = subscriber.outbox, []
                session.answer(Deliveries(items))
            if subscriber.held or subscriber.taking:
                self._record(subscriber)

    # What the client says

    def confirm(self, subscriber: Subscriber, slots: list[int]) -> None:
        """Free slots."""
        for slot in slots:
            claim = subscriber.leave(slot)
            if claim is not None:
                self._settle(claim)
        if subscriber.durable:
            self.stain(subscriber)

    def take(self, subscriber: Subscriber, slots: list[int]) -> None:
        """Note that these must not be delivered again; Taken when that is on record. Slots that are free count as taken."""
        for slot in slots:
            flight = subscriber.in_flight.get(slot)
            if flight is not None:
                flight.taken = True
        subscriber.taking += slots
        self.mark(subscriber)

    def _record(self, subscriber: Subscriber) -> None:
        """Keep the session's progress, then send what waits for that."""
        held, subscriber.held = subscriber.held, []
        taking, subscriber.taking = subscriber.taking, []
        epoch = subscriber.epoch

        def done(failure: None | Failure) -> None:
            session = subscriber.session
            if session is None or subscriber.epoch != epoch:
                return
            if failure is not None:
                session.shell.close()
                return
            self._take_over(subscriber, held)
            if held:
                session.answer(Deliveries(held))
            if taking:
                session.answer(Taken(taking))

        if subscriber.durable:
            self._dirty.pop(subscriber, None)
            self._state.put(snapshot.progress(subscriber), done)
        else:
            done(None)

    def _take_over(self, subscriber: Subscriber, held: list[Delivery]) -> None:
        """What a session that is kept delivers exactly once is on record with it: it is this member's from now on."""
        for delivery in held:
            flight = subscriber.in_flight.get(delivery.slot)
            if flight is not None and flight.claim is not None:
                claim, flight.claim = flight.claim, None
                subscriber.claims -= 1
                self._settle(claim)
                self.stain(subscriber)

    # Progress on record

    def stain(self, subscriber: Subscriber) -> None:
        """Progress of a durable session is to be kept, within CHECKPOINT_NS."""
        if subscriber.dirty:
            return
        subscriber.dirty = True
        if not self._dirty:
            self._clock.call_at(self._clock.monotonic_ns() + CHECKPOINT_NS, self._checkpoint)
        self._dirty[subscriber] = None

    def forget(self, subscriber: Subscriber) -> None:
        """Its progress is being kept, or dropped, by someone else."""
        self._dirty.pop(subscriber, None)
        subscriber.dirty = False

    def _checkpoint(self) -> None:
        changes: list[StateChange] = []
        for subscriber in list(islice(self._dirty, CHECKPOINT_SESSIONS)):
            del self._dirty[subscriber]
            changes += snapshot.progress(subscriber)
        if self._dirty:
            self._clock.call_at(self._clock.monotonic_ns() + MILLISECOND_NS, self._checkpoint)
        if changes:
            self._state.put(changes, None)
