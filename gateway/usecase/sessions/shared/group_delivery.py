"""Delivery of the messages of consumer groups to those of their members that are MQTT sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain.client.mqtt_session import AT_MOST_ONCE
from domain.command import Receive
from domain.delivery.routed import Delivery, RoutedRecord
from domain.message import property as properties
from domain.message.record import Record
from domain.store.store_ports import MessageLog, Metadata
from gateway.usecase.consume.receive import Receiving
from gateway.usecase.sessions.in_flight import DeliveryLease, InFlightMessage
from gateway.usecase.sessions.live_delivery import LiveDelivery
from gateway.usecase.sessions.publisher import level_of
from gateway.usecase.sessions.shared.delivery_leases import DeliveryLeases
from gateway.usecase.sessions.shared.share_strategy import Member, strategy_of
from gateway.usecase.topics_and_groups.policy import NodePolicy


@final
class GroupDelivery:
    """Delivers messages of all groups and topics for their dispatchers, and returns messages to the groups.

    receive    carries out a Receive command
    oversize   number of messages that were too large for every member
    """

    __slots__ = ("_log", "_metadata", "_outbound", "_policy", "leases", "oversize", "receive")

    def __init__(
        self,
        log: MessageLog,
        metadata: Metadata,
        receiving: Receiving,
        outbound: LiveDelivery,
        leases: DeliveryLeases,
        policy: NodePolicy,
    ) -> None:
        self._log = log
        self._metadata = metadata
        self.receive = receiving.verbs[Receive]
        self._outbound = outbound
        self.leases = leases
        self._policy = policy
        self.oversize = 0

    def strategy(self, group: str, share: str) -> str:
        """The present strategy, one of `policy.STRATEGIES`: the group's own, else that of the group of the share name."""
        return strategy_of(self._attributes(group), strategy_of(self._attributes(share), self._policy.share_strategy))

    def _attributes(self, group: str) -> dict[str, str]:
        found = self._metadata.group(group)
        return found.attributes if found is not None else {}

    def after_answers(self, then: Callable[[], None]) -> None:
        """Call `then` after all answers that are under way: the store answers in the order of the requests."""
        self._log.append([], lambda _: then())

    def too_large(self, lease: DeliveryLease) -> None:
        """Return the message with the delay of the group's retry policy: a later attempt may find a suitable member."""
        self.oversize += 1
        group = self._metadata.group(lease.group)
        lease.delay_ms = group.retry.delay_ms(lease.attempt - 1) if group is not None else 0
        self.leases.give_back([lease])

    def deliver_to(self, member: Member, lease: DeliveryLease, record: Record, stored: bytes, path: str) -> None:
        """Deliver a message to a member. At AT_MOST_ONCE it is settled at once: no acknowledgement follows."""
        session, subscription = member
        level = min(level_of(stored), subscription.level)
        routed = RoutedRecord(record, stored, path, level)
        retained = subscription.as_published and properties.find(stored, properties.MQTT_RETAIN_START) == b"true"
        identifiers = (subscription.identifier,) if subscription.identifier else ()
        if level == AT_MOST_ONCE:
            session.outbox.append(Delivery(routed, AT_MOST_ONCE, 0, retained, False, identifiers))
            self._outbound.schedule(session)
            self.leases.settle(lease)
        else:
            queue = (lease.topic, lease.receipt.queue_id)
            flight = InFlightMessage(level, queue, lease.receipt.queue_offset, "", retained, identifiers, lease=lease)
            self._outbound.deliver(session, flight, routed)
