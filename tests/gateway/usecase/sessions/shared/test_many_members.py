"""Shared subscriptions of thousands of members: joins, messages and acknowledgements cost the same however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from domain.client.mqtt_session import (
    Attach,
    Attached,
    ConfirmDeliveries,
    Deliveries,
    MqttSubscription,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from domain.command import Send
from domain.delivery.routed import Delivery
from domain.event import Sent
from domain.limits import MILLISECOND_NS
from domain.message import property as properties
from domain.message.message import Message
from domain.message.receipt import Receipt
from domain.topic.topic import Group
from domain.turn import WALKS_NS
from domain.walk import STEP_NS
from gateway.usecase.sessions.shared.delivery_leases import RENEWAL_CHECK_NS, RENEWED
from gateway.usecase.topics_and_groups.policy import LEAST, ROUND_ROBIN, STICKY, STRATEGY
from tests.gateway.cluster.forwarding.test_forwarder import Two
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.instructions import instructions
from tests.turns import most_in_a_turn


class Crowd:
    """The members of a group at one node, and a sender."""

    def __init__(self, strategy: str = LEAST) -> None:
        self.two = Two()
        self.clock, self.parts = self.two.clock, self.two.parts
        self.members: list[EventRecorder] = []
        self.source = EventRecorder()
        self.number = 0
        metadata = self.parts.store.metadata
        metadata.put_group(replace(Group("g"), attributes={STRATEGY: strategy}), lambda _: None)
        self.clock.run_for(50)
        self.send("jobs/first")

    def join(self, pattern: str = "jobs/#") -> EventRecorder:
        """One more member."""
        found = EventRecorder("mqtt")
        self.members.append(found)
        handle = self.parts.gate.handle
        handle(found.connection, Attach(1, f"m{len(self.members)}", True, 0, 1_000))
        subscription = MqttSubscription(pattern, 1, group="g")
        handle(found.connection, Subscribe(2, [subscription]))
        self.clock.run_for(5)
        assert [type(event) for event in found.take()] == [Attached, Subscribed]
        return found

    def leave(self, member: EventRecorder) -> None:
        """A member unsubscribes, and subscribes again."""
        for command, answer in (
            (Unsubscribe(3, ["$share/g/jobs/#"]), Unsubscribed),
            (Subscribe(4, [MqttSubscription("jobs/#", 1, group="g")]), Subscribed),
        ):
            self.parts.gate.handle(member.connection, command)
            self.clock.run_for(5)
            assert [type(event) for event in member.take()] == [answer]

    def send(self, topic: str, key: str = "") -> None:
        """A message."""
        stored = f"__SHARDINGKEY\x01{key}\x02".encode() if key else b""
        path = f"{properties.ORIGIN_MQTT_TOPIC}\x01{topic}\x02".encode()
        self.parts.gate.handle(self.source.connection, Send(1, [Message("jobs", b"x", path + stored)]))
        self.clock.run_for(5)
        assert [type(event) for event in self.source.take()] == [Sent]

    def got(self) -> list[tuple[EventRecorder, Delivery]]:
        """The new deliveries, and who has got them."""
        return [
            (each, delivery)
            for each in self.members
            for event in each.take()
            if isinstance(event, Deliveries)
            for delivery in event.items
        ]  # fmt: skip

    def deliver(self, distinct: bool, key: str = "") -> tuple[int, int]:
        """(cost of a message, cost of its acknowledgement), in instructions."""
        self.number += 1
        cost = instructions(lambda: self.send(f"jobs/{self.number}" if distinct else "jobs/x", key))
        [(member, delivery)] = self.got()
        answered = instructions(lambda: self.confirm(member, delivery))
        return cost, answered

    def confirm(self, member: EventRecorder, delivery: Delivery) -> None:
        """A member acknowledges."""
        self.parts.gate.handle(member.connection, ConfirmDeliveries([delivery.slot]))
        self.clock.run_for(5)


@pytest.mark.parametrize("strategy", [LEAST, ROUND_ROBIN, STICKY])
def test_the_costs_do_not_grow_with_members(strategy: str) -> None:
    crowd = Crowd(strategy)
    costs: list[list[int]] = []
    for count in (30, 700):
        while len(crowd.members) < count:
            crowd.join()
        for key in ("", "a", "b", ""):
            crowd.deliver(False, key)
        found = [instructions(lambda: crowd.leave(crowd.members[7]))]
        for distinct, key in ((False, ""), (True, ""), (True, "k1"), (True, "k1"), (False, f"new{count}")):
            found += crowd.deliver(distinct, key)
        costs.append(found)
    assert all(many <= few * 1.3 + 100 for few, many in zip(*costs, strict=True)), costs


def test_leases_are_renewed_in_shares_and_those_that_are_not_due_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd()
    for _ in range(50):
        crowd.join()
    for _ in range(1_500):
        crowd.number += 1
        crowd.parts.gate.handle(crowd.source.connection, Send(1, [Message("jobs", b"x", queue_id=0)]))
    crowd.clock.run_for(3_000)
    leases = crowd.parts.sessions._group_delivery.leases
    assert len(leases) == 1_500
    asked: list[int] = []
    extend = crowd.parts.store.leases.extend

    def counted(group: str, topic: str, receipts: Sequence[Receipt], *rest: Any) -> None:
        asked.append(len(receipts))
        extend(group, topic, receipts, *rest)

    monkeypatch.setattr(leases, "_leases", SimpleNamespace(extend=counted))
    crowd.clock.run_for(RENEWAL_CHECK_NS / MILLISECOND_NS)
    assert asked == []
    assert most_in_a_turn(crowd.clock, lambda: sum(asked), 1_500) <= RENEWED * (WALKS_NS // STEP_NS)
    assert max(asked) <= RENEWED
    crowd.clock.run_for(200_000)
    assert len(leases) == 1_500, "all are held still"
    assert not crowd.parts.sessions.lost.get("expired")
