"""Dispatch of the messages of one topic to the members of one consumer group that are MQTT sessions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, final

from domain.address import path_in
from domain.client.mqtt_session import MqttSubscription
from domain.command import Receive
from domain.errors import ErrorCode, Failure
from domain.event import Event, Leased, Received, Refused
from domain.filter.stored_path_filter import PathFilter, path_filter
from domain.limits import RECEIVE_MESSAGES_MAX, WAIT_MS_MAX
from domain.message import property as properties
from domain.message.record import Record
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.dead_letters import leased_topic
from gateway.usecase.sessions.in_flight import DeliveryLease
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.shared.delivery_leases import LEASE_MS
from gateway.usecase.sessions.shared.group_delivery import GroupDelivery
from gateway.usecase.sessions.shared.share_members import Choice, ShareMembers, UndeliveredMessage
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

    def start(self, limit: int, wanted: PathFilter | None) -> None:
        """Lease up to `limit` messages that are `wanted`, None: all, for LEASE_MS; wait up to WAIT_MS_MAX for them."""
        self._delivery.receive(
            self._connection,
            Receive(
                self, self._group, self._topic, limit, LEASE_MS, WAIT_MS_MAX,
                filter=wanted, from_first=True, fleeting=True,
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
            leases = [self._lease(message) for message in event.messages]
            if self._cancelled:
                self._delivery.leases.give_back(leases)
                return
            for lease in leases:
                self._delivery.leases.track(lease)
            self._received(leases, event.messages)
        elif not self._cancelled:
            self._refused(event.failure.code)

    def _lease(self, message: Leased) -> DeliveryLease:
        receipt = message.receipt
        topic = leased_topic(self._group, self._topic, receipt)
        return DeliveryLease(self._group, topic, receipt, message.attempt)

    def close(self) -> None:
        """Does nothing: there is no socket."""

    def throttle(self, until_ns: int) -> None:
        """Does nothing: no bytes are read."""

    def revoke_access(self, failure: Failure) -> None:
        """Does nothing: access is checked for each member of the group."""


PATHS_MAX: Final = 1_024
"""Paths that one dispatcher remembers."""
PENDING_MAX: Final = 64
"""Sticky strategy: messages that may wait for their members before the dispatcher stops leasing more. Other strategies: 1."""


@final
class SharedDispatch:
    """Leases messages while members can take some, and delivers each to the member that the group's strategy selects.

    Invariant: at most one GroupReceive is under way, and none while PENDING_MAX messages wait (sticky) or 1 (other strategies).
    The sticky strategy keeps the order of each ordering key: when a member leaves, its unconfirmed messages and all messages
    leased after them return to the group in one step, and nothing is leased before they have returned.
    """

    __slots__ = (
        "_delivery", "_filter", "_leases", "_looks_on", "_members", "_notify_refused", "_paths", "_pending", "_receive",
        "_returns_under_way", "_share", "group", "topic",
    )  # fmt: skip

    def __init__(
        self,
        delivery: GroupDelivery,
        share: str,
        group: str,
        topic: str,
        refused: Callable[[SharedDispatch, ErrorCode], None],
    ) -> None:
        """`refused` is called with the code of a refused Receive; it calls `pump` when another one may succeed."""
        self.group = group
        self.topic = topic
        self._share = share
        self._delivery = delivery
        self._leases = delivery.leases
        self._notify_refused = refused
        self._members = ShareMembers()
        self._filter: PathFilter | None = None
        self._pending: deque[UndeliveredMessage] = deque()
        self._paths: dict[bytes, str] = {}
        self._looks_on = False
        self._receive: GroupReceive | None = None
        self._returns_under_way = 0

    @property
    def is_empty(self) -> bool:
        """True when there are no members."""
        return not self._members

    def join(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """Add a member, or another subscription of a member, or replace one."""
        if self._members.join(session, subscription):
            self._change_filter()
        self.pump()

    def leave(self, session: MqttSession, pattern: str) -> list[DeliveryLease]:
        """Remove a subscription of a member. Returns leases that the caller gives back, before it calls `pump`."""
        no_filter, no_member = self._members.leave(session, pattern)
        back: list[DeliveryLease] = []
        if no_member and (self.is_empty or self._strategy() == STICKY):
            back = [waiting.lease for waiting in self._pending]
            self._pending.clear()
            self._cancel_receive()
        if no_filter:
            self._change_filter()
        return back

    def _strategy(self) -> str:
        return self._delivery.strategy(self.group, self._share)

    def _change_filter(self) -> None:
        self._filter = path_filter(self.topic, self._members.filters)
        self._cancel_receive()

    def _cancel_receive(self) -> None:
        """Cancel the Receive: its filter is out of date, and it would settle messages that the new filter matches."""
        if self._receive is None:
            return
        self._receive.cancel()
        self._receive = None
        if self._strategy() == STICKY and not self.is_empty:
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
        strategy = self._strategy()
        self._hand_out(strategy)
        if self._receive is not None or len(self._pending) >= (PENDING_MAX if strategy == STICKY else 1):
            return
        room = self._members.room(RECEIVE_MESSAGES_MAX)
        if room > 0:
            receive = self._receive = GroupReceive(self._delivery, self.group, self.topic, self._received, self._refused)
            receive.start(room, self._filter)
        elif self._members.unsure:
            self._look_on()

    def wake(self, session: MqttSession) -> None:
        """A member can take messages again: slots have become free, or its client reads."""
        self._members.wake(session)
        self.pump()

    def _look_on(self) -> None:
        """Look at more members in a later turn."""
        if not self._looks_on:
            self._looks_on = True
            self._delivery.after_answers(self._pump_again)

    def _pump_again(self) -> None:
        self._looks_on = False
        self.pump()

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
            if len(self._paths) >= PATHS_MAX:
                self._paths.clear()
            path = self._paths[origin] = path_in(self.topic, origin)
        return path

    def reject(self, session: MqttSession, lease: DeliveryLease, record: bytes, path: str) -> None:
        """The message is too large for the member that it was delivered to: deliver it to another member."""
        view = Record(record)
        self._leases.track(lease)
        self._pending.appendleft(UndeliveredMessage(lease, view, view.properties, path, session.packet_bytes_max))
        self.pump()

    def _hand_out(self, strategy: str) -> None:
        unwanted: list[DeliveryLease] = []
        for _ in range(len(self._pending)):
            waiting = self._pending.popleft()
            chosen = self._members.choose(strategy, waiting)
            if chosen is Choice.WAITS:
                self._pending.append(waiting)
            elif chosen is Choice.TOO_LARGE:
                self._delivery.too_large(waiting.lease)
            elif chosen is Choice.UNWANTED:
                unwanted.append(waiting.lease)
            else:
                self._delivery.deliver_to(chosen, waiting.lease, waiting.record, waiting.stored, waiting.path)
        if unwanted:
            self._leases.give_back(unwanted)
        if self._members.unsure and self._pending:
            self._members.unsure = False
            self._look_on()
