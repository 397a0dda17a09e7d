"""One consumer group over one topic, as far as its members are sessions: what it leases, and who of them gets it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

from domain import property as properties
from domain.command import Receive
from domain.errors import ErrorCode, Failure
from domain.event import Event, Leased, Received, Refused
from domain.filter.path import matches
from domain.limits import RECEIVE_MESSAGES_MAX, WAIT_MS_MAX
from domain.mqtt_session import MqttSubscription
from domain.record import Record
from gateway.connection.client_connection import ClientConnection
from gateway.routing.path_filter import path_filter
from gateway.routing.routes import path_in
from gateway.usecase.catalog.policy import STICKY
from gateway.usecase.consume.dead_letters import leased_topic
from gateway.usecase.sessions.delivery_leases import LEASE_MS
from gateway.usecase.sessions.mqtt_session import DeliveryLease, MqttSession
from gateway.usecase.sessions.strategy import KeyOwners, Member, choose, fits, room_of

MATCH_CACHE_MAX: Final = 1_024
PENDING_MAX: Final = 64
"""Sticky: messages that may wait for members without room while more is asked for; otherwise one that waits holds up all."""


class DispatcherCallbacks(Protocol):
    """What a line needs of those who keep it."""

    def receive(self, connection: ClientConnection, command: Receive) -> None:
        """The Receive verb."""

    def strategy(self, group: str) -> str:
        """How the group's messages are shared out now."""

    def after_answers(self, then: Callable[[], None]) -> None:
        """Call `then` when every lease that is being written has been answered."""

    def track(self, lease: DeliveryLease) -> None:
        """A lease has come."""

    def give_back(self, leases: Sequence[DeliveryLease]) -> None:
        """Nobody here wants these."""

    def too_large(self, lease: DeliveryLease) -> None:
        """No member here can take it: it is too large for each of them."""

    def deliver_to(self, member: Member, lease: DeliveryLease, record: Record, stored: bytes, path: str) -> None:
        """Deliver to a member, who has room."""

    def refused(self, dispatcher: GroupDispatcher, code: ErrorCode) -> None:
        """Nothing can be leased now."""


@final
class GroupReceive:
    """One Receive under way: the shell of the session that it is made by. Once `over`, what it still brings is given back."""

    __slots__ = ("connection", "dispatcher", "over")

    def __init__(self, dispatcher: GroupDispatcher) -> None:
        self.dispatcher = dispatcher
        self.over = False
        self.connection = ClientConnection("mqtt", self)

    def answer(self, event: Event) -> None:
        """Received, or Refused."""
        self.connection.end()
        self.dispatcher.answered(self, event)

    def close(self) -> None:
        """There is no connection behind it."""

    def throttle(self, until_ns: int) -> None:
        """Nothing is read for it."""

    def revoke_access(self, failure: Failure) -> None:
        """It has no access of its own: its members have."""

    def end(self) -> None:
        """Take it out of the queue of those who wait, if it waits."""
        self.over = True
        for undo in self.connection.on_close:
            undo()
        self.connection.on_close.clear()


@final
class UndeliveredMessage:
    """A message that has been leased and not yet handed out.

    stored     the record's properties
    declined   members that it was too large for
    """

    __slots__ = ("declined", "lease", "path", "record", "stored")

    def __init__(self, lease: DeliveryLease, record: Record, stored: bytes, path: str) -> None:
        self.lease = lease
        self.record = record
        self.stored = stored
        self.path = path
        self.declined: set[MqttSession] | None = None


