"""MQTT publishes without payload before Apache's brokers, which store no message without a body."""

from __future__ import annotations

import pytest

from protocols.mqtt.publish import Ack
from tests.gateway.apache.mqtt_stage import ClusterGateway
from tests.protocols.mqtt.stage import back, bodies


@pytest.fixture
def gateway() -> ClusterGateway:
    return ClusterGateway()


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_publish_without_payload_is_acknowledged_and_delivered_without_one(
    gateway: ClusterGateway, version: int, qos: int
) -> None:
    listener = gateway.joined("listener", version, "T/#", 2)
    sender = gateway.joined("sender", version)
    sender.publish("T/a", b"", qos)
    assert [packet.code for packet in sender.take() if isinstance(packet, Ack)] == [0] * (qos > 0)
    assert [(message.topic, message.body, message.qos) for message in listener.messages()] == [(b"T/a", b"", qos)]
    assert not sender.gone


def test_a_session_that_was_away_reads_it_without_a_payload(gateway: ClusterGateway) -> None:
    client = gateway.client()
    client.connect("away", clean=False)
    client.subscribe("T/#", 1)
    client.leave()
    gateway.joined("sender").publish("T/a", b"", 1)
    gateway.run(1_000)
    assert bodies(back(gateway).messages()) == [b""]


@pytest.mark.parametrize("version", [4, 5])
def test_a_retained_value_is_removed(gateway: ClusterGateway, version: int) -> None:
    sender = gateway.joined("sender", version)
    sender.publish("T/kept", b"value", 1, retain=True)
    listener = gateway.joined("listener", version, "T/#", 1)
    assert [(message.body, message.retain) for message in listener.messages()] == [(b"value", True)]
    sender.publish("T/kept", b"", 1, packet_id=2, retain=True)
    assert [(message.body, message.retain) for message in listener.messages()] == [(b"", False)], "MQTT 3.1.1, 3.3.1.3"
    assert gateway.joined("later", version, "T/#", 1).messages() == []
    assert not sender.gone
