"""A gateway before a cluster with a state node: what needs state is carried out there, all else at the gateway."""

from __future__ import annotations

from collections import Counter

import pytest

from domain.client.mqtt_session import Attach, Attached, MqttSubscription, SendOnce, SessionTakenOver, Subscribe
from domain.command import Command, DeleteLatest, Disconnected, QueryLatest, Send
from domain.errors import ErrorCode
from domain.event import Done, LatestValue, Refused, Sent
from domain.limits import SECOND_NS
from domain.message.message import RETAIN_SET, Message
from domain.message.record import Record
from gateway.cluster.forwarding.state_routing import STATE, StateRouting
from gateway.node.composition import StorePlace, compose
from gateway.node.settings import Config
from gateway.node.use_cases import all_needs
from protocols.remoting.nodes.forwarding.kind import COMMAND_KINDS
from tests.gateway.cluster.forwarding.test_forwarder import Two
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.place import place_of
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import SeededEntropy
from tests.simulation.world import PORTS


class Three(Two):
    """A state node, and a gateway that has a store of its own beside it, where a cluster would be."""

    def __init__(self, seed: int = 1, loss: float = 0.0) -> None:
        super().__init__(seed, loss)
        place = place_of(Config(), PORTS, "10.0.0.2", self.clock, SeededEntropy(99))
        self.near = compose(place, StorePlace(MemoryDisk(self.clock), 1 << 30))
        self.clock.run_for(100)
        self.first = StateRouting(self.gateway, self.near.gate)

    def ask(self, client: EventRecorder, command: Command, ms: int = 100) -> list[object]:
        """The answers to a command."""
        self.first.handle(client.connection, command)
        self.clock.run_for(ms)
        return list(client.take())

    def near_bodies(self, topic: str) -> list[bytes]:
        """The bodies of a topic in the gateway's own store."""
        there, self.parts = self.parts, self.near
        try:
            return self.bodies(topic)
        finally:
            self.parts = there

    def lose_the_state_node(self) -> None:
        """It goes away, and is given up."""
        self.link.hang_up(600 * SECOND_NS)
        self.clock.run_for(11_000)


def test_a_message_goes_to_the_store_of_the_gateway_and_one_with_state_to_the_state_node() -> None:
    three, client = Three(), EventRecorder("http")
    [plain] = three.ask(client, Send(1, [Message("T", b"plain")]))
    [keyed] = three.ask(client, Send(2, [Message("T", b"keyed")], once=(b"key", b"digest of the request")))
    [kept] = three.ask(client, Send(3, [Message("T", b"kept", retain=RETAIN_SET)]))
    assert [type(each) for each in (plain, keyed, kept)] == [Sent] * 3
    assert three.near_bodies("T") == [b"plain"]
    assert sorted(three.bodies("T")) == [b"kept", b"keyed"]


def test_a_key_counts_whichever_gateway_takes_the_request() -> None:
    three, client = Three(), EventRecorder("http")
    answers = [
        three.ask(client, Send(number, [Message("T", b"once")], once=(b"key", b"digest of the request"))) for number in range(2)
    ]
    assert [type(event) for [event] in answers] == [Sent] * 2
    assert three.bodies("T") == [b"once"]


def test_latest_values_are_those_of_the_state_node() -> None:
    three, client = Three(), EventRecorder("coap")
    three.ask(client, Send(1, [Message("T", b"kept", retain=RETAIN_SET)]))
    [found] = three.ask(client, QueryLatest(2, "T"))
    assert isinstance(found, LatestValue)
    assert found.record is not None
    assert Record(found.record).body == b"kept"
    [removed] = three.ask(client, DeleteLatest(3, "T"))
    assert isinstance(removed, Done)
    [gone] = three.ask(client, QueryLatest(4, "T"))
    assert isinstance(gone, LatestValue)
    assert gone.record is None