@final
class GroupDispatcher:
    """Asks for messages, as any receiver does, while a member has room; hands each to the member that the strategy names.

    Invariant: there is at most one Call that is not over, and none while as many messages wait as may.
    Sticky keeps the order of a message group: what a member leaves behind, and all that was leased behind it, goes back
    in one step before anything is asked for again.
    """

    __slots__ = (
        "_call", "_callbacks", "_match_cache", "_members", "_owners", "_paths", "_pending", "_returns_under_way", "group",
        "topic",
    )  # fmt: skip

    def __init__(self, callbacks: DispatcherCallbacks, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self._callbacks = callbacks
        self._members: dict[MqttSession, dict[str, MqttSubscription]] = {}
        self._pending: deque[UndeliveredMessage] = deque()
        self._match_cache: dict[str, list[Member]] = {}
        self._paths: dict[bytes, str] = {}
        self._owners = KeyOwners()
        self._call: GroupReceive | None = None
        self._returns_under_way = 0

    @property
    def is_empty(self) -> bool:
        """Nobody is here any more."""
        return not self._members

    def join(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """A member comes, or subscribes by one more filter, or by the same one anew."""
        before = self._patterns()
        self._members.setdefault(session, {})[subscription.pattern] = subscription
        self._match_cache.clear()
        if self._patterns() != before:
            self._end_call()
        self.pump()

    def leave(self, session: MqttSession, pattern: str) -> list[DeliveryLease]:
        """A member drops a filter; the leases that go back with those of the member. The caller then calls `pump`."""
        before = self._patterns()
        patterns = self._members.get(session, {})
        patterns.pop(pattern, None)
        self._match_cache.clear()
        back: list[DeliveryLease] = []
        if not patterns:
            self._members.pop(session, None)
            self._owners.disconnect(session)
            if self.is_empty or self._callbacks.strategy(self.group) == STICKY:
                back = [waiting.lease for waiting in self._pending]
                self._pending.clear()
                self._end_call()
        if self._patterns() != before:
            self._end_call()
        return back

    def _patterns(self) -> dict[str, None]:
        return {pattern: None for patterns in self._members.values() for pattern in patterns}

    def _end_call(self) -> None:
        """Those who wait with the old filter would settle what the new one wants."""
        if self._call is None:
            return
        self._call.end()
        self._call = None
        if self._callbacks.strategy(self.group) == STICKY and not self.is_empty:
            # Its lease may be under way, and of the topic's retries after it: both go back before others are taken.
            self._returns_under_way += 1
            self._callbacks.after_answers(lambda: self._callbacks.after_answers(self._return_done))

    def _return_done(self) -> None:
        self._returns_under_way -= 1
        self.pump()

    def pump(self) -> None:
        """Something has changed: hand out what waits, and ask for more if there is room."""
        if self._returns_under_way:
            return
        strategy = self._callbacks.strategy(self.group)
        self._hand_out(strategy)
        if self._call is not None or len(self._pending) >= (PENDING_MAX if strategy == STICKY else 1):
            return
        members = self._members
        room = min(
            RECEIVE_MESSAGES_MAX, sum(room_of(member, members[member], RECEIVE_MESSAGES_MAX) for member in members)
        )  # fmt: skip
        if room > 0:
            call = self._call = GroupReceive(self)
            self._callbacks.receive(
                call.connection,
                Receive(
                    call, self.group, self.topic, room, LEASE_MS, WAIT_MS_MAX,
                    filter=path_filter(self.topic, self._patterns()), from_first=True, fleeting=True,
                ),
            )  # fmt: skip

    def answered(self, call: GroupReceive, event: Event) -> None:
        """What a Receive has brought."""
        if self._call is call:
            self._call = None
        if isinstance(event, Received):
            taken = [self._lease(message, event.invisible_ms) for message in event.messages]
            if call.over:
                self._callbacks.give_back(taken)
                return
            for lease, message in zip(taken, event.messages, strict=True):
                self._callbacks.track(lease)
                record = Record(message.record)
                stored = record.properties
                path = self._path(properties.find(stored, properties.ORIGIN_MQTT_TOPIC_START))
                self._pending.append(UndeliveredMessage(lease, record, stored, path))
            self.pump()
        elif isinstance(event, Refused) and not call.over:
            self._callbacks.refused(self, event.failure.code)

    def _path(self, origin: bytes) -> str:
        """`path_in`, remembered: the messages of a topic have few paths."""
        path = self._paths.get(origin)
        if path is None:
            if len(self._paths) >= MATCH_CACHE_MAX:
                self._paths.clear()
            path = self._paths[origin] = path_in(self.topic, origin)
        return path

    def _lease(self, message: Leased, invisible_ms: int) -> DeliveryLease:
        receipt = message.receipt
        topic = leased_topic(self.group, self.topic, receipt)
        return DeliveryLease(self.group, topic, receipt, receipt.pop_ms + invisible_ms, message.attempt)

    def decline(self, session: MqttSession, lease: DeliveryLease, record: bytes, path: str) -> None:
        """It turned out to be too large for the member that it was handed to: another one, if there is one."""
        view = Record(record)
        waiting = UndeliveredMessage(lease, view, view.properties, path)
        waiting.declined = {session}
        self._callbacks.track(lease)
        self._pending.appendleft(waiting)
        self.pump()

    def _hand_out(self, strategy: str) -> None:
        unwanted: list[DeliveryLease] = []
        for _ in range(len(self._pending)):
            waiting = self._pending.popleft()
            wanting = self._matching(waiting.path)
            candidates = self._able(wanting, waiting)
            member = choose(strategy, self._owners, candidates, waiting.stored)
            if member is not None:
                self._callbacks.deliver_to(member, waiting.lease, waiting.record, waiting.stored, waiting.path)
            elif candidates:
                self._pending.append(waiting)
            elif wanting:
                self._callbacks.too_large(waiting.lease)
            else:
                unwanted.append(waiting.lease)
        if unwanted:
            self._callbacks.give_back(unwanted)

    @staticmethod
    def _able(wanting: list[Member], waiting: UndeliveredMessage) -> list[Member]:
        """Those who can take the message; the list itself where that is everybody, so that its order is remembered."""
        declined = waiting.declined or ()
        able = [member for member in wanting if member[0] not in declined and fits(member, waiting.record)]
        return wanting if len(able) == len(wanting) else able

    def _matching(self, path: str) -> list[Member]:
        """Members that want `path`, each with the filter that promises most."""
        found = self._match_cache.get(path)
        if found is None:
            found = []
            for session, patterns in self._members.items():
                fitting = [subscription for pattern, subscription in patterns.items() if matches(pattern, path)]
                if fitting:
                    found.append((session, max(fitting, key=lambda subscription: subscription.level)))
            if len(self._match_cache) >= MATCH_CACHE_MAX:
                self._match_cache.clear()
            self._match_cache[path] = found
        return found
