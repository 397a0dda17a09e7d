"""MQTT sessions: carries out the commands of domain.mqtt_session. See docs/decisions/0006-mqtt-sessions.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from domain.command import Command
from domain.errors import Failure
from domain.event import Refused
from domain.limits import SECOND_NS
from domain.message_store import MessageStore
from domain.mqtt_session import (
    AcceptDeliveries,
    Attach,
    Attached,
    ConfirmDeliveries,
    Detach,
    MqttSubscription,
    RejectDeliveries,
    ReleasePacketIds,
    SendOnce,
    SessionTakenOver,
    Subscribe,
    Unsubscribe,
)
from domain.ports import Clock
from domain.store_ports import StateChange
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.catalog.groups import Groups
from gateway.usecase.catalog.policy import NodePolicy
from gateway.usecase.consume.dead_letters import DeadLetters
from gateway.usecase.consume.receive import Receiving
from gateway.usecase.handler import Verb
from gateway.usecase.long_questions import LongQuestions
from gateway.usecase.membership.members import Registry
from gateway.usecase.publish.send import Sending
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.asking import ask_until_answered
from gateway.usecase.sessions.catchup import TOO_LARGE, CatchUp
from gateway.usecase.sessions.delivery_leases import DeliveryLeases
from gateway.usecase.sessions.filter_index import FilterIndex
from gateway.usecase.sessions.inbound import InboundDeduplication
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.outbound import OutboundDelivery
from gateway.usecase.sessions.recovery import SessionRecovery
from gateway.usecase.sessions.replay import Replay
from gateway.usecase.sessions.session_deadlines import SessionDeadlines, will_ms
from gateway.usecase.sessions.shared_subscriptions import SharedSubscriptions
from gateway.usecase.sessions.start_positions import StartPositions
from gateway.usecase.sessions.subscription_changes import SubscriptionChanges
from gateway.usecase.sessions.sys_topics import SysTopics
from gateway.usecase.sessions.will_publisher import WillPublisher

BASELINE_MARGIN_MS: Final = 10_000
"""Longest time between storing a message and its becoming readable."""


class Sessions:
    """Attach, Detach, Subscribe, Unsubscribe, SendOnce, Release, Confirm, Decline, Take; and the store's listener behind them.

    A session that outlives its connection is stored before the client is told that it has one.

    sys_topics     status of the node under `$SYS/broker/`
    filter_index   matches of the filters of disconnected sessions
    resumed        called with the connection when a session was resumed with its subscriptions
    attached_max   largest number of sessions connected at the same time, since the start
    """

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        sending: Sending,
        receiving: Receiving,
        groups: Groups,
        dead_letters: DeadLetters,
        registry: Registry,
        policy: NodePolicy,
        questions: LongQuestions,
    ) -> None:
        log, metadata, state = store.log, store.metadata, store.state
        self._log, self._metadata, self._state = log, metadata, state
        self._clock = clock
        self._wills = WillPublisher(state, clock, sending)
        leases = DeliveryLeases(store.leases, clock, dead_letters)
        self._outbound = OutboundDelivery(state, clock, leases.settle)
        start_positions = StartPositions(log, store.positions, metadata, clock)
        self._shared = SharedSubscriptions(
            log, start_positions, metadata, clock, receiving, groups, self._outbound, leases, registry, policy
        )
        self.sys_topics = SysTopics(clock, self._outbound)
        self.filter_index = FilterIndex(clock)
        self._replay = Replay(log, metadata, state, clock, self.filter_index)
        self._catch_up = CatchUp(log, metadata, state, clock, self._outbound, self.sys_topics, self.filter_index)
        self._changes = SubscriptionChanges(
            log, metadata, state, clock, self._outbound, self._catch_up, self._shared, questions
        )
        self._inbound = InboundDeduplication(state, sending)
        self._deadlines = SessionDeadlines(clock, self._due)
        self._known: dict[str, MqttSession] = {}
        self._loading: dict[str, list[Callable[[], None]]] = {}
        self._attached: dict[ClientConnection, MqttSession] = {}
        self.attached_max = 0
        self.resumed: Callable[[ClientConnection], None] = _nothing
        self._recovery = SessionRecovery(state, clock, self._recover, store.leases.lapse, self._replay.start)

    def verbs(self) -> Mapping[type[Command], Verb]:
        """The verbs of domain.mqtt_session."""
        return {
            Attach: self._attach,
            Detach: self._detach,
            Subscribe: self._for_attached(self._changes.subscribe),
            Unsubscribe: self._for_attached(self._changes.unsubscribe),
            SendOnce: self._for_attached(self._inbound.send_once),
            ReleasePacketIds: self._for_attached(self._inbound.release),
            ConfirmDeliveries: self._for_attached(lambda session, _, command: self._confirm(session, command.slots)),
            AcceptDeliveries: self._for_attached(lambda session, _, command: self._outbound.accept(session, command.slots)),
            RejectDeliveries: self._for_attached(self._reject),
        }

    def subscriptions_of(self, connection: ClientConnection) -> Sequence[MqttSubscription]:
        """All subscriptions of a connection's session, shared subscriptions included."""
        session = self._attached.get(connection)
        return () if session is None else [*session.subscriptions.values(), *session.shared_subscriptions.values()]

    @property
    def subscription_count(self) -> int:
        """Number of subscriptions of connected sessions, shared subscriptions excluded."""
        return self._outbound.subscription_count

    @property
    def oversize(self) -> int:
        """Number of messages of shared subscriptions that were too large for every member."""
        return self._shared.oversize

    @property
    def lost(self) -> Mapping[str, int]:
        """Messages lost to their sessions, by reason (`catchup`)."""
        return self._catch_up.lost

    @property
    def undelivered(self) -> int:
        """Number of deliveries and of new messages that wait for a later turn of the loop."""
        return self._outbound.waiting + self._outbound.arriving

    @property
    def attached(self) -> int:
        """Number of connected sessions."""
        return len(self._attached)

    @property
    def recovering(self) -> bool:
        """True while stored sessions are being recovered after the start."""
        return self._recovery.under_way

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """StoreListener: records of one queue have become readable."""
        self._outbound.arrived(topic, queue_id, records)
        self.filter_index.arrived(topic, queue_id, records)
        self._shared.arrived(topic)

    def freed(self, group: str, topic: str) -> None:
        """StoreListener: does nothing, since a GroupReceive waits for returned messages itself."""

    # Connecting

    def _attach(self, connection: ClientConnection, command: Attach) -> None:
        client_id = command.client_id
        waiting = self._loading.get(client_id)
        if waiting is not None:
            waiting.append(lambda: self._attach(connection, command))
            return
        old = self._known.get(client_id)
        if old is None:
            self._load(client_id, lambda found: self._attach_to(connection, command, found))
            return
        if old.connection is not None:
            other = old.connection
            self._disconnect(old, True)
            other.answer(SessionTakenOver())
        self._attach_to(connection, command, old)

    def _load(self, client_id: str, then: Callable[[MqttSession | None | Failure], None]) -> None:
        """Load a session that is not known; what else is asked of it meanwhile waits in `_loading`."""
        waiting = self._loading[client_id] = []

        def loaded(found: MqttSession | None | Failure) -> None:
            del self._loading[client_id]
            then(found)
            for act in waiting:
                act()

        def load() -> None:
            known = self._known.get(client_id)  # recovery may be storing it
            if known is None:
                snapshot.load(self._state, client_id, loaded)
            else:
                loaded(known)

        if self._recovery.under_way:
            self._recovery.recover_now(client_id, load)
        else:
            load()

    def _attach_to(self, connection: ClientConnection, command: Attach, old: MqttSession | None | Failure) -> None:
        """Attach to the session `old`, or to a new one."""
        client_id = command.client_id
        if connection.closed:
            return
        if isinstance(old, Failure):
            connection.answer(Refused(command.ticket, old))
            return
        if old is not None and old.disconnected_ms:
            self.filter_index.release(old.subscriptions.values())
        changes: list[StateChange] = []
        if old is not None and (command.clean_start or not old.durable or 0 <= old.expires_ms() <= self._clock.wall_ms()):
            changes = self._end_session(old)
            old = None
        session = old or MqttSession(client_id)
        session.connection = connection
        session.epoch += 1
        session.window = command.window
        session.packet_bytes_max = command.packet_bytes_max
        session.address = command.address
        session.expiry_s = command.expiry_s
        session.will = command.will
        session.disconnected_ms = 0
        self._known[client_id] = session
        self._attached[connection] = session
        self.attached_max = max(self.attached_max, len(self._attached))
        connection.client_id = client_id
        connection.on_close.append(lambda: self._closed(connection))
        if session.durable:
            changes = [change for change in changes if change.key != snapshot.key(client_id, b"d")]
            changes.append(snapshot.definition(session))
        elif old is not None:
            # The session now ends with its connection: remove it from the store.
            changes = snapshot.removal(session)
        epoch = session.epoch

        def done(failure: None | Failure) -> None:
            if session.epoch != epoch:
                return
            if failure is not None:
                connection.answer(Refused(command.ticket, failure))
                return
            connection.answer(Attached(command.ticket, old is not None))
            if old is not None:
                self.resumed(connection)
            self._catch_up.resume(session)
            self._shared.resume(session)

        if changes:
            self._state.put(changes, done)
        else:
            done(None)

    def _end_session(self, session: MqttSession) -> list[StateChange]:
        """End a session: publish its pending will. Returns the changes that remove the session from the store."""
        will, session.will = session.will, None
        if will is not None:
            self._wills.publish(will, [])
        self._known.pop(session.client_id, None)
        self._outbound.forget(session)
        return snapshot.removal(session)

    # Disconnecting

    def _detach(self, connection: ClientConnection, command: Detach) -> None:
        session = self._attached.get(connection)
        if session is None:
            return
        if command.expiry_s >= 0:
            session.expiry_s = command.expiry_s
        self._disconnect(session, command.publish_will)

    def _closed(self, connection: ClientConnection) -> None:
        session = self._attached.get(connection)
        if session is not None:
            self._disconnect(session, True)

    def _disconnect(self, session: MqttSession, publish_will: bool) -> None:
        """The connection of a session has ended: store the session, or end it when it is not durable."""
        connection = session.connection
        if connection is None:
            return
        del self._attached[connection]
        for subscription in session.subscriptions.values():
            self._outbound.disconnect(session, subscription)
        behind = set(session.lag) | (self._outbound.unoffered() if session.durable else set())
        caught_up = not session.finding_lag and not behind
        self._shared.disconnect(session)
        session.disconnect()
        self._outbound.forget(session)
        session.disconnected_ms = self._clock.wall_ms()
        if not publish_will:
            session.will = None
        if not session.durable:
            if session.will is not None:
                self._wills.publish(session.will, [])
            session.will = None
            changes = snapshot.removal(session)
            if changes:
                self._state.put(changes, None)
            self._known.pop(session.client_id, None)
            return
        if caught_up and session.baseline_ms:
            session.baseline_ms = max(session.baseline_ms, session.disconnected_ms - BASELINE_MARGIN_MS)
        for queue in session.positions:
            if caught_up or queue not in behind:
                self._advance(session, queue)
        self.filter_index.acquire(session.subscriptions.values())
        self._store_disconnected(session)

    def _advance(self, session: MqttSession, queue: tuple[str, int]) -> None:
        """Move the position to the end of a queue that did not lag: all its messages have been delivered."""

        def bounds(result: tuple[int, int] | Failure) -> None:
            if not isinstance(result, Failure) and session.connection is None:
                session.positions[queue] = result[1]
                session.changed_topics[queue[0]] = None

        self._log.bounds(queue[0], queue[1], bounds)

    def _store_disconnected(self, session: MqttSession) -> None:
        """Store a disconnected session, and publish its will when that is due."""
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

        self._deadlines.add(session)
        if due and will is not None:
            self._wills.publish(will, changes, done)
        else:
            self._state.put(changes, done)

    def _due(self, client_id: str) -> None:
        """The deadline of a disconnected session: end it or publish its will. Does nothing when the client has reconnected."""
        waiting = self._loading.get(client_id)
        if waiting is not None:
            waiting.append(lambda: self._due(client_id))
        elif client_id not in self._known:
            self._load(client_id, lambda found: self._due_now(client_id, found))

    def _due_now(self, client_id: str, session: MqttSession | None | Failure) -> None:
        if isinstance(session, Failure):
            self._clock.call_at(self._clock.monotonic_ns() + SECOND_NS, lambda: self._due(client_id))
            return
        if session is None or session.disconnected_ms == 0:
            return
        now_ms = self._clock.wall_ms()
        if 0 <= session.expires_ms() <= now_ms:
            self.filter_index.release(session.subscriptions.values())
            self._state.put(self._end_session(session), None)
        elif 0 <= will_ms(session) <= now_ms:
            self._store_disconnected(session)
        else:
            self._deadlines.add(session)

    def _recover(self, found: MqttSession, done: Callable[[], None]) -> None:
        """Recover a stored session after a start. If it was connected when the node stopped, it is disconnected now."""
        subscriptions = found.subscriptions.values()
        self.filter_index.acquire(subscriptions)

        def added() -> None:
            if found.disconnected_ms:
                self._deadlines.add(found)
                done()
            else:
                ask_until_answered(self._clock, partial(snapshot.load, self._state, found.client_id), loaded)

        def loaded(session: MqttSession | None) -> None:
            if session is not None:
                session.disconnected_ms = self._clock.wall_ms()
                self._shared.recover(session)
                self._store_disconnected(session)
            done()

        self._replay.add_session(found.client_id, subscriptions, added)

    # Commands of connected sessions; those of connections without a session are ignored

    def _for_attached(self, act: Callable[[MqttSession, ClientConnection, Any], None]) -> Verb:
        def verb(connection: ClientConnection, command: Any) -> None:
            session = self._attached.get(connection)
            if session is not None:
                act(session, connection, command)

        return verb

    def _confirm(self, session: MqttSession, slots: list[int]) -> None:
        self._outbound.confirm(session, slots)
        self._catch_up.catch_up(session)
        if session.shared_subscriptions:
            self._shared.pump(session)

    def _reject(self, session: MqttSession, _connection: ClientConnection, command: RejectDeliveries) -> None:
        flights = [session.in_flight.get(delivery.slot) for delivery in command.items]
        self._catch_up.lost[TOO_LARGE] += sum(flight is not None and flight.lease is None for flight in flights)
        self._shared.reject(session, command.items)
        self._confirm(session, [delivery.slot for delivery in command.items])


def _nothing(_connection: ClientConnection) -> None:
    """Default of `resumed`."""
