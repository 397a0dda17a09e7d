"""Dispatch of the messages of one topic to the members of one consumer group that are MQTT sessions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

from domain.address import path_in
from domain.client.mqtt_session import MqttSubscription
from domain.command import Receive
from domain.errors import ErrorCode, Failure
from domain.event import Event, Leased, Received, Refused
from domain.filter.path_matching import matches
from domain.filter.stored_path_filter import path_filter
from domain.limits import RECEIVE_MESSAGES_MAX, WAIT_MS_MAX
from domain.message import property as properties
from domain.message.record import Record
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.dead_letters import leased_topic
from gateway.usecase.sessions.in_flight import DeliveryLease
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.shared.delivery_leases import LEASE_MS
from gateway.usecase.sessions.shared.group_delivery import GroupDelivery
from gateway.usecase.sessions.shared.share_strategy import KeyOwners, Member, choose, fits, room_of
from gateway.usecase.topics_and_groups.policy import STICKY


@final
class GroupReceive:
    """Leases messages of a topic for a group. It is the driver of a connection of its own, so that the answer comes to it.

    received   called with the leases and messages of the answer, whose leases are tracked by then
    refused    called with the code of a refusal

    After `cancel` neither is called: messages that are still leased go back to the group.
    """

    __slots__ = ("_cancelled", "_connection", "_delivery", "_group", "_received", "_refused", "_topic")

    def __init__(
        self,
        delivery: GroupDelivery,
        group: str,
        topic: str,
        received: Callable[[list[DeliveryLease], Sequence[Leased]], None],
        refused: Callable[[ErrorCode], None],
    ) -> None:
        self._delivery = delivery
        self._group = group
        self._topic = topic
        self._received = received
        self._refused = refused
        self._cancelled = False
        self._connection = ClientConnection("mqtt", self)

    def start(self, limit: int, patterns: Iterable[str]) -> None:
        """Lease up to `limit` messages whose paths match one of `patterns`, for LEASE_MS; wait up to WAIT_MS_MAX for them."""
        self._delivery.receive(
            self._connection,
            Receive(
                self, self._group, self._topic, limit, LEASE_MS, WAIT_MS_MAX,
                filter=path_filter(self._topic, patterns), from_first=True, fleeting=True,
            ),
        )  # fmt: skip

    def cancel(self) -> None:
        """Stop waiting for messages."""
        self._cancelled = True
        for undo in self._connection.on_close:
            undo()
        self._connection.on_close.clear()

    def answer(self, event: Event) -> None:
        """Received or Refused: the answer to the Receive. Other events are for connections with sockets."""
        if not isinstance(event, Received | Refused):
            return
        self._connection.end()
        if isinstance(event, Received):
            leases = [self._lease(message, event.invisible_ms) for message in event.messages]
            if self._cancelled:
                self._delivery.leases.give_back(leases)
                return
            for lease in leases:
                self._delivery.leases.track(lease)
            self._received(leases, event.messages)
        elif not self._cancelled:
            self._refused(event.failure.code)

    def _lease(self, message: Leased, invisible_ms: int) -> DeliveryLease:
        receipt = message.receipt
        topic = leased_topic(self._group, self._topic, receipt)
        return DeliveryLease(self._group, topic, receipt, receipt.pop_ms + invisible_ms, message.attempt)

    def close(self) -> None:
        """Does nothing: there is no socket."""

    def throttle(self, until_ns: int) -> None:
        """Does nothing: no bytes are read."""

    def revoke_access(self, failure: Failure) -> None:
        """Does nothing: access is checked for each member of the group."""


MATCH_CACHE_MAX: Final = 1_024
"""Paths that one dispatcher remembers."""
PENDING_MAX: Final = 64
"""Sticky strategy: messages that may wait for their members before the dispatcher stops leasing more. Other strategies: 1."""


@final
class UndeliveredMessage:
    """A leased message that no member has been sent.

    stored     its encoded properties
    path       topic name that the message was published to
    rejected   members for which the message was too large; None: none
    """

    __slots__ = ("lease", "path", "record", "rejected", "stored")

    def __init__(self, lease: DeliveryLease, record: Record, stored: bytes, path: str) -> None:
        self.lease = lease
        self.record = record
        self.stored = stored
        self.path = path
        self.rejected: set[MqttSession] | None = None


@final
class SharedDispatch:
    """Leases messages while members can take some, and delivers each to the member that the group's strategy selects.

    Invariant: at most one GroupReceive is under way, and none while PENDING_MAX messages wait (sticky) or 1 (other strategies).
    The sticky strategy keeps the order of each ordering key: when a member leaves, its unconfirmed messages and all messages
    leased after them return to the group in one step, and nothing is leased before they have returned.
    """

    __slots__ = (
        "_delivery", "_leases", "_match_cache", "_members", "_notify_refused", "_owners", "_paths", "_pending", "_receive",
        "_returns_under_way", "group", "topic",
    )  # fmt: skip

    def __init__(
        self,
        delivery: GroupDelivery,
        group: str,
        topic: str,
        refused: Callable[[SharedDispatch, ErrorCode], None],
    ) -> None:
        """`refused` is called with the code of a refused Receive; it calls `pump` when another one may succeed."""
        self.group = group
        self.topic = topic
        self._delivery = delivery
        self._leases = delivery.leases
        self._notify_refused = refused
        self._members: dict[MqttSession, dict[str, MqttSubscription]] = {}
        self._pending: deque[UndeliveredMessage] = deque()
        self._match_cache: dict[str, list[Member]] = {}
        self._paths: dict[bytes, str] = {}
        self._owners = KeyOwners()
        self._receive: GroupReceive | None = None
        self._returns_under_way = 0

    @property
    def is_empty(self) -> bool:
        """True when there are no members."""
        return not self._members

    def join(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """Add a member, or another subscription of a member, or replace one."""
        before = self._patterns()
        self._members.setdefault(session, {})[subscription.pattern] = subscription
        self._match_cache.clear()
        if self._patterns() != before:
            self._cancel_receive()
        self.pump()

    def leave(self, session: MqttSession, pattern: str) -> list[DeliveryLease]:
        """Remove a subscription of a member. Returns leases that the caller gives back, before it calls `pump`."""
        before = self._patterns()
        patterns = self._members.get(session, {})
        patterns.pop(pattern, None)
        self._match_cache.clear()
        back: list[DeliveryLease] = []
        if not patterns:
            self._members.pop(session, None)
            self._owners.disconnect(session)
            if self.is_empty or self._delivery.strategy(self.group) == STICKY:
                back = [waiting.lease for waiting in self._pending]
                self._pending.clear()
                self._cancel_receive()
        if self._patterns() != before:
            self._cancel_receive()
        return back

    def _patterns(self) -> dict[str, None]:
        return {pattern: None for patterns in self._members.values() for pattern in patterns}

    def _cancel_receive(self) -> None:
        """Cancel the Receive: its filter is out of date, and it would settle messages that the new filter matches."""
        if self._receive is None:
            return
        self._receive.cancel()
        self._receive = None
        if self._delivery.strategy(self.group) == STICKY and not self.is_empty:
            # The store may be leasing from the topic, and then from the retry topic: both return before the next Receive.
            self._returns_under_way += 1
            self._delivery.after_answers(lambda: self._delivery.after_answers(self._return_done))

    def _return_done(self) -> None:
        self._returns_under_way -= 1
        self.pump()

    def pump(self) -> None:
        """Deliver waiting messages, then lease more if members can take some. Called after every change."""
        if self._returns_under_way:
            return
        strategy = self._delivery.strategy(self.group)
        self._hand_out(strategy)
        if self._receive is not None or len(self._pending) >= (PENDING_MAX if strategy == STICKY else 1):
            return
        members = self._members
        room = min(
            RECEIVE_MESSAGES_MAX, sum(room_of(member, members[member], RECEIVE_MESSAGES_MAX) for member in members)
        )  # fmt: skip
        if room > 0:
            receive = self._receive = GroupReceive(self._delivery, self.group, self.topic, self._received, self._refused)
            receive.start(room, self._patterns())

    def _received(self, leases: list[DeliveryLease], messages: Sequence[Leased]) -> None:
        """Deliver the messages that a Receive has leased."""
        self._receive = None
        for lease, message in zip(leases, messages, strict=True):
            record = Record(message.record)
            stored = record.properties
            path = self._path(properties.find(stored, properties.ORIGIN_MQTT_TOPIC_START))
            self._pending.append(UndeliveredMessage(lease, record, stored, path))
        self.pump()

    def _refused(self, code: ErrorCode) -> None:
        self._receive = None
        self._notify_refused(self, code)

    def _path(self, origin: bytes) -> str:
        """`path_in`, cached."""
        path = self._paths.get(origin)
        if path is None:
            if len(self._paths) >= MATCH_CACHE_MAX:
                self._paths.clear()
            path = self._paths[origin] = path_in(self.topic, origin)
        return path

    def reject(self, session: MqttSession, lease: DeliveryLease, record: bytes, path: str) -> None:
        """The message is too large for the member that it was delivered to: deliver it to another member."""
        view = Record(record)
        waiting = UndeliveredMessage(lease, view, view.properties, path)
        waiting.rejected = {session}
        self._leases.track(lease)
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
                self._delivery.deliver_to(member, waiting.lease, waiting.record, waiting.stored, waiting.path)
            elif candidates:
                self._pending.append(waiting)
            elif wanting:
                self._delivery.too_large(waiting.lease)
            else:
                unwanted.append(waiting.lease)
        if unwanted:
            self._leases.give_back(unwanted)

    @staticmethod
    def _able(wanting: list[Member], waiting: UndeliveredMessage) -> list[Member]:
        """Members for which the message is not too large. `wanting` itself when that is all, so that `choose` reorders it."""
        rejected = waiting.rejected or ()
        able = [member for member in wanting if member[0] not in rejected and fits(member, waiting.record)]
        return wanting if len(able) == len(wanting) else able

    def _matching(self, path: str) -> list[Member]:
        """Members with a subscription that matches `path`, each with its subscription of the highest QoS."""
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
