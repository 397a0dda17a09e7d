"""What a session has not had: deliveries that were under way when it lost its connection, and queues that it lags in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from domain import property as properties
from domain.address import is_derived_topic
from domain.errors import Failure
from domain.expiry import has_expired
from domain.limits import PULL_BYTES_MAX, SECOND_NS
from domain.mqtt_session import AT_MOST_ONCE, Delivery, Parcel, Taken
from domain.ports import Clock, MessageStore, Metadata, ReadResult, State
from domain.record import Record
from gateway.routing.routes import is_routed, path_in, topic_of_filter
from gateway.usecase.publish.latest import value_at
from gateway.usecase.sessions.facts import Facts
from gateway.usecase.sessions.filter_index import FilterIndex
from gateway.usecase.sessions.mqtt_session import Flight, MqttSession, Place, Reach
from gateway.usecase.sessions.outflow import Outflow, is_from, level_of
from gateway.usecase.sessions.showing import Showing

READ_BYTES_MAX: Final = 1024 * 1024
READ_RECORDS_MAX: Final = 256
PLACES_PER_TURN_MAX: Final = 512


EXPIRED: Final = "expired"
GONE: Final = "gone"
TOO_LARGE: Final = "too-large"
"""Why a message above QoS 0 is not sent to its session: it has expired, is stored no more, or is too large for the client."""


class CatchUp:
    """Reads the log on behalf of sessions that have just returned, or that are slower than what comes for them.

    `lost` counts messages that are not sent any more, by EXPIRED, GONE and TOO_LARGE.
    """

    def __init__(
        self,
        store: MessageStore,
        metadata: Metadata,
        state: State,
        clock: Clock,
        outflow: Outflow,
        facts: Facts,
        lights: FilterIndex,
    ) -> None:
        self.showing = Showing(state, clock, outflow, facts, self.catch_up)
        self.lost = {EXPIRED: 0, GONE: 0, TOO_LARGE: 0}
        self._lights = lights
        self._store = store
        self._metadata = metadata
        self._state = state
        self._clock = clock
        self._outflow = outflow

    def resume(self, session: MqttSession) -> None:
        """A session has got a connection: everything under way once more, then whatever it missed, then live."""
        session.sorting = True
        taken = [slot for slot, flight in session.in_flight.items() if flight.taken]
        session.again.extend(slot for slot, flight in session.in_flight.items() if not flight.taken)
        for interest in session.interests.values():
            self._outflow.connect(session, interest)
        if taken and session.connection is not None:
            session.connection.answer(Taken(taken))
        self._sort(session, session.epoch, self._places(session))

    def _places(self, session: MqttSession) -> Iterator[Place]:
        """Every queue that may hold something for the session."""
        interests = [interest for interest in session.interests.values() if interest.level > AT_MOST_ONCE]
        names = {topic_of_filter(interest.pattern) for interest in interests}
        topics = (
            [topic for topic in self._metadata.topics() if is_routed(topic.name)]
            if "" in names
            else [topic for name in sorted(names) if (topic := self._metadata.topic(name)) is not None]
        )
        return ((topic.name, at) for topic in topics for at in range(max(topic.read_queues, topic.write_queues)))

    def _sort(self, session: MqttSession, epoch: int, places: Iterator[Place]) -> None:
        """Find out which queues lag, a slice of them a turn."""
        if session.epoch != epoch:
            return
        more = False
        for number, place in enumerate(places, 1):
            self._start(session, epoch, place)
            if number == PLACES_PER_TURN_MAX:
                more = True
                break
        if more:
            self._clock.call_soon(lambda: self._sort(session, epoch, places))
            return
        session.sorting = False
        self.catch_up(session)

    def _start(self, session: MqttSession, epoch: int, place: Place) -> None:
        """Let `place` lag from where the session has got to in it."""

        def found(result: int | Failure) -> None:
            if session.epoch == epoch and not isinstance(result, Failure):
                session.lag[place] = min(result, session.lag.get(place, result))
                if not session.sorting:
                    self.catch_up(session)

        position = session.positions.get(place)
        if position is not None:
            found(position)
        elif session.baseline_ms:
            self._store.search(place[0], place[1], session.baseline_ms, False, found)
        else:
            # The topic, or this queue of it, was made after the session subscribed.
            found(0)

    def catch_up(self, session: MqttSession) -> None:
        """Go on with what the session has not had: deliveries under way, latest values, lagging queues. One read at a time."""
        if session.connection is None or session.catching_up or session.sorting:
            return
        if session.again:
            if len(session.in_flight) - len(session.again) < session.window:
                self._repeat(session)
            return
        if session.latest:
            self.showing.step(session)
        if not session.lag or session.full:
            return
        place = next(iter(session.lag))
        room = session.window - len(session.in_flight)
        limit = min(READ_RECORDS_MAX, max(16, 4 * room))
        offset, count = self._lights.following(session.interests.values(), place, session.lag[place], limit)
        self._read(session, place, offset, count or limit, READ_BYTES_MAX, self._caught)

    def _read(
        self,
        session: MqttSession,
        place: Place,
        offset: int,
        limit: int,
        most: int,
        then: Callable[[MqttSession, Place, ReadResult], None],
    ) -> None:
        session.catching_up = True
        epoch = session.epoch

        def done(result: ReadResult | Failure) -> None:
            if session.epoch != epoch:
                return
            session.catching_up = False
            if isinstance(result, Failure):
                self._clock.call_at(self._clock.monotonic_ns() + SECOND_NS, lambda: self.catch_up(session))
                return
            then(session, place, result)
            # By way of a timer: however much there is to read, others have their turn in between.
            self._clock.call_at(self._clock.monotonic_ns(), lambda: self.catch_up(session))

        self._store.read(place[0], place[1], offset, limit, most, None, done)

    def _caught(self, session: MqttSession, place: Place, result: ReadResult) -> None:
        self._lights.trim(session.interests.values(), place, result.min_offset)
        for data in result.records:
            offset = int.from_bytes(data[20:28], "big")
            if session.full:
                session.lag[place] = offset
                return
            self._admit(session, data, place, offset)
        session.lag.pop(place, None)
        end = result.status == "EMPTY" or result.next_offset >= result.max_offset
        if result.status == "TOO_LARGE":
            # The topic was deleted and made anew.
            session.positions[place] = result.next_offset
        if end and session.missed.get(place, -1) < result.next_offset:
            session.missed.pop(place, None)
        else:
            # Back in as the last: the queues take turns.
            session.lag[place] = result.next_offset

    def _admit(self, session: MqttSession, data: bytes, place: Place, offset: int) -> None:
        """Deliver one record read from the log if it is for this session, and is still for anybody."""
        record = Record(data)
        stored = record.properties
        origin = properties.find(stored, b"originMqttTopic")
        path, interests = session.matching(place[0], origin, int.from_bytes(data[28:36], "big"))
        if interests and is_from(stored, session.client_id):
            interests = [interest for interest in interests if not interest.no_local]
        if not interests:
            return
        reach = Reach(session, interests)
        level = min(level_of(stored), reach.level)
        if level > AT_MOST_ONCE and has_expired(data, self._clock.wall_ms()):
            self.lost[EXPIRED] += 1
        elif level > AT_MOST_ONCE:
            retained = reach.as_published and properties.find(stored, b"mqttRetain") == b"true"
            flight = Flight(level, place, offset, "", retained, reach.identifiers)
            self._outflow.launch(session, flight, Parcel(record, stored, path, level))

    def _repeat(self, session: MqttSession) -> None:
        """The oldest of the deliveries that were under way when the connection was lost."""
        slot = session.again[0]
        flight = session.in_flight.get(slot)
        if flight is None:
            session.again.pop(0)
            self._clock.call_soon(lambda: self.catch_up(session))
        elif flight.path:
            self._send_again(session, flight.path, value_at(self._state, flight.path, self._clock.wall_ms()))
            self._clock.call_soon(lambda: self.catch_up(session))
        else:
            self._read(session, flight.place, flight.offset, 1, PULL_BYTES_MAX, self._repeated)

    def _repeated(self, session: MqttSession, place: Place, result: ReadResult) -> None:
        data = result.records[0] if result.records else None
        path = ""
        if data is not None:
            flight = session.in_flight.get(session.again[0])
            there = int.from_bytes(data[20:28], "big")
            if flight is None or flight.offset != there:
                data = None
            elif has_expired(data, self._clock.wall_ms()):
                self._end_again(session, EXPIRED)
                return
            else:
                stored = Record(data).properties
                # A member of a group may have got it from the group's retry topic.
                topic = properties.text(stored, properties.RETRY_TOPIC) if is_derived_topic(place[0]) else place[0]
                path = path_in(topic, properties.find(stored, b"originMqttTopic"))
        self._send_again(session, path, data)

    def _send_again(self, session: MqttSession, path: str, data: bytes | None) -> None:
        """Send it as a repetition; a record that is no longer there frees its slot."""
        flight = session.in_flight.get(session.again[0])
        if flight is None or data is None:
            self._end_again(session, GONE)
            return
        slot = session.again.pop(0)
        flight.size = len(data)
        session.flying_bytes += flight.size
        record = Record(data)
        parcel = Parcel(record, record.properties, path, flight.level)
        session.outbox.append(Delivery(parcel, flight.level, slot, flight.retained, True, flight.identifiers))
        self._outflow.mark(session)

    def _end_again(self, session: MqttSession, reason: str) -> None:
        """It cannot be sent again, for this reason: its slot is free."""
        slot = session.again.pop(0)
        if slot in session.in_flight:
            self.lost[reason] += 1
            session.leave(slot)
            self._outflow.stain(session)
