"""One Receive that a consumer group of shared subscriptions has under way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import final

from domain.command import Receive
from domain.errors import ErrorCode, Failure
from domain.event import Event, Leased, Received, Refused
from domain.filter.path_filter import path_filter
from domain.limits import WAIT_MS_MAX
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.dead_letters import leased_topic
from gateway.usecase.sessions.in_flight import DeliveryLease
from gateway.usecase.sessions.shared.delivery_leases import LEASE_MS
from gateway.usecase.sessions.shared.group_delivery import GroupDelivery


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
