"""Bridges of other servers: their protocol levels, their state below `$SYS`, and messages that must not come back."""

from __future__ import annotations

import pytest

from protocols.mqtt.connect import Connack, Connect, Will
from protocols.mqtt.packet import encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack
from protocols.mqtt.recognition import without_tls
from tests.protocols.mqtt.stage import PEER, Broker, Client, bodies

STATE = "$SYS/broker/connection/there.b/state"


def connect_of(version: int, client_id: str, will: Will | None = None) -> Connect:
    """The CONNECT of a bridge."""
    packet = Connect(version, client_id, False, 60, will, None, None, NONE)
    packet.bridge = True
    return packet


def bridge(broker: Broker, version: int, will: str = "") -> Client:
    client = broker.client(version)
    left = Will(will, b"0", 1, True, NONE) if will else None
    client.put(connect_of(version, "there.b", left))
    assert client.only(Connack).code == 0
    return client


@pytest.mark.parametrize(("level", "answer"), [(0x02, b"\x20\x02\0\x01"), (0x85, b"\x20\x02\0\x01"), (0xFF, b"\x20\x02\0\x01")])
def test_an_unknown_level_is_answered_in_the_form_that_its_client_reads(level: int, answer: bytes) -> None:
    """[MQTT-3.1.2-2] of 3.1.1: CONNACK return code 0x01, then the end of the connection."""
    broker = Broker()
    connect = bytearray(encode(Connect(4, "c", True, 0, None, None, None, NONE), 4))
    connect[8] = level
    connection = broker.adapter.connect(PEER, 0)
    connection.receive(bytes(connect), 0)
    assert b"".join(connection.outgoing()) == answer
    assert connection.closed


@pytest.mark.parametrize("version", [3, 4])
def test_a_bridge_gets_what_others_send_with_its_retain_flag_and_nothing_of_its_own(version: int) -> None:
    """It has no other way to keep a message from going round, and to pass a retained one on."""
    broker = Broker()
    here = broker.joined("here", 4, "t/#", 1)
    there = bridge(broker, version)
    assert there.subscribe("t/#", 1) == 1
    there.publish("t/own", b"own", 1)
    there.take()
    here.publish("t/a", b"kept", 1, retain=True)
    here.publish("t/a", b"not kept", 1, packet_id=2)
    got = there.messages()
    assert [(message.body, message.retain) for message in got] == [(b"kept", True), (b"not kept", False)]
    assert bodies(here.messages()) == [b"own", b"kept", b"not kept"]


@pytest.mark.parametrize("version", [4, 5])
def test_the_state_of_a_bridge_is_taken_and_seen_by_who_asks_for_it(version: int) -> None:
    """4.7.2: filters that begin with a wildcard do not match it. A bridge of 5.0 has no bit in its level."""
    broker = Broker()
    everything = broker.joined("everything", 4, "#", 1)
    states = broker.joined("states", 4, "$SYS/broker/connection/#", 1)
    client = broker.client(version)
    assert client.connect("there.b", will=Will(STATE, b"0", 1, True, NONE)).code == 0
    client.publish(STATE, b"1", 1, retain=True)
    assert client.only(Ack).code == 0
    assert bodies(states.messages()) == [b"1"]
    client.drop()
    assert bodies(states.messages()) == [b"0"]
    assert everything.messages() == []
    assert bodies(broker.joined("later", 4, STATE, 1).messages()) == [b"0"]


@pytest.mark.parametrize("topic", ["$SYS", "$SYS/broker/uptime", "$SYS/broker/connection", "$SYS/broker/connections/x"])
def test_the_values_of_the_node_are_its_own(topic: str) -> None:
    broker = Broker()
    client = broker.joined("c", 5)
    client.publish(topic, b"x", 1)
    assert client.only(Ack).code == 0x87
    other = broker.client(5)
    assert other.connect("d", will=Will(topic, b"0", 1, True, NONE)).code == 0x87


def test_a_bridge_at_a_port_with_tls_only_reads_why() -> None:
    assert without_tls(encode(connect_of(4, "c"), 4)) == b"\x20\x02\x00\x05"
