"""Sessions as members of consumer groups: the same groups, and the same ledger, as receivers of every other protocol."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from domain import property as properties
from domain.address import topic_of_path
from domain.command import Membership, Receive, Subscription
from domain.errors import ErrorCode, Failure
from domain.limits import SECOND_NS
from domain.mqtt_session import AT_MOST_ONCE, EXACTLY_ONCE, Delivery, MqttSubscription, RoutedRecord
from domain.ports import Clock
from domain.record import Record
from domain.store_ports import MessageLog, Metadata
from domain.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.routing.routes import is_routed, topic_of_filter
from gateway.usecase.catalog.groups import Groups
from gateway.usecase.catalog.policy import NodePolicy
from gateway.usecase.consume.receive import Receiving
from gateway.usecase.membership.members import Registry
from gateway.usecase.sessions.delivery_leases import DeliveryLeases
from gateway.usecase.sessions.group_dispatcher import GroupDispatcher
from gateway.usecase.sessions.mqtt_session import DeliveryLease, InFlightMessage, MqttSession
from gateway.usecase.sessions.outbound import OutboundDelivery, level_of
from gateway.usecase.sessions.start_positions import StartPositions
from gateway.usecase.sessions.strategy import Member, strategy_of

WILDCARD_TOPICS_MAX: Final = 256
"""Topics that a group can follow by filters that begin with a wildcard."""
Then = Callable[[Failure | None], None]
log = logging.getLogger("headgate.sessions")


class SharedSubscriptions:
    """Lines by group and topic. A filter that begins with a wildcard has one in every topic, and joins those that come.

    oversize   how often a message was too large for every member that was there
    """

    def __init__(
        self,
        log: MessageLog,
        start_positions: StartPositions,
        metadata: Metadata,
        clock: Clock,
        receiving: Receiving,
        groups: Groups,
        outbound: OutboundDelivery,
        leases: DeliveryLeases,
        registry: Registry,
        policy: NodePolicy,
    ) -> None:
        self._log = log
        self._registry = registry
        self._policy = policy
        self._start_positions = start_positions
        self._metadata = metadata
        self._clock = clock
        self._receive = receiving.verbs()[Receive]
        self._groups = groups
        self._outbound = outbound
        self._leases = leases
        self.track = leases.track
        self._dispatchers: dict[str, dict[str, GroupDispatcher]] = {}
        self._without_topic: dict[str, dict[GroupDispatcher, None]] = {}
        self._wildcards: dict[tuple[MqttSession, str], MqttSubscription] = {}
        self._known: set[str] = set()
        self.oversize = 0

    # Coming and going

    def prepare(self, subscription: MqttSubscription, done: Then) -> None:
        """Make the group, and let it begin here where it has no position yet: what there is is not for it, what comes is.

        GROUP_ILLEGAL, GROUP_NOT_FOUND, NOT_ALLOWED; QUOTA for more than WILD_TOPICS_MAX topics; what the store refused.
        """

        def ready(group: Group | Failure) -> None:
            if isinstance(group, Failure):
                done(group)
            elif not group.consume_enable:
                done(Failure(ErrorCode.NOT_ALLOWED, f"group {group.name} may not consume"))
            else:
                topics = self._topics(subscription.pattern)
                # Where members are there is nothing to begin: a line without a position is of a topic that has come since.
                dispatchers = self._dispatchers.get(group.name, {})
                if len(topics) > WILDCARD_TOPICS_MAX:
                    done(Failure(ErrorCode.QUOTA, f"a group can follow {WILDCARD_TOPICS_MAX} topics by wildcard"))
                else:
                    new = [topic for topic in topics if topic not in dispatchers]
                    self._start_positions.begin(group.name, topic_of_filter(subscription.pattern), new, done)

        self._groups.ensure(subscription.group, ready)

    def _topics(self, pattern: str) -> list[str]:
        """Topics that exist and can have messages for `pattern`."""
        name = topic_of_filter(pattern)
        if name == "":
            return [topic.name for topic in self._metadata.topics() if is_routed(topic.name)]
        return [name] if self._metadata.topic(name) is not None else []

    def join(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """The session is a member from now on."""
        self._join(session, subscription)
        self._register(session)

    def _join(self, session: MqttSession, subscription: MqttSubscription) -> None:
        name = topic_of_filter(subscription.pattern)
        if name:
            self._dispatcher(subscription.group, name).join(session, subscription)
            return
        self._wildcards[session, subscription.name] = subscription
        for topic in self._topics(subscription.pattern):
            self._known.add(topic)
            self._join_wildcard(session, subscription, topic)

    def _register(self, session: MqttSession) -> None:
        """What tools and the other members of its groups see of it."""
        connection = session.connection
        if connection is None:
            return
        connection.on_writable = (lambda: self.pump(session)) if session.shared_subscriptions else None
        groups: dict[str, dict[str, None]] = {}
        for subscription in session.shared_subscriptions.values():
            topics = groups.setdefault(subscription.group, {})
            name = topic_of_filter(subscription.pattern)
            topics.update(dict.fromkeys([name] if name else self._topics(subscription.pattern)))
        memberships = [
            Membership(group, consume_type="CONSUME_POP", subscriptions=[Subscription(topic) for topic in topics])
            for group, topics in groups.items()
        ]
        self._registry.enrol(connection, session.client_id, session.address, memberships)

    def _join_wildcard(self, session: MqttSession, subscription: MqttSubscription, topic: str) -> None:
        dispatchers = self._dispatchers.get(subscription.group, {})
        if topic not in dispatchers and len(dispatchers) >= WILDCARD_TOPICS_MAX:
            log.warning(
                "group %s follows %s topics: %s is not followed by wildcard", subscription.group, len(dispatchers), topic
            )
            return
        self._dispatcher(subscription.group, topic).join(session, subscription)

    def _dispatcher(self, group: str, topic: str) -> GroupDispatcher:
        dispatchers = self._dispatchers.setdefault(group, {})
        dispatcher = dispatchers.get(topic)
        if dispatcher is None:
            dispatcher = dispatchers[topic] = GroupDispatcher(self, group, topic)
        return dispatcher

    def leave(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """The session has unsubscribed; what is under way to it stays under way."""
        back, dispatchers = self._leave(session, subscription)
        self._leases.give_back(back)
        self._register(session)
        for dispatcher in dispatchers:
            dispatcher.pump()

    def _leave(self, session: MqttSession, subscription: MqttSubscription) -> tuple[list[DeliveryLease], list[GroupDispatcher]]:
        """(leases that go back, lines that go on without the member)."""
        self._wildcards.pop((session, subscription.name), None)
        dispatchers = self._dispatchers.get(subscription.group, {})
        back: list[DeliveryLease] = []
        left: list[GroupDispatcher] = []
        for dispatcher in list(dispatchers.values()):
            back += dispatcher.leave(session, subscription.pattern)
            if dispatcher.is_empty:
                del dispatchers[dispatcher.topic]
                self._forget_without_topic(dispatcher)
            else:
                left.append(dispatcher)
        if not dispatchers:
            self._dispatchers.pop(subscription.group, None)
        return back, left

    def resume(self, session: MqttSession) -> None:
        """The session has got a connection."""
        for subscription in session.shared_subscriptions.values():
            self._join(session, subscription)
        if session.shared_subscriptions:
            self._register(session)

    def disconnect(self, session: MqttSession) -> None:
        """The connection is gone: the others get what it has not confirmed.

        Not what it was sent to be delivered exactly once (MQTT 5, 4.8.2): when the session ends with its connection,
        that goes to the dead-letter topic, unless the client has taken it over. All that goes back does so in one step,
        before the lines ask for more: what comes next is the first of it.
        """
        back: list[DeliveryLease] = []
        dispatchers: list[GroupDispatcher] = []
        for subscription in session.shared_subscriptions.values():
            more, left = self._leave(session, subscription)
            back += more
            dispatchers += left
        if session.shared_subscriptions and session.connection is not None:
            self._registry.enrol(session.connection, session.client_id, session.address, ())
        if session.leases:
            back += self._free_leased_slots(session)
        self._leases.give_back(back)
        for dispatcher in dispatchers:
            dispatcher.pump()

    def _free_leased_slots(self, session: MqttSession) -> list[DeliveryLease]:
        """Free the slots of what it has from groups; the leases of it that go back."""
        unsent = {delivery.slot for delivery in (*session.outbox, *session.unstored_deliveries)}
        back: list[DeliveryLease] = []
        for slot, flight in list(session.in_flight.items()):
            if flight.lease is None:
                continue
            lease = session.free_slot(slot)
            assert lease is not None
            if flight.level != EXACTLY_ONCE or slot in unsent or session.durable:
                back.append(lease)
            elif flight.taken:
                self._leases.settle(lease)
            else:
                self._leases.dead_letter(lease)
        return back

    def recover(self, session: MqttSession) -> None:
        """The node was killed while this session had a connection: its leases are still there.

        What it was to deliver exactly once is on record with it, and stays with it.
        """
        back: list[DeliveryLease] = []
        for slot, flight in list(session.in_flight.items()):
            lease = flight.lease
            if lease is None:
                continue
            if flight.level == EXACTLY_ONCE:
                flight.lease = None
                session.leases -= 1
                self._leases.settle(lease)
            else:
                session.free_slot(slot)
                back.append(lease)
        self._leases.give_back(back)

    # Events

    def arrived(self, topic: str) -> None:
        """Something has come to `topic`, which may be new."""
        if self._without_topic:
            for dispatcher in self._without_topic.pop(topic, {}):
                dispatcher.pump()
        if self._wildcards and topic not in self._known:
            self._known.add(topic)
            if is_routed(topic):
                for (session, _), subscription in list(self._wildcards.items()):
                    self._join_wildcard(session, subscription, topic)

    def pump(self, session: MqttSession) -> None:
        """Slots have become free."""
        for subscription in session.shared_subscriptions.values():
            name = topic_of_filter(subscription.pattern)
            dispatchers = self._dispatchers.get(subscription.group, {})
            for dispatcher in [dispatchers[name]] if name in dispatchers else list(dispatchers.values()) if name == "" else []:
                dispatcher.pump()

    # What lines need

    def receive(self, connection: ClientConnection, command: Receive) -> None:
        """Desk.receive."""
        self._receive(connection, command)

    def strategy(self, group: str) -> str:
        """Desk.strategy."""
        found = self._metadata.group(group)
        return strategy_of(found.attributes if found is not None else {}, self._policy.share_strategy)

    def after_answers(self, then: Callable[[], None]) -> None:
        """Desk.after_answers: the store answers in the order in which it was asked."""
        self._log.append([], lambda _: then())

    def too_large(self, lease: DeliveryLease) -> None:
        """Desk.unfit: a failed attempt, as the group's retries go; a member that can take it may have come by the next."""
        self.oversize += 1
        group = self._metadata.group(lease.group)
        lease.delay_ms = group.retry.delay_ms(lease.attempt - 1) if group is not None else 0
        self._leases.give_back([lease])

    def decline(self, session: MqttSession, items: Sequence[Delivery]) -> None:
        """Deliveries that are too large for this client: what is a group's goes to another member."""
        for delivery in items:
            lease = session.free_slot(delivery.slot)
            if lease is None:
                continue
            path = delivery.routed.path
            for dispatcher in self._dispatchers.get(lease.group, {}).values():
                if dispatcher.topic == topic_of_path(path):
                    dispatcher.decline(session, lease, delivery.routed.record.data, path)
                    break
            else:
                self._leases.give_back([lease])

    def give_back(self, leases: Sequence[DeliveryLease]) -> None:
        """Desk.give_back."""
        self._leases.give_back(leases)

    def deliver_to(self, member: Member, lease: DeliveryLease, record: Record, stored: bytes, path: str) -> None:
        """Desk.hand: what its sender or the filter promises no acknowledgement for is settled by being sent."""
        session, subscription = member
        level = min(level_of(stored), subscription.level)
        routed = RoutedRecord(record, stored, path, level)
        retained = subscription.as_published and properties.find(stored, properties.MQTT_RETAIN_START) == b"true"
        identifiers = (subscription.identifier,) if subscription.identifier else ()
        if level == AT_MOST_ONCE:
            session.outbox.append(Delivery(routed, AT_MOST_ONCE, 0, retained, False, identifiers))
            self._outbound.schedule(session)
            self._leases.settle(lease)
        else:
            queue = (lease.topic, lease.receipt.queue_id)
            flight = InFlightMessage(level, queue, lease.receipt.queue_offset, "", retained, identifiers, lease=lease)
            self._outbound.deliver(session, flight, routed)

    def refused(self, dispatcher: GroupDispatcher, code: ErrorCode) -> None:
        """Desk.refused: a topic may come, anything else may be over in a second."""
        if code is ErrorCode.TOPIC_NOT_FOUND:
            self._without_topic.setdefault(dispatcher.topic, {})[dispatcher] = None
        else:
            self._clock.call_at(self._clock.monotonic_ns() + SECOND_NS, dispatcher.pump)

    def _forget_without_topic(self, dispatcher: GroupDispatcher) -> None:
        waiting = self._without_topic.get(dispatcher.topic)
        if waiting is not None:
            waiting.pop(dispatcher, None)
            if not waiting:
                del self._without_topic[dispatcher.topic]
