"""Gateways with thousands of clients: what concerns all of them is done a share in each turn of the loop."""

from __future__ import annotations

import pytest

from domain.client.mqtt_session import Attach, Attached, MqttSubscription, Subscribe, Subscribed, Will
from domain.command import QueryLatest, Receive
from domain.event import LatestValue, Refused
from domain.limits import MILLISECOND_NS
from domain.message.message import Message
from domain.turn import WALKS_NS
from domain.walk import PAUSE_NS, STEP_NS, UNANSWERED_BYTES
from gateway.cluster.forwarding.gateway_life import REGULATED, STALLED_BYTES
from protocols.remoting.nodes.forwarding.stream import AWAY_NS
from tests.gateway.cluster.forwarding.test_forwarder import Two
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.instructions import instructions
from tests.turns import most_in_a_turn

STEPS = WALKS_NS // STEP_NS


def devices(two: Two, count: int) -> list[EventRecorder]:
    """So many MQTT clients with durable sessions and wills."""
    found = [EventRecorder("mqtt") for _ in range(count)]
    for at, recorder in enumerate(found):
        will = Will(Message("wills", b"gone"), 0)
        two.gateway.handle(recorder.connection, Attach(1, f"device-{at}", False, 100, 10, will))
        two.gateway.handle(recorder.connection, Subscribe(2, [MqttSubscription(f"cmd/{at}/#", 1)]))
    two.clock.run_for(2_000)
    assert all([type(event) for event in each.take()] == [Attached, Subscribed] for each in found)
    return found


def test_the_clients_of_a_lost_gateway_end_in_shares_and_others_are_answered_between(caplog: pytest.LogCaptureFixture) -> None:
    two = Two()
    devices(two, 1_000)
    other, took = EventRecorder(), EventRecorder("mqtt")
    two.link.die()
    sessions = two.parts.sessions
    two.clock.run_until(lambda: "is lost, with 1001 clients" in caplog.text)
    assert 1_000 - STEPS <= sessions.attached < 1_000
    two.parts.gate.handle(other.connection, QueryLatest(1, "T"))
    two.parts.gate.handle(took.connection, Attach(1, "device-999", False, 100, 10))
    two.clock.run_turn()
    assert [type(event) for event in other.take()] == [LatestValue]
    assert most_in_a_turn(two.clock, lambda: sessions.attached, 1) <= STEPS
    two.clock.run_for(1_000)
    assert [event.session_present for event in took.take() if isinstance(event, Attached)] == [True], "took the session over"
    assert len(two.bodies("wills")) == 1_000
    assert not two.parts.forwarded.gateways


def test_a_client_of_a_lost_gateway_costs_the_same_however_many_it_has() -> None:
    costs: list[int] = []
    for count in (200, 800):
        two = Two()
        devices(two, count)
        two.link.die()
        two.clock.run_until(lambda two=two, count=count: two.parts.sessions.attached < count)  # type: ignore[misc]
        first = two.parts.sessions.attached
        taken = instructions(two.clock._fire)
        costs.append(taken // max(1, first - two.parts.sessions.attached))
    assert costs[1] < costs[0] * 1.1, costs


def test_clients_of_a_gateway_that_does_not_read_are_stalled_in_shares_and_one_that_does_not_read_itself_stays_so() -> None:
    two = Two()
    recorders = devices(two, 2_000)
    of_node = {each.client_id: each for each in two.parts.sessions._sessions}
    slow = recorders[7].connection
    slow.became_stalled()
    two.clock.run_for(100)
    assert [each.client_id for each in of_node.values() if each.stalled] == ["device-7"]
    [gateway] = two.parts.forwarded._gateways.values()
    two.link.hang(5 * 1_000_000_000)
    while not gateway.stalled:
        gateway.put([b"\xff" * 1_000_000])
        two.clock.run_turn()
    assert gateway.stream.unacknowledged_bytes > STALLED_BYTES

    def count() -> int:
        return sum(each.stalled for each in of_node.values())

    assert count() <= STEPS * REGULATED + 1
    assert most_in_a_turn(two.clock, count, 2_000) <= STEPS * REGULATED
    gateway.stream._kept.clear()
    gateway.stream.unacknowledged_bytes = 0
    gateway._stall(False)
    assert most_in_a_turn(two.clock, count, 1) <= STEPS * REGULATED
    assert of_node["device-7"].stalled, "the client itself does not read still"


def test_what_clients_wait_for_is_refused_in_shares_when_the_store_is_lost() -> None:
    two = Two()
    waiting = [EventRecorder() for _ in range(1_000)]
    for recorder in waiting:
        two.gateway.handle(recorder.connection, Receive(1, "g", "T", 1, 10_000, 30_000))
    two.clock.run_for(1_000)
    two.link.hang_up(again_ns=10 * AWAY_NS)

    def refused() -> int:
        return sum(isinstance(event, Refused) for each in waiting for event in each.recorded)

    assert most_in_a_turn(two.clock, refused, 1_000) <= STEPS
    two.clock.run_until(lambda: bool(two.link.lost))
    [(_, clients)] = two.link.lost
    assert set(clients) == {each.connection for each in waiting}


def test_what_one_sync_of_a_slow_disk_answers_is_of_few_clients() -> None:
    """All that a sync has made durable is answered in one turn: a walk through many turns must not gather up before it."""
    two = Two()
    devices(two, 2_000)
    two.parts.handler.topics.ensure("wills", lambda _: None)
    two.clock.run_for(100)
    two.disk.sync_ms = 100
    in_memory = two.parts.sessions._stored.in_memory
    two.link.die()
    most = most_in_a_turn(two.clock, lambda: len(in_memory), 0)
    assert most <= UNANSWERED_BYTES // 128 + 100 * MILLISECOND_NS // PAUSE_NS, most
    two.clock.run_for(1_000)
    assert len(two.bodies("wills")) == 2_000
