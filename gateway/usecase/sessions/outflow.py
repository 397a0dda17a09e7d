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
from gateway.routing.routes import SubscriberRoutes
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.mqtt_session import Claim, Flight, MqttSession, Place, Reach, fold

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
        self._routes: SubscriberRoutes[tuple[MqttSession, Interest], list[Reach]] = SubscriberRoutes(fold)
        self._roots: dict[str, int] = {}
        self._busy: dict[MqttSession, None] = {}
        self._dirty: dict[MqttSession, None] = {}
        self.high = 0

    @property
    def interests(self) -> int:
        """How many filters of attached sessions there are."""
        return self._routes.size

    # Filters

    def listens(self, root: str) -> bool:
        """True when some filter of an attached session may match paths below `root`, whose first level is no wildcard."""
        return self._roots.get(root.partition("/")[0], 0) > 0

    def connect(self, session: MqttSession, interest: Interest) -> None:
        """Deliver by this filter from now on."""
        root = interest.pattern.partition("/")[0]
        self._roots[root] = self._roots.get(root, 0) + 1
        self._routes.insert(interest.pattern, (session, interest))

    def disconnect(self, session: MqttSession, interest: Interest) -> None:
        """No longer."""
        root = interest.pattern.partition("/")[0]
        left = self._roots.get(root, 0) - 1
        if left > 0:
            self._roots[root] = left
        else:
            self._roots.pop(root, None)
        self._routes.remove(interest.pattern, (session, interest))

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
        session = reach.session
        if reach.picky and is_from(parcel.stored, session.client_id):
            if reach.own is None:
                return
            reach = reach.own
        level = parcel.level
        level = min(level, reach.level)
        retained = reach.as_published and properties.find(parcel.stored, b"mqttRetain") == b"true"
        if level == AT_MOST_ONCE:
            session.outbox.append(Delivery(parcel, AT_MOST_ONCE, 0, retained, False, reach.identifiers))
            self.mark(session)
        elif session.sorting or place in session.lag or session.full:
            session.lag.setdefault(place, offset)
            session.missed[place] = offset
        elif offset >= session.positions.get(place, 0) or offset == 0:
            # Offset 0 below a position: the topic was deleted and made anew.
            self.launch(session, Flight(level, place, offset, "", retained, reach.identifiers), parcel)

    def launch(self, session: MqttSession, flight: Flight, parcel: Parcel) -> None:
        """Into a slot and on its way; what must come exactly once waits until the slot is on record."""
        delivery = session.enter(flight, parcel)
        moves = not flight.path and flight.claim is None
        if moves:
            session.positions[flight.place] = flight.offset + 1
        if session.durable:
            if moves:
                session.touched[flight.place[0]] = None
            self.stain(session)
            (session.held if flight.level == EXACTLY_ONCE else session.outbox).append(delivery)
        else:
            session.outbox.append(delivery)
        self.mark(session)

    def mark(self, session: MqttSession) -> None:
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
            if session.held or session.taking:
                self._record(session)

    # What the client says

    def confirm(self, session: MqttSession, slots: list[int]) -> None:
        """Free slots."""
        for slot in slots:
            claim = session.leave(slot)
            if claim is not None:
                self._settle(claim)
        if session.durable:
            self.stain(session)

    def take(self, session: MqttSession, slots: list[int]) -> None:
        """Note that these must not be delivered again; Taken when that is on record. Slots that are free count as taken."""
        for slot in slots:
            flight = session.in_flight.get(slot)
            if flight is not None:
                flight.taken = True
        session.taking += slots
        self.mark(session)

    def _record(self, session: MqttSession) -> None:
        """Keep the session's progress, then send what waits for that."""
        held, session.held = session.held, []
        taking, session.taking = session.taking, []
        epoch = session.epoch

        def done(failure: None | Failure) -> None:
            connection = session.connection
            if connection is None or session.epoch != epoch:
                return
            if failure is not None:
                connection.shell.close()
                return
            self._take_over(session, held)
            if held:
                connection.answer(Deliveries(held))
            if taking:
                connection.answer(Taken(taking))

        if session.durable:
            self._dirty.pop(session, None)
            self._state.put(snapshot.progress(session), done)
        else:
            done(None)

    def _take_over(self, session: MqttSession, held: list[Delivery]) -> None:
        """What a session that is kept delivers exactly once is on record with it: it is this member's from now on."""
        for delivery in held:
            flight = session.in_flight.get(delivery.slot)
            if flight is not None and flight.claim is not None:
                claim, flight.claim = flight.claim, None
                session.claims -= 1
                self._settle(claim)
                self.stain(session)

    # Progress on record

    def stain(self, session: MqttSession) -> None:
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