def test_everything_of_an_mqtt_client_is_the_state_nodes() -> None:
    three, client = Three(), EventRecorder("mqtt")
    [attached] = three.ask(client, Attach(1, "device", False, 100, 10))
    assert isinstance(attached, Attached)
    three.ask(client, Subscribe(2, [MqttSubscription("T/#", 1)]))
    [sent] = three.ask(client, Send(3, [Message("T", b"qos 1")]))[:1]
    assert isinstance(sent, Sent)
    three.ask(client, SendOnce(4, [Message("T", b"qos 2")], [7]))
    assert sorted(three.bodies("T")) == [b"qos 1", b"qos 2"]
    assert three.near_bodies("T") == []
    other = EventRecorder("mqtt")
    [again] = three.ask(other, Attach(1, "device", False, 100, 10))[:1]
    assert isinstance(again, Attached)
    assert again.session_present
    assert any(isinstance(event, SessionTakenOver) for event in client.take())


def test_without_the_state_node_mqtt_clients_have_to_go_and_others_stay() -> None:
    three, session, caller = Three(), EventRecorder("mqtt"), EventRecorder("http")
    three.ask(session, Attach(1, "device", False, 100, 10))
    three.ask(caller, Send(1, [Message("T", b"keyed")], once=(b"key", b"digest of the request")))
    three.lose_the_state_node()
    ended = [each for _, clients in three.link.lost for each in clients if not each.shared]
    assert ended == [session.connection]
    assert not caller.closing
    [plain] = three.ask(caller, Send(2, [Message("T", b"plain")]))
    assert isinstance(plain, Sent)
    of_state: tuple[Command, ...] = (
        QueryLatest(3, "T"),
        Send(4, [Message("T", b"kept", retain=RETAIN_SET)]),
        Send(5, [Message("T", b"keyed")], once=(b"other key", b"digest")),
    )
    for number, command in enumerate(of_state):
        [refused] = three.ask(caller, command)
        assert isinstance(refused, Refused)
        assert (refused.ticket, refused.failure.code) == (3 + number, ErrorCode.STORE_UNAVAILABLE)
    late = EventRecorder("mqtt")
    [refused] = three.ask(late, Attach(1, "device", False, 100, 10))
    assert isinstance(refused, Refused)
    assert refused.failure.code is ErrorCode.STORE_UNAVAILABLE


def test_what_waits_for_the_state_node_when_it_is_lost_is_refused_once() -> None:
    three, caller = Three(), EventRecorder("http")
    three.link.hang_up(600 * SECOND_NS)
    assert three.ask(caller, QueryLatest(1, "T")) == []
    three.clock.run_for(11_000)
    [refused] = caller.take()
    assert isinstance(refused, Refused)
    assert refused.failure.code is ErrorCode.STORE_UNAVAILABLE


def test_each_command_is_carried_out_once_whatever_connections_break() -> None:
    three, caller = Three(seed=5, loss=0.03), EventRecorder("http")
    for number in range(200):
        once = (b"key %d" % number, b"digest") if number % 2 else None
        three.first.handle(caller.connection, Send(number, [Message("T", b"%d" % number)], once=once))
        three.clock.run_for(7)
    three.clock.run_for(3_000)
    assert three.link.broken > 3
    assert Counter(event.ticket for event in caller.take() if isinstance(event, Sent)) == Counter(range(200))
    assert sorted(three.bodies("T"), key=int) == [b"%d" % number for number in range(1, 200, 2)]
    assert sorted(three.near_bodies("T"), key=int) == [b"%d" % number for number in range(0, 200, 2)]


def test_a_client_that_has_gone_leaves_nothing_at_either_node() -> None:
    three, caller, session = Three(), EventRecorder("http"), EventRecorder("mqtt")
    three.ask(caller, QueryLatest(1, "T"))
    three.ask(session, Attach(1, "device", True, 0, 10))
    assert [each.clients for each in three.parts.forwarded.gateways] == [3]  # the gateway itself is one
    for client in (caller, session):
        three.ask(client, Disconnected("closed"))
    assert [each.clients for each in three.parts.forwarded.gateways] == [1]
    assert three.gateway.clients == 0
    assert caller.connection.closed
    assert session.connection.closed


@pytest.mark.parametrize("kind", sorted(STATE, key=str))
def test_commands_of_the_state_node_have_a_form_on_the_wire_and_a_right(kind: type[Command]) -> None:
    assert kind in COMMAND_KINDS.of
    assert kind in all_needs().table
