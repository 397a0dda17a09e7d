"""Sessions as members of consumer groups: the same groups, and the same ledger, as receivers of every other protocol."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from domain import property as properties
from domain.command import Receive
from domain.errors import ErrorCode, Failure
from domain.limits import SECOND_NS
from domain.ports import Clock, MessageStore, Metadata
from domain.record import Record
from domain.session import AT_MOST_ONCE, EXACTLY_ONCE, Delivery, Interest, Parcel
from domain.topic import Group
from gateway.routing.routes import is_routed, topic_of_filter
from gateway.session import Session
from gateway.usecase.groups import Groups
from gateway.usecase.receive import Receiving
from gateway.usecase.sessions.claims import Claims
from gateway.usecase.sessions.line import Line, Member
from gateway.usecase.sessions.outflow import Outflow, level_of
from gateway.usecase.sessions.subscriber import Claim, Flight, Subscriber

WILD_TOPICS_MAX: Final = 256
"""Topics that a group can follow by filters that begin with a wildcard."""
Then = Callable[[Failure | None], None]
log = logging.getLogger("headgate.sessions")


class Shares:
    """Lines by group and topic. A filter that begins with a wildcard has one in every topic, and joins those that come."""

    def __init__(
        self,
        store: MessageStore,
        metadata: Metadata,
        clock: Clock,
        receiving: Receiving,
        groups: Groups,
        outflow: Outflow,
        claims: Claims,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._clock = clock
        self._receive = receiving.verbs()[Receive]
        self._groups = groups
        self._outflow = outflow
        self._claims = claims
        self.hold = claims.hold
        self._lines: dict[str, dict[str, Line]] = {}
        self._absent: dict[str, dict[Line, None]] = {}
        self._wild: dict[tuple[Subscriber, str], Interest] = {}
        self._known: set[str] = set()

    # Coming and going

    def prepare(self, interest: Interest, done: Then) -> None:
        """Make the group, and let it begin here where it has no position yet: what there is already is not for it.

        GROUP_ILLEGAL, GROUP_NOT_FOUND, NOT_ALLOWED; QUOTA for more than WILD_TOPICS_MAX topics; what the store refused.
        """

        def ready(group: Group | Failure) -> None:
            if isinstance(group, Failure):
                done(group)
            elif not group.consume_enable:
                done(Failure(ErrorCode.NOT_ALLOWED, f"group {group.name} may not consume"))
            else:
                topics = self._topics(interest.pattern)
                if len(topics) > WILD_TOPICS_MAX:
                    done(Failure(ErrorCode.QUOTA, f"a group can follow {WILD_TOPICS_MAX} topics by wildcard"))
                else:
                    self._begin(group.name, topics, done)

        self._groups.ensure(interest.group, ready)

    def _topics(self, pattern: str) -> list[str]:
        """Topics that exist and can have messages for `pattern`."""
        name = topic_of_filter(pattern)
        if name == "":
            return [topic.name for topic in self._metadata.topics() if is_routed(topic.name)]
        return [name] if self._metadata.topic(name) is not None else []

    def _begin(self, group: str, names: list[str], done: Then) -> None:
        """Put the group at the end of those topics in which it has no position at all."""
        ends: list[tuple[str, int, int]] = []
        left = [1]

        def one_less() -> None:
            left[0] -= 1
            if left[0] == 0:
                if ends:
                    self._store.commit(group, ends, done)
                else:
                    done(None)

        def take(found: list[tuple[str, int, int]] | None) -> None:
            ends.extend(found or ())
            one_less()

        for name in names:
            topic = self._metadata.topic(name)
            if topic is not None:
                left[0] += 1
                self._ends(group, name, max(topic.read_queues, topic.write_queues), take)
        one_less()

    def _ends(self, group: str, topic: str, queues: int, done: Callable[[list[tuple[str, int, int]] | None], None]) -> None:
        """(topic, queue, end) of every queue of a topic; None when the group has a position there already."""
        ends: list[tuple[str, int, int]] = []
        left = [queues]
        known = [False]

        def look(queue_id: int) -> None:
            def position(result: int | Failure) -> None:
                known[0] = known[0] or not isinstance(result, Failure)
                self._store.bounds(topic, queue_id, bounds)

            def bounds(result: tuple[int, int] | Failure) -> None:
                if not isinstance(result, Failure):
                    ends.append((topic, queue_id, result[1]))
                left[0] -= 1
                if left[0] == 0:
                    done(None if known[0] else ends)

            self._store.offset(group, topic, queue_id, position)

        for queue_id in range(queues):
            look(queue_id)

    def join(self, subscriber: Subscriber, interest: Interest) -> None:
        """The session is a member from now on."""
        name = topic_of_filter(interest.pattern)
        if name:
            self._line(interest.group, name).join(subscriber, interest)
            return
        self._wild[subscriber, interest.name] = interest
        for topic in self._topics(interest.pattern):
            self._known.add(topic)
            self._join_wild(subscriber, interest, topic)

    def _join_wild(self, subscriber: Subscriber, interest: Interest, topic: str) -> None:
        lines = self._lines.get(interest.group, {})
        if topic not in lines and len(lines) >= WILD_TOPICS_MAX:
            log.warning("group %s follows %s topics: %s is not followed by wildcard", interest.group, len(lines), topic)
            return
        self._line(interest.group, topic).join(subscriber, interest)

    def _line(self, group: str, topic: str) -> Line:
        lines = self._lines.setdefault(group, {})
        line = lines.get(topic)
        if line is None:
            line = lines[topic] = Line(self, group, topic)
        return line

    def leave(self, subscriber: Subscriber, interest: Interest) -> None:
        """The session has unsubscribed; what is under way to it stays under way."""
        self._wild.pop((subscriber, interest.name), None)
        lines = self._lines.get(interest.group, {})
        for line in list(lines.values()):
            if line.leave(subscriber, interest.pattern):
                del lines[line.topic]
                self._forget_absent(line)
        if not lines:
            self._lines.pop(interest.group, None)

    def resume(self, subscriber: Subscriber) -> None:
        """The session has got a connection."""
        for interest in subscriber.shares.values():
            self.join(subscriber, interest)

    def lose(self, subscriber: Subscriber) -> None:
        """The connection is gone: the others get what it has not confirmed.

        Not what it was sent to be delivered exactly once (MQTT 5, 4.8.2): when the session ends with its connection,
        that goes to the dead-letter topic, unless the client has taken it over.
        """
        for interest in subscriber.shares.values():
            self.leave(subscriber, interest)
        if not subscriber.claims:
            return
        unsent = {delivery.slot for delivery in (*subscriber.outbox, *subscriber.held)}
        back: list[Claim] = []
        for slot, flight in list(subscriber.in_flight.items()):
            if flight.claim is None:
                continue
            claim = subscriber.leave(slot)
            assert claim is not None
            if flight.level != EXACTLY_ONCE or slot in unsent or subscriber.durable:
                back.append(claim)
            elif flight.taken:
                self._claims.settle(claim)
            else:
                self._claims.bury(claim)
        self._claims.give_back(back)

    def recover(self, subscriber: Subscriber) -> None:
        """The node was killed while this session had a connection: its leases are still there.

        What it was to deliver exactly once is on record with it, and stays with it.
        """
        back: list[Claim] = []
        for slot, flight in list(subscriber.in_flight.items()):
            claim = flight.claim
            if claim is None:
                continue
            if flight.level == EXACTLY_ONCE:
                flight.claim = None
                subscriber.claims -= 1
                self._claims.settle(claim)
            else:
                subscriber.leave(slot)
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
                for (subscriber, _), interest in list(self._wild.items()):
                    self._join_wild(subscriber, interest, topic)

    def pump(self, subscriber: Subscriber) -> None:
        """Slots have become free."""
        for interest in subscriber.shares.values():
            name = topic_of_filter(interest.pattern)
            lines = self._lines.get(interest.group, {})
            for line in [lines[name]] if name in lines else list(lines.values()) if name == "" else []:
                line.pump()

    # What lines need

    def receive(self, session: Session, command: Receive) -> None:
        """Desk.receive."""
        self._receive(session, command)

    def give_back(self, claims: Sequence[Claim]) -> None:
        """Desk.give_back."""
        self._claims.give_back(claims)

    def hand(self, member: Member, claim: Claim, record: bytes, path: str) -> None:
        """Desk.hand: what its sender or the filter promises no acknowledgement for is settled by being sent."""
        subscriber, interest = member
        view = Record(record)
        stored = view.properties
        level = min(level_of(stored), interest.level)
        parcel = Parcel(view, stored, path, level)
        retained = interest.as_published and properties.find(stored, b"mqttRetain") == b"true"
        identifiers = (interest.identifier,) if interest.identifier else ()
        if level == AT_MOST_ONCE:
            subscriber.outbox.append(Delivery(parcel, AT_MOST_ONCE, 0, retained, False, identifiers))
            self._outflow.mark(subscriber)
            self._claims.settle(claim)
        else:
            place = (claim.topic, claim.receipt.queue_id)
            flight = Flight(level, place, claim.receipt.queue_offset, "", retained, identifiers, claim=claim)
            self._outflow.launch(subscriber, flight, parcel)

    def refused(self, line: Line, code: ErrorCode) -> None:
        """Desk.refused: a topic may come, anything else may be over in a second."""
        if code is ErrorCode.TOPIC_NOT_FOUND:
            self._absent.setdefault(line.topic, {})[line] = None
        else:
            self._clock.call_at(self._clock.monotonic_ns() + SECOND_NS, line.pump)

    def _forget_absent(self, line: Line) -> None:
        waiting = self._absent.get(line.topic)
        if waiting is not None:
            waiting.pop(line, None)
            if not waiting:
                del self._absent[line.topic]
