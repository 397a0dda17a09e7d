"""Shared subscriptions (MQTT 5, 4.8.2): sessions as members of consumer groups, beside consumers of other protocols.

See docs/decisions/0012-shared-subscriptions.md and 0138-a-share-is-a-name-and-a-filter.md.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from domain.address import topic_of_path
from domain.client.membership import Membership, Subscription
from domain.client.mqtt_session import EXACTLY_ONCE, MqttSubscription
from domain.delivery.routed import Delivery
from domain.errors import ErrorCode, Failure
from domain.limits import SECOND_NS
from domain.walk import Walk, Walks
from gateway.access.session_name import shown
from gateway.routing.routes import is_routed, topic_of_filter
from gateway.usecase.membership.members import Registry
from gateway.usecase.sessions.in_flight import DeliveryLease
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.shared.group_delivery import GroupDelivery
from gateway.usecase.sessions.shared.share_groups import WILDCARD_TOPICS_MAX, ShareGroups, Then
from gateway.usecase.sessions.shared.shared_dispatch import SharedDispatch

log = logging.getLogger("headgate.sessions")


class SharedSubscriptions:
    """One dispatcher for each group and topic. A subscription that begins with a wildcard joins those of all topics.

    groups          prepares groups
    _known          topics that the subscriptions of _wildcards have joined
    _unregistered   sessions whose memberships are to be registered at the end of the turn
    _without_topic  the dispatchers of topics that do not exist, by topic
    """

    def __init__(
        self,
        groups: ShareGroups,
        walks: Walks,
        registry: Registry,
        delivery: GroupDelivery,
    ) -> None:
        self.groups = groups
        self._walks = walks
        self._clock = walks.clock
        self._registry = registry
        self._delivery = delivery
        self._leases = delivery.leases
        self._dispatchers: dict[str, dict[str, SharedDispatch]] = {}
        self._without_topic: dict[str, dict[SharedDispatch, None]] = {}
        self._unregistered: dict[MqttSession, None] = {}
        self._wildcards: dict[tuple[MqttSession, str], MqttSubscription] = {}
        self._known: set[str] = set()

    # Members

    def prepare(self, subscription: MqttSubscription, done: Then) -> None:
        """Prepare the group of a subscription (`ShareGroups.prepare`)."""
        self.groups.prepare(subscription, lambda: self._dispatchers.get(subscription.consumer_group, ()), done)

    def join(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """Make the session a member of the group."""
        self._join(session, subscription)
        self._register_soon(session)

    def _join(self, session: MqttSession, subscription: MqttSubscription) -> None:
        name = topic_of_filter(subscription.pattern)
        if name:
            self._dispatcher(subscription, name).join(session, subscription)
            return
        self._wildcards[session, subscription.name] = subscription
        for topic in self.groups.topics(subscription.pattern):
            self._known.add(topic)
            self._join_wildcard(session, subscription, topic)

    def _register_soon(self, session: MqttSession) -> None:
        """Register the session's memberships at the end of the turn, once for all changes."""
        if not self._unregistered:
            self._clock.call_soon(self._register_all)
        self._unregistered[session] = None

    def _register_all(self) -> None:
        unregistered, self._unregistered = self._unregistered, {}
        for session in unregistered:
            self._register(session)

    def _register(self, session: MqttSession) -> None:
        """Register the session's memberships, which tools and other consumers of the groups see."""
        connection = session.connection
        if connection is None:
            return
        connection.on_writable = (lambda: self.pump(session)) if session.shared_subscriptions else None
        groups: dict[str, dict[str, None]] = {}
        for subscription in session.shared_subscriptions.values():
            topics = groups.setdefault(subscription.consumer_group, {})
            name = topic_of_filter(subscription.pattern)
            topics.update(dict.fromkeys([name] if name else self.groups.topics(subscription.pattern)))
        memberships = [
            Membership(group, consume_type="CONSUME_POP", subscriptions=[Subscription(topic) for topic in topics])
            for group, topics in groups.items()
        ]
        self._registry.set_memberships(connection, shown(session.name), session.address, memberships)

    def _join_wildcard(self, session: MqttSession, subscription: MqttSubscription, topic: str) -> None:
        group = subscription.consumer_group
        dispatchers = self._dispatchers.get(group, {})
        if topic not in dispatchers and len(dispatchers) >= WILDCARD_TOPICS_MAX:
            log.warning("group %s follows %s topics: %s is not followed by wildcard", group, len(dispatchers), topic)
            return
        self._dispatcher(subscription, topic).join(session, subscription)

    def _dispatcher(self, subscription: MqttSubscription, topic: str) -> SharedDispatch:
        group = subscription.consumer_group
        dispatchers = self._dispatchers.setdefault(group, {})
        dispatcher = dispatchers.get(topic)
        if dispatcher is None:
            dispatcher = dispatchers[topic] = SharedDispatch(self._delivery, subscription.group, group, topic, self._refused)
        return dispatcher

    def leave(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """The session has unsubscribed. Its in-flight messages stay in flight."""
        back, dispatchers = self._leave(session, subscription)
        self._leases.give_back(back)
        self._register_soon(session)
        for dispatcher in dispatchers:
            dispatcher.pump()

    def _leave(self, session: MqttSession, subscription: MqttSubscription) -> tuple[list[DeliveryLease], list[SharedDispatch]]:
        """(leases to give back, dispatchers that still have members)."""
        self._wildcards.pop((session, subscription.name), None)
        dispatchers = self._dispatchers.get(subscription.consumer_group, {})
        back: list[DeliveryLease] = []
        left: list[SharedDispatch] = []
        for dispatcher in self._of(subscription):
            back += dispatcher.leave(session, subscription.pattern)
            if dispatcher.is_empty:
                del dispatchers[dispatcher.topic]
                self._forget_without_topic(dispatcher)
            else:
                left.append(dispatcher)
        if not dispatchers:
            self._dispatchers.pop(subscription.consumer_group, None)
        return back, left

    def _of(self, subscription: MqttSubscription) -> list[SharedDispatch]:
        """The dispatchers that may have messages for a subscription."""
        dispatchers = self._dispatchers.get(subscription.consumer_group, {})
        name = topic_of_filter(subscription.pattern)
        return list(dispatchers.values()) if name == "" else [dispatchers[name]] if name in dispatchers else []

    def resume(self, session: MqttSession) -> None:
        """The client has connected: join all groups of the session.

        Groups of a share name and a filter are prepared before: the session may be of a version that had none.
        """
        epoch = session.epoch
        for subscription in list(session.shared_subscriptions.values()):
            if subscription.consumer_group == subscription.group or subscription.consumer_group in self._dispatchers:
                self._join(session, subscription)
            else:
                self._walks.begin(self._resume(session, epoch, subscription))
        if session.shared_subscriptions:
            self._register_soon(session)

    def _resume(self, session: MqttSession, epoch: int, subscription: MqttSubscription) -> Walk:
        """Prepare the group, then join it; again in a second when the store refuses."""

        def has_it() -> bool:
            return session.epoch == epoch and session.shared_subscriptions.get(subscription.name) is subscription

        def done(failure: None | Failure) -> None:
            if not has_it():
                return
            if failure is None:
                self._join(session, subscription)
            else:
                self._clock.call_at(self._clock.monotonic_ns() + SECOND_NS, prepare)

        def prepare() -> None:
            if has_it():
                self.prepare(subscription, done)

        prepare()
        yield

    def disconnect(self, session: MqttSession) -> None:
        """The connection has ended: return unconfirmed messages to the groups for redelivery to other members.

        EXACTLY_ONCE messages that were sent must not go to another client (MQTT 5, 4.8.2). When the session ends with its
        connection, those that the client has not accepted go to the dead-letter topic. All returns are made in one step,
        before the dispatchers lease again, so that redelivery keeps the order.
        """
        back: list[DeliveryLease] = []
        dispatchers: list[SharedDispatch] = []
        for subscription in session.shared_subscriptions.values():
            more, left = self._leave(session, subscription)
            back += more
            dispatchers += left
        if session.shared_subscriptions and session.connection is not None:
            self._registry.set_memberships(session.connection, shown(session.name), session.address, ())
        if session.leases:
            back += self._free_leased_slots(session)
        self._leases.give_back(back)
        for dispatcher in dispatchers:
            dispatcher.pump()

    def _free_leased_slots(self, session: MqttSession) -> list[DeliveryLease]:
        """Free the slots of messages with a lease. Returns the leases to give back, and ends the others."""
        unsent = {delivery.slot for delivery in (*session.outbox, *session.unstored_deliveries)}
        back: list[DeliveryLease] = []
        for slot, flight in list(session.in_flight.items()):
            if flight.lease is None:
                continue
            lease = session.free_slot(slot)
            assert lease is not None
            if flight.level != EXACTLY_ONCE or slot in unsent or session.durable:
                back.append(lease)
            elif flight.accepted:
                self._leases.settle(lease)
            else:
                self._leases.dead_letter(lease)
        return back

    def recover(self, session: MqttSession) -> None:
        """The node stopped without closing this session's connection: end the leases that are stored with the session.

        EXACTLY_ONCE messages are stored with the session and stay in flight to its client; others go back to the groups.
        """
        back: list[DeliveryLease] = []
        for slot, flight in list(session.in_flight.items()):
            lease = flight.lease
            if lease is None:
                continue
            if flight.level == EXACTLY_ONCE:
                flight.lease = None
                session.changed(slot)
                session.leases -= 1
                self._leases.settle(lease)
            else:
                session.free_slot(slot)
                back.append(lease)
        self._leases.give_back(back)

    # Events

    def changed(self, topic: str) -> None:
        """A topic has come, or changed. A far store may report a new topic by this call alone."""
        if topic in self._without_topic or (self._wildcards and topic not in self._known):
            self._clock.call_soon(lambda: self.arrived(topic))

    def arrived(self, topic: str) -> None:
        """A message has arrived in `topic`, which may be a new topic."""
        if self._without_topic:
            for dispatcher in self._without_topic.pop(topic, {}):
                dispatcher.pump()
        if self._wildcards and topic not in self._known:
            self._known.add(topic)
            if is_routed(topic):
                self._walks.begin(self._join_all(topic))

    def _join_all(self, topic: str) -> Walk:
        """All subscriptions that begin with a wildcard join a new topic."""
        for (session, name), subscription in list(self._wildcards.items()):
            if self._wildcards.get((session, name)) is subscription:
                self._join_wildcard(session, subscription, topic)
                yield

    def pump(self, session: MqttSession) -> None:
        """The member can take messages again: slots have become free, or its client reads."""
        for subscription in session.shared_subscriptions.values():
            for dispatcher in self._of(subscription):
                dispatcher.wake(session)

    def reject(self, session: MqttSession, items: Sequence[Delivery]) -> None:
        """Deliveries exceed the Maximum Packet Size of this client: offer those of groups to other members."""
        for delivery in items:
            lease = session.free_slot(delivery.slot)
            if lease is None:
                continue
            path = delivery.routed.path
            dispatcher = self._dispatchers.get(lease.group, {}).get(topic_of_path(path))
            if dispatcher is not None:
                dispatcher.reject(session, lease, delivery.routed.record.data, path)
            else:
                self._leases.give_back([lease])

    def _refused(self, dispatcher: SharedDispatch, code: ErrorCode) -> None:
        """Try again when the topic has been created, after other refusals in a second."""
        if code is ErrorCode.TOPIC_NOT_FOUND:
            self._without_topic.setdefault(dispatcher.topic, {})[dispatcher] = None
        else:
            self._clock.call_at(self._clock.monotonic_ns() + SECOND_NS, dispatcher.pump)

    def _forget_without_topic(self, dispatcher: SharedDispatch) -> None:
        waiting = self._without_topic.get(dispatcher.topic)
        if waiting is not None:
            waiting.pop(dispatcher, None)
            if not waiting:
                del self._without_topic[dispatcher.topic]
