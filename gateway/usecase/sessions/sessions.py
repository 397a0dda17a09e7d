"""MQTT sessions: carries out the commands of domain.client.mqtt_session. See docs/decisions/0006-mqtt-sessions.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from domain.client.mqtt_session import (
    AcceptDeliveries,
    Attach,
    Attached,
    ConfirmDeliveries,
    Detach,
    RejectDeliveries,
    ReleasePacketIds,
    SendOnce,
    SessionTakenOver,
    Subscribe,
    Unsubscribe,
)
from domain.errors import Failure
from domain.event import Refused
from domain.ports import Clock
from domain.store.message_store import MessageStore
from domain.store.store_ports import StateChange
from gateway.access.path_rights import PathRights
from gateway.access.session_name import name_of
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.watch import Interest
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.handler import Verb, Verbs
from gateway.usecase.publish.will_publisher import WillPublisher
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.attached_sessions import AttachedSessions
from gateway.usecase.sessions.inbound import InboundDeduplication
from gateway.usecase.sessions.index.filter_index import FilterIndex
from gateway.usecase.sessions.index.index_rebuild import Replay
from gateway.usecase.sessions.live_delivery import LiveDelivery
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.queue_restarts import QueueRestarts
from gateway.usecase.sessions.resend_and_lag import TOO_LARGE, CatchUp
from gateway.usecase.sessions.shared.delivery_leases import DeliveryLeases
from gateway.usecase.sessions.shared.group_delivery import GroupDelivery
from gateway.usecase.sessions.shared.share_groups import ShareGroups
from gateway.usecase.sessions.shared.shared_subscriptions import SharedSubscriptions
from gateway.usecase.sessions.shared.start_positions import StartPositions
from gateway.usecase.sessions.stored_sessions import StoredSessions
from gateway.usecase.sessions.subscription_changes import SubscriptionChanges
from gateway.usecase.sessions.sys_topics import SysTopics
from gateway.usecase.topics_and_groups.policy import NodePolicy

GONE_MAX: Final = 10_000
"""Deleted topics that are remembered, so that connected sessions read one of them from its begin when it is created again."""


class Sessions:
    """Attach, Detach, Subscribe, Unsubscribe, SendOnce, Release, Confirm, Decline, Take; and the store's listener behind them.

    A session that outlives its connection is stored before CONNACK reports it to the client.

    sys_topics     status of the node under `$SYS/broker/`
    filter_index   matches of the filters of disconnected sessions
    _gone          deleted topics, at most GONE_MAX
    """

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        handler: Dispatcher,
        policy: NodePolicy,
        attached: AttachedSessions,
        interest: Interest | None = None,
        rights: PathRights | None = None,
    ) -> None:
        """`interest` is called with the filter of each subscription of a connected session that begins (True) or ends.
        `rights` judges wills when they are due, and messages that are sent again; None: access is not controlled."""
        self._rights = rights = rights or PathRights()
        log, metadata, state = store.log, store.metadata, store.state
        self._log, self._metadata, self._state = log, metadata, state
        self._clock = clock
        self._wills = WillPublisher(state, clock, handler.sending, rights)
        leases = DeliveryLeases(store.leases, handler.walks, handler.dead_letters)
        self._outbound = LiveDelivery(state, clock, leases.settle, interest)
        start_positions = StartPositions(log, store.positions, metadata, clock)
        share_groups = ShareGroups(start_positions, metadata, handler.groups)
        self._group_delivery = GroupDelivery(log, metadata, handler.receiving, self._outbound, leases, policy)
        self._shared = SharedSubscriptions(share_groups, handler.walks, handler.registry, self._group_delivery)
        self._gone: dict[str, None] = {}
        metadata.follow_topics(self._topic_changed)
        self.sys_topics = SysTopics(clock, self._outbound)
        self.filter_index = FilterIndex(clock)
        replay = Replay(log, metadata, state, clock, self.filter_index)
        self._catch_up = CatchUp(
            store, clock, self._outbound, self.sys_topics, self.filter_index, self._shared.pump, rights
        )  # fmt: skip
        self._changes = SubscriptionChanges(
            log, metadata, state, clock, self._outbound, self._catch_up, self._shared, handler.questions
        )
        self._inbound = InboundDeduplication(state, handler.sending, clock)
        self._attached = attached
        self._sessions = attached.by_connection
        self._restarts = QueueRestarts(handler.walks, self._sessions, self._outbound)
        self._stored = StoredSessions(
            store, handler.walks, self._wills, self._outbound, self._shared, self.filter_index, replay
        )
        self.verbs: Verbs = {
            Attach: self._attach,
            Detach: self._detach,
            Subscribe: self._for_attached(self._changes.subscribe),
            Unsubscribe: self._for_attached(self._changes.unsubscribe),
            SendOnce: self._for_attached(self._inbound.send_once),
            ReleasePacketIds: self._for_attached(self._inbound.release),
            ConfirmDeliveries: self._confirm_deliveries,
            AcceptDeliveries: self._for_attached(lambda session, _, command: self._outbound.accept(session, command.slots)),
            RejectDeliveries: self._for_attached(self._reject),
        }

    @property
    def subscription_count(self) -> int:
        """Number of subscriptions of connected sessions, shared subscriptions excluded."""
        return self._outbound.subscription_count

    @property
    def oversize(self) -> int:
        """Number of messages of shared subscriptions that were too large for every member."""
        return self._group_delivery.oversize

    @property
    def lost(self) -> Mapping[str, int]:
        """Messages lost to their sessions, by reason (`catchup`)."""
        return self._catch_up.lost

    @property
    def undelivered(self) -> int:
        """Number of deliveries and of new messages that wait for a later turn of the loop."""
        return self._outbound.waiting + len(self._outbound.arrivals)

    @property
    def attached(self) -> int:
        """Number of connected sessions."""
        return len(self._sessions)

    @property
    def attached_max(self) -> int:
        """Largest number of sessions connected at the same time, since the start."""
        return self._attached.most

    @property
    def recovering(self) -> bool:
        """True while stored sessions are being recovered after the start."""
        return self._stored.recovering

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """StoreListener: records of one queue have become readable."""
        self._outbound.arrived(topic, queue_id, records)
        self.filter_index.arrived(topic, queue_id, records)
        self._shared.arrived(topic)

    def went_back(self, topic: str, queue_id: int, offset: int) -> None:
        """A broker has lost the messages of a queue from `offset` on. Those that get these offsets now are new to sessions."""
        queue = (topic, queue_id)
        self.filter_index.forget(queue)
        self._restarts.begin(lambda session: self._catch_up.begin_at(session, queue, offset))

    def freed(self, group: str, topic: str) -> None:
        """StoreListener: does nothing, since a GroupReceive waits for returned messages itself."""

    def _topic_changed(self, name: str) -> None:
        """A topic was made, changed or deleted. Connected sessions read a topic that was deleted and made again from its begin.

        A far store that does not report when a topic was made may have lost sight of it for a while: it is the same, then.
        """
        topic = self._metadata.topic(name)
        if topic is None:
            self._gone[name] = None
            self.filter_index.forget_topic(name)
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]
            return
        if name in self._gone:
            del self._gone[name]
            if topic.created_ms:
                self._restarts.begin(lambda session: self._catch_up.restart_topic(session, name))
        self._shared.changed(name)

    # Connecting

    def _attach(self, connection: ClientConnection, command: Attach) -> None:
        if command.ends_at:
            connection.ends_at = command.ends_at
        sought = name_of(connection, command.client_id, self._rights)
        self._stored.find(sought, lambda found: self._attach_to(connection, command, sought.name, found))

    def _attach_to(self, connection: ClientConnection, command: Attach, name: str, old: MqttSession | None | Failure) -> None:
        """Attach to the session `old`, taken over from another connection if it has one, or to a new session."""
        if connection.closed:
            return
        if isinstance(old, Failure):
            connection.answer(Refused(command.ticket, old))
            return
        if old is not None and old.connection is not None:
            other = old.connection
            self._disconnect(old, True)
            other.answer(SessionTakenOver())
        ends = old is not None and (command.clean_start or not old.durable or 0 <= old.expires_ms() <= self._clock.wall_ms())
        # Messages that wait in a session are for its user: another user gets a new session, where it has none of its own.
        ends = ends or (old is not None and not old.is_of(connection))
        if old is not None and ends and old.appending:
            # The packet identifiers that come with these appends would be found in the session that follows.
            old.after_appends(lambda: self._attach(connection, command))
            return
        if old is not None and old.disconnected_ms:
            self.filter_index.release(old.subscriptions.values())
        changes: list[StateChange] = []
        if old is not None and ends:
            changes = self._stored.end(old)
            old = None
        session = old or MqttSession(name)
        session.connect(connection, command)
        self._stored.in_memory[name] = session
        self._attached.attach(connection, session)
        connection.client_id = command.client_id
        connection.on_close.append(lambda: self._closed(connection))
        written: snapshot.SessionChanges | None = None
        if session.durable:
            written = snapshot.definition(session)
            changes += written.changes
        elif old is not None:
            # The session now ends with its connection: remove it from the store.
            changes = snapshot.removal(session)
        epoch = session.epoch

        def done(failure: None | Failure) -> None:
            if written is not None:
                written.settle(failure)
            self._stored.settle_name(session)
            if session.epoch != epoch:
                return
            if failure is not None:
                connection.answer(Refused(command.ticket, failure))
                return
            connection.answer(Attached(command.ticket, old is not None))
            if old is not None:
                self._attached.resumed(connection)
            self._catch_up.resume(session)
            self._shared.resume(session)

        if changes:
            self._state.put(changes, done)
        else:
            done(None)

    # Disconnecting

    def _detach(self, connection: ClientConnection, command: Detach) -> None:
        session = self._sessions.get(connection)
        if session is None:
            return
        if command.expiry_s >= 0:
            session.expiry_s = command.expiry_s
        self._disconnect(session, command.publish_will)

    def _closed(self, connection: ClientConnection) -> None:
        session = self._sessions.get(connection)
        if session is not None:
            self._disconnect(session, True)

    def _disconnect(self, session: MqttSession, publish_will: bool) -> None:
        """The connection of a session has ended: store the session, or end it when it is not durable."""
        connection = session.connection
        if connection is None:
            return
        del self._sessions[connection]
        self._restarts.disconnecting(session)
        for subscription in session.subscriptions.values():
            self._outbound.disconnect(session, subscription)
        arrivals = self._outbound.arrivals
        behind = {*session.lag, *filter(arrivals.has, session.positions)} if session.durable else set()
        known = not session.finding_lag
        self._shared.disconnect(session)
        session.disconnect()
        self._outbound.checkpoints.forget(session)
        session.disconnected_ms = self._clock.wall_ms()
        if not publish_will:
            session.will = None
        if not session.durable:
            if session.will is not None:
                self._wills.publish(session.will, session.user, session.client_id, [])
            session.will = None
            session.after_appends(lambda: self._stored.remove(session))
            return
        if known and not behind and not arrivals and session.baseline_ms:
            session.baseline_ms = max(session.baseline_ms, session.disconnected_ms - self._log.late_ms())
        for queue in session.positions if known else ():
            if queue not in behind:
                self._advance(session, queue)
        self.filter_index.acquire(session.subscriptions.values())
        self._stored.store(session)

    def _advance(self, session: MqttSession, queue: tuple[str, int]) -> None:
        """Move the position in a queue that did not lag behind all that was offered to the session.

        The end of the queue is not that position: it may have moved on since this node was notified of the last message.
        """
        end = self._log.notified(*queue)
        if end >= 0 and end != session.positions[queue]:
            session.positions[queue] = end
            session.records.changed_queues[queue] = None

    # Commands of connected sessions; those of connections without a session are ignored

    def _for_attached(self, act: Callable[[MqttSession, ClientConnection, Any], None]) -> Verb:
        def verb(connection: ClientConnection, command: Any) -> None:
            session = self._sessions.get(connection)
            if session is not None:
                act(session, connection, command)

        return verb

    def _confirm_deliveries(self, connection: ClientConnection, command: ConfirmDeliveries) -> None:
        session = self._sessions.get(connection)
        if session is not None:
            self._confirm(session, command.slots)

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
