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
from domain.mqtt_session import AT_MOST_ONCE, EXACTLY_ONCE, Delivery, Interest, Parcel
from domain.ports import Clock, MessageStore, Metadata
from domain.record import Record
from domain.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.routing.routes import is_routed, topic_of_filter
from gateway.usecase.catalog.groups import Groups
from gateway.usecase.catalog.policy import NodePolicy
from gateway.usecase.consume.receive import Receiving
from gateway.usecase.membership.members import Registry
from gateway.usecase.sessions.beginning import Beginning
from gateway.usecase.sessions.claims import Claims
from gateway.usecase.sessions.group_dispatcher import GroupDispatcher
from gateway.usecase.sessions.mqtt_session import Claim, Flight, MqttSession
from gateway.usecase.sessions.outflow import Outflow, level_of
from gateway.usecase.sessions.strategy import Member, strategy_of

WILD_TOPICS_MAX: Final = 256
"""Topics that a group can follow by filters that begin with a wildcard."""
Then = Callable[[Failure | None], None]
log = logging.getLogger("headgate.sessions")


class Shares:
    """Lines by group and topic. A filter that begins with a wildcard has one in every topic, and joins those that come.

    oversize   how often a message was too large for every member that was there
    """

    def __init__(
        self,
        store: MessageStore,
        metadata: Metadata,
        clock: Clock,
        receiving: Receiving,
        groups: Groups,
        outflow: Outflow,
        claims: Claims,
        registry: Registry,
        policy: NodePolicy,
    ) -> None:
        self._store = store
        self._registry = registry
        self._policy = policy
        self._beginning = Beginning(store, metadata, clock)
        self._metadata = metadata
        self._clock = clock
        self._receive = receiving.verbs()[Receive]
        self._groups = groups
        self._outflow = outflow
        self._claims = claims
        self.hold = claims.hold
        self._lines: dict[str, dict[str, GroupDispatcher]] = {}
        self._absent: dict[str, dict[GroupDispatcher, None]] = {}
        self._wild: dict[tuple[MqttSession, str], Interest] = {}
        self._known: set[str] = set()
        self.oversize = 0

    # Coming and going

    def prepare(self, interest: Interest, done: Then) -> None:
        """Make the group, and let it begin here where it has no position yet: what there is is not for it, what comes is.

        GROUP_ILLEGAL, GROUP_NOT_FOUND, NOT_ALLOWED; QUOTA for more than WILD_TOPICS_MAX topics; what the store refused.
        """

        def ready(group: Group | Failure) -> None:
            if isinstance(group, Failure):
                done(group)
            elif not group.consume_enable:
                done(Failure(ErrorCode.NOT_ALLOWED, f"group {group.name} may not consume"))
            else:
                topics = self._topics(interest.pattern)
                # Where members are there is nothing to begin: a line without a position is of a topic that has come since.
                lines = self._lines.get(group.name, {})
                if len(topics) > WILD_TOPICS_MAX:
                    done(Failure(ErrorCode.QUOTA, f"a group can follow {WILD_TOPICS_MAX} topics by wildcard"))
                else:
                    new = [topic for topic in topics if topic not in lines]
                    self._beginning.begin(group.name, topic_of_filter(interest.pattern), new, done)

        self._groups.ensure(interest.group, ready)

    def _topics(self, pattern: str) -> list[str]:
        """Topics that exist and can have messages for `pattern`."""
        name = topic_of_filter(pattern)
        if name == "":
            return [topic.name for topic in self._metadata.topics() if is_routed(topic.name)]
        return [name] if self._metadata.topic(name) is not None else []

    def join(self, session: MqttSession, interest: Interest) -> None:
        """The session is a member from now on."""
        self._join(session, interest)
        self._enrol(session)

    def _join(self, session: MqttSession, interest: Interest) -> None:
        name = topic_of_filter(interest.pattern)
        if name:
            self._line(interest.group, name).join(session, interest)
            return
        self._wild[session, interest.name] = interest
        for topic in self._topics(interest.pattern):
            self._known.add(topic)
            self._join_wild(session, interest, topic)

    def _enrol(self, session: MqttSession) -> None:
        """What tools and the other members of its groups see of it."""
        connection = session.connection
        if connection is None:
            return
        connection.on_ease = (lambda: self.pump(session)) if session.shares else None
        groups: dict[str, dict[str, None]] = {}
        for interest in session.shares.values():
            topics = groups.setdefault(interest.group, {})
            name = topic_of_filter(interest.pattern)
            topics.update(dict.fromkeys([name] if name else self._topics(interest.pattern)))
        memberships = [
            Membership(group, consume_type="CONSUME_POP", subscriptions=[Subscription(topic) for topic in topics])
            for group, topics in groups.items()
        ]
        self._registry.enrol(connection, session.client_id, session.address, memberships)

    def _join_wild(self, session: MqttSession, interest: Interest, topic: str) -> None:
        lines = self._lines.get(interest.group, {})
        if topic not in lines and len(lines) >= WILD_TOPICS_MAX:
            log.warning("group %s follows %s topics: %s is not followed by wildcard", interest.group, len(lines), topic)
            return
        self._line(interest.group, topic).join(session, interest)

    def _line(self, group: str, topic: str) -> GroupDispatcher:
        lines = self._lines.setdefault(group, {})
        line = lines.get(topic)
        if line is None:
            line = lines[topic] = GroupDispatcher(self, group, topic)
        return line

    def leave(self, session: MqttSession, interest: Interest) -> None:
        """The session has unsubscribed; what is under way to it stays under way."""
        back, lines = self._leave(session, interest)
        self._claims.give_back(back)
        self._enrol(session)
        for line in lines:
            line.pump()

    def _leave(self, session: MqttSession, interest: Interest) -> tuple[list[Claim], list[GroupDispatcher]]:
        """(leases that go back, lines that go on without the member)."""
        self._wild.pop((session, interest.name), None)
        lines = self._lines.get(interest.group, {})
        back: list[Claim] = []
        left: list[GroupDispatcher] = []
        for line in list(lines.values()):
            back += line.leave(session, interest.pattern)
            if line.deserted:
                del lines[line.topic]
                self._forget_absent(line)
            else:
                left.append(line)
        if not lines:
            self._lines.pop(interest.group, None)
        return back, left

    def resume(self, session: MqttSession) -> None:
        """The session has got a connection."""
        for interest in session.shares.values():
            self._join(session, interest)
        if session.shares:
            self._enrol(session)

    def lose(self, session: MqttSession) -> None:
        """The connection is gone: the others get what it has not confirmed.

        Not what it was sent to be delivered exactly once (MQTT 5, 4.8.2): when the session ends with its connection,
        that goes to the dead-letter topic, unless the client has taken it over. All that goes back does so in one step,
        before the lines ask for more: what comes next is the first of it.
        """
        back: list[Claim] = []
        lines: list[GroupDispatcher] = []
        for interest in session.shares.values():
            more, left = self._leave(session, interest)
            back += more
            lines += left
        if session.shares and session.connection is not None:
            self._registry.enrol(session.connection, session.client_id, session.address, ())
        if session.claims:
            back += self._ended(session)
        self._claims.give_back(back)
        for line in lines:
            line.pump()

    def _ended(self, session: MqttSession) -> list[Claim]:
        """Free the slots of what it has from groups; the leases of it that go back."""
        unsent = {delivery.slot for delivery in (*session.outbox, *session.held)}
        back: list[Claim] = []
        for slot, flight in list(session.in_flight.items()):
            if flight.claim is None:
                continue
            claim = session.leave(slot)
            assert claim is not None
            if flight.level != EXACTLY_ONCE or slot in unsent or session.durable:
                back.append(claim)
            elif flight.taken:
                self._claims.settle(claim)
            else:
                self._claims.bury(claim)
        return back

    def recover(self, session: MqttSession) -> None:
        """The node was killed while this session had a connection: its leases are still there.

        What it was to deliver exactly once is on record with it, and stays with it.
        """
        back: list[Claim] = []
        for slot, flight in list(session.in_flight.items()):
            claim = flight.claim
            if claim is None:
                continue
            if flight.level == EXACTLY_ONCE:
                flight.claim = None
                session.claims -= 1
                self._claims.settle(claim)
            else:
                session.leave(slot)
                back.append(claim)
        self._claims.give_back(back)

    # Events

    def arrived(self, topic: str) -> None:
        """Something has come to `topic`, which may be new."""
        if self._absent:
            for line in self._absent.pop(topic, {}):
                line.pump()
        if self._wild and topic not in self._known:
            self._known.add(topic)
            if is_routed(topic):
                for (session, _), interest in list(self._wild.items()):
                    self._join_wild(session, interest, topic)

    def pump(self, session: MqttSession) -> None:
        """Slots have become free."""
        for interest in session.shares.values():
            name = topic_of_filter(interest.pattern)
            lines = self._lines.get(interest.group, {})
            for line in [lines[name]] if name in lines else list(lines.values()) if name == "" else []:
                line.pump()

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
        self._store.append([], lambda _: then())

    def unfit(self, claim: Claim) -> None:
        """Desk.unfit: a failed attempt, as the group's retries go; a member that can take it may have come by the next."""
        self.oversize += 1
        group = self._metadata.group(claim.group)
        claim.delay_ms = group.retry.delay_ms(claim.attempt - 1) if group is not None else 0
        self._claims.give_back([claim])

    def decline(self, session: MqttSession, items: Sequence[Delivery]) -> None:
        """Deliveries that are too large for this client: what is a group's goes to another member."""
        for delivery in items:
            claim = session.leave(delivery.slot)
            if claim is None:
                continue
            path = delivery.parcel.path
            for line in self._lines.get(claim.group, {}).values():
                if line.topic == topic_of_path(path):
                    line.decline(session, claim, delivery.parcel.record.data, path)
                    break
            else:
                self._claims.give_back([claim])

    def give_back(self, claims: Sequence[Claim]) -> None:
        """Desk.give_back."""
        self._claims.give_back(claims)

    def hand(self, member: Member, claim: Claim, record: Record, stored: bytes, path: str) -> None:
        """Desk.hand: what its sender or the filter promises no acknowledgement for is settled by being sent."""
        session, interest = member
        level = min(level_of(stored), interest.level)
        parcel = Parcel(record, stored, path, level)
        retained = interest.as_published and properties.find(stored, b"mqttRetain") == b"true"
        identifiers = (interest.identifier,) if interest.identifier else ()
        if level == AT_MOST_ONCE:
            session.outbox.append(Delivery(parcel, AT_MOST_ONCE, 0, retained, False, identifiers))
            self._outflow.mark(session)
            self._claims.settle(claim)
        else:
            place = (claim.topic, claim.receipt.queue_id)
            flight = Flight(level, place, claim.receipt.queue_offset, "", retained, identifiers, claim=claim)
            self._outflow.launch(session, flight, parcel)

    def refused(self, line: GroupDispatcher, code: ErrorCode) -> None:
        """Desk.refused: a topic may come, anything else may be over in a second."""
        if code is ErrorCode.TOPIC_NOT_FOUND:
            self._absent.setdefault(line.topic, {})[line] = None
        else:
            self._clock.call_at(self._clock.monotonic_ns() + SECOND_NS, line.pump)

    def _forget_absent(self, line: GroupDispatcher) -> None:
        waiting = self._absent.get(line.topic)
        if waiting is not None:
            waiting.pop(line, None)
            if not waiting:
                del self._absent[line.topic]
