"""Sessions of clients that come and go: the verbs of domain.mqtt_session. See docs/decisions/0006-mqtt-sessions.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from domain import property as properties
from domain.command import Command
from domain.errors import Failure
from domain.event import Refused
from domain.message import Placed
from domain.mqtt_session import (
    Attach,
    Attached,
    Confirm,
    Decline,
    Detach,
    Interest,
    Release,
    SendOnce,
    Subscribe,
    Take,
    TakenOver,
    Unsubscribe,
    Will,
)
from domain.ports import Clock, MessageStore, Metadata, State, StateChange
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.catalog.groups import Groups
from gateway.usecase.catalog.policy import NodePolicy
from gateway.usecase.consume.dead_letters import DeadLetters
from gateway.usecase.consume.receive import Receiving
from gateway.usecase.handler import Verb
from gateway.usecase.membership.members import Registry
from gateway.usecase.publish.send import Sending
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.absence import Absences, will_ms
from gateway.usecase.sessions.catchup import TOO_LARGE, CatchUp
from gateway.usecase.sessions.claims import Claims
from gateway.usecase.sessions.facts import Facts
from gateway.usecase.sessions.filter_index import FilterIndex
from gateway.usecase.sessions.filters import Filters
from gateway.usecase.sessions.inflow import Inflow
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.outflow import Outflow
from gateway.usecase.sessions.recovery import SessionRecovery
from gateway.usecase.sessions.replay import Replay
from gateway.usecase.sessions.shares import Shares

BASELINE_MARGIN_MS: Final = 10_000
"""A message may have been stored this long before it became readable."""


class Sessions:
    """Attach, Detach, Subscribe, Unsubscribe, SendOnce, Release, Confirm, Decline, Take; and the store's listener behind them.

    A session that outlives its connection is written to the store before the client hears that it has one.
    """

    def __init__(
        self,
        store: MessageStore,
        metadata: Metadata,
        state: State,
        clock: Clock,
        sending: Sending,
        receiving: Receiving,
        groups: Groups,
        dead_letters: DeadLetters,
        registry: Registry,
        policy: NodePolicy,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._state = state
        self._clock = clock
        self._sending = sending
        claims = Claims(store, clock, dead_letters)
        self._outflow = Outflow(state, clock, claims.settle)
        self._shares = Shares(store, metadata, clock, receiving, groups, self._outflow, claims, registry, policy)
        self.facts = Facts(clock, self._outflow)
        self.lights = FilterIndex(clock)
        self._replay = Replay(store, metadata, state, clock, self.lights)
        self._catch_up = CatchUp(store, metadata, state, clock, self._outflow, self.facts, self.lights)
        self._filters = Filters(store, metadata, state, clock, self._outflow, self._catch_up, self._shares)
        self._inflow = Inflow(state, sending)
        self._absences = Absences(clock, self._due)
        self._known: dict[str, MqttSession] = {}
        self._attached: dict[ClientConnection, MqttSession] = {}
        self.most = 0
        self._recovery = SessionRecovery(state, clock, self._recover, store.lapse, self._replay.start)

    def verbs(self) -> Mapping[type[Command], Verb]:
        """The verbs of domain.mqtt_session."""
        return {
            Attach: self._attach,
            Detach: self._detach,
            Subscribe: self._held(self._filters.subscribe),
            Unsubscribe: self._held(self._filters.unsubscribe),
            SendOnce: self._held(self._inflow.send_once),
            Release: self._held(self._inflow.release),
            Confirm: self._held(lambda session, _, command: self._confirmed(session, command.slots)),
            Take: self._held(lambda session, _, command: self._outflow.take(session, command.slots)),
            Decline: self._held(self._decline),
        }

    def held(self, connection: ClientConnection) -> Sequence[Interest]:
        """The filters of a session, those among them that it shares with others."""
        session = self._attached.get(connection)
        return () if session is None else [*session.interests.values(), *session.shares.values()]

    @property
    def interests(self) -> int:
        """How many filters of attached sessions there are, shared ones not among them."""
        return self._outflow.interests

    @property
    def oversize(self) -> int:
        """How often a shared message was too large for every member that was there."""
        return self._shares.oversize

    @property
    def lost(self) -> Mapping[str, int]:
        """Messages that are not sent to their sessions any more, by reason (`catchup`)."""
        return self._catch_up.lost

    @property
    def attached(self) -> int:
        """How many sessions have a connection."""
        return len(self._attached)

    @property
    def recovering(self) -> bool:
        """Not every session that was on record at the start has had its turn."""
        return self._recovery.under_way

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """StoreListener."""
        self._outflow.arrived(topic, queue_id, records)
        self.lights.arrived(topic, queue_id, records)
        self._shares.arrived(topic)

    def freed(self, group: str, topic: str) -> None:
        """StoreListener: leases do not concern a session."""

    # Coming

    def _attach(self, connection: ClientConnection, command: Attach) -> None:
        client_id = command.client_id
        self._recovery.first(client_id)
        old = self._known.get(client_id)
        if old is None:
            old = snapshot.load(self._state, client_id)
        elif old.connection is not None:
            other = old.connection
            self._lose(old, True)
            other.answer(TakenOver())
        if old is not None and old.lost_ms:
            self.lights.release(old.interests.values())
        changes: list[StateChange] = []
        if old is not None and (command.fresh or not old.durable or 0 <= old.ends_ms() <= self._clock.wall_ms()):
            changes = self._over(old)
            old = None
        session = old or MqttSession(client_id)
        session.connection = connection
        session.epoch += 1
        session.window = command.window
        session.packet_bytes_max = command.packet_bytes_max
        session.address = command.address
        session.expiry_s = command.expiry_s
        session.will = command.will
        session.lost_ms = 0
        self._known[client_id] = session
        self._attached[connection] = session
        self.most = max(self.most, len(self._attached))
        connection.client_id = client_id
        connection.on_close.append(lambda: self._closed(connection))
        if session.durable:
            changes = [change for change in changes if change.key != snapshot.key(client_id, b"d")]
            changes.append(snapshot.definition(session))
        elif old is not None:
            # It will end with this connection: nothing of it stays on record.
            changes = snapshot.removal(self._state, client_id, session)
        epoch = session.epoch

        def done(failure: None | Failure) -> None:
            if session.epoch != epoch:
                return
            if failure is not None:
                connection.answer(Refused(command.ticket, failure))
                return
            connection.answer(Attached(command.ticket, old is not None))
            self._catch_up.resume(session)
            self._shares.resume(session)

        if changes:
            self._state.put(changes, done)
        else:
            done(None)

    def _over(self, session: MqttSession) -> list[StateChange]:
        """The session is over: publish a will that is still pending, and say what of it is to be removed from the store."""
        will, session.will = session.will, None
        if will is not None:
            self._publish(will, [])
        self._known.pop(session.client_id, None)
        self._outflow.forget(session)
        return snapshot.removal(self._state, session.client_id, session)

    # Going

    def _detach(self, connection: ClientConnection, command: Detach) -> None:
        session = self._attached.get(connection)
        if session is None:
            return
        if command.expiry_s >= 0:
            session.expiry_s = command.expiry_s
        self._lose(session, command.keep_will)

    def _closed(self, connection: ClientConnection) -> None:
        session = self._attached.get(connection)
        if session is not None:
            self._lose(session, True)

    def _lose(self, session: MqttSession, keep_will: bool) -> None:
        """The connection of a session is gone."""
        connection = session.connection
        if connection is None:
            return
        del self._attached[connection]
        for interest in session.interests.values():
            self._outflow.disconnect(session, interest)
        behind = set(session.lag)
        caught_up = not session.sorting and not behind
        self._shares.lose(session)
        session.disconnect()
        self._outflow.forget(session)
        session.lost_ms = self._clock.wall_ms()
        if not keep_will:
            session.will = None
        if not session.durable:
            if session.will is not None:
                self._publish(session.will, [])
            session.will = None
            changes = snapshot.removal(self._state, session.client_id, None)
            if changes:
                self._state.put(changes, None)
            self._known.pop(session.client_id, None)
            return
        if caught_up and session.baseline_ms:
            session.baseline_ms = max(session.baseline_ms, session.lost_ms - BASELINE_MARGIN_MS)
        for place in session.positions:
            if caught_up or place not in behind:
                self._advance(session, place)
        self.lights.hold(session.interests.values())
        self._keep_away(session)

    def _advance(self, session: MqttSession, place: tuple[str, int]) -> None:
        """What there is in a queue that did not lag has been delivered: the session need not read it again."""

        def bounds(result: tuple[int, int] | Failure) -> None:
            if not isinstance(result, Failure) and session.connection is None:
                session.positions[place] = result[1]
                session.touched[place[0]] = None

        self._store.bounds(place[0], place[1], bounds)

    def _keep_away(self, session: MqttSession) -> None:
        """Write down a session that is without a connection, publishing its will when that is due."""
        self._known[session.client_id] = session
        will = session.will
        due = will is not None and will_ms(session) <= self._clock.wall_ms()
        if due:
            session.will = None
        changes = [snapshot.definition(session), *snapshot.progress(session)]
        epoch = session.epoch

        def done(_: object) -> None:
            if session.epoch == epoch and self._known.get(session.client_id) is session:
                del self._known[session.client_id]

        self._absences.add(session)
        if due and will is not None:
            self._publish(will, changes, done)
        else:
            self._state.put(changes, done)

    def _publish(self, will: Will, changes: list[StateChange], then: Callable[[object], None] | None = None) -> None:
        """Append a will, and `changes` in the same commit; where the will is refused, `changes` alone."""
        message = will.message
        if will.expiry_s >= 0:
            expire_ms = self._clock.wall_ms() + 1000 * will.expiry_s
            message.properties = properties.with_values(message.properties, {"HG_EXPIRE_MS": str(expire_ms)})

        def done(result: list[Placed] | Failure) -> None:
            if isinstance(result, Failure) and changes:
                self._state.put(changes, then)
            elif then is not None:
                then(None)

        self._sending.submit([message], done, changes)

    def _due(self, client_id: str) -> None:
        """The time of a session that was away has come: of its will, of its end, or of nothing, since it has returned."""
        if client_id in self._known:
            return
        session = snapshot.load(self._state, client_id)
        if session is None or session.lost_ms == 0:
            return
        now_ms = self._clock.wall_ms()
        if 0 <= session.ends_ms() <= now_ms:
            self.lights.release(session.interests.values())
            self._state.put(self._over(session), None)
        elif 0 <= will_ms(session) <= now_ms:
            self._keep_away(session)
        else:
            self._absences.add(session)

    def _recover(self, found: MqttSession) -> None:
        """This one was on record when the node started: if it had a connection when that stopped, it has lost it now."""
        interests = found.interests.values()
        self.lights.hold(interests)
        self._replay.consider(found.client_id, interests)
        if found.lost_ms:
            self._absences.add(found)
            return
        session = snapshot.load(self._state, found.client_id)
        if session is not None:
            session.lost_ms = self._clock.wall_ms()
            self._shares.recover(session)
            self._keep_away(session)

    # Verbs of a session that is attached; of any other they are dropped, with its connection

    def _held(self, act: Callable[[MqttSession, ClientConnection, Any], None]) -> Verb:
        def verb(connection: ClientConnection, command: Any) -> None:
            session = self._attached.get(connection)
            if session is not None:
                act(session, connection, command)

        return verb

    def _confirmed(self, session: MqttSession, slots: list[int]) -> None:
        self._outflow.confirm(session, slots)
        self._catch_up.catch_up(session)
        if session.shares:
            self._shares.pump(session)

    def _decline(self, session: MqttSession, _connection: ClientConnection, command: Decline) -> None:
        flights = [session.in_flight.get(delivery.slot) for delivery in command.items]
        self._catch_up.lost[TOO_LARGE] += sum(flight is not None and flight.claim is None for flight in flights)
        self._shares.decline(session, command.items)
        self._confirmed(session, [delivery.slot for delivery in command.items])
