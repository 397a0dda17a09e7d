"""Messages of which nobody knows in time whether they are durable: the client sends them again, and they are stored once."""

from __future__ import annotations

import pytest

from domain.command import Send
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.mqtt_session import SendOnce
from protocols.mqtt.connect import Disconnect
from protocols.mqtt.packet import encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from tests.protocols.mqtt.stage import Broker

PUBREL = 6
SLOW_MS = 30_000


def published(qos: int, dup: bool = False) -> Publish:
    """The message. QoS 0 has no packet identifier."""
    return Publish(b"t", b"once", qos, False, dup, 1 if qos else 0, NONE)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_slow_flush_ends_the_connection_and_the_message_is_sent_again(qos: int) -> None:
    broker = Broker()
    reader = broker.client(5)
    reader.connect("reader")
    reader.subscribe("t", 0)
    client = broker.client(5)
    client.connect("c", clean=False, expiry_s=3_600)
    broker.publish("t", b"the topic is there")
    reader.take()
    broker.disk.sync_ms = SLOW_MS
    client.put(published(qos))
    broker.run(SLOW_MS / 2)
    heard = client.take()
    assert [packet.code for packet in heard if isinstance(packet, Disconnect)] == [0x83]
    assert not [packet for packet in heard if isinstance(packet, Ack)], "its packet identifier is not free"
    assert client.gone
    broker.disk.sync_ms = 1
    broker.run(SLOW_MS)
    again = broker.client(5)
    assert again.connect("c", clean=False, expiry_s=3_600).present
    again.put(published(qos, dup=True))
    if qos == 2:
        again.put(Ack(PUBREL, 1, 0, NONE))
    assert [packet.code for packet in again.take() if isinstance(packet, Ack)] == [0] * qos
    broker.run(SLOW_MS)
    seen = [packet.body for packet in reader.take() if isinstance(packet, Publish)]
    assert seen == [b"once"] * (2 if qos == 1 else 1), "at QoS 2 it is stored once"


def test_a_store_that_is_lost_ends_the_connection_and_frees_no_packet_identifier() -> None:
    client = Broker().client(5)
    client.connect("c", clean=False, expiry_s=3_600)
    (send,) = client.connection.receive(encode(published(2), 5), 0)
    assert isinstance(send, SendOnce)
    client.connection.answer(Refused(send.ticket, Failure(ErrorCode.STORE_UNAVAILABLE, "no answer")), 0)
    client.hear(b"".join(client.connection.outgoing()))
    (said,) = client.take()
    assert isinstance(said, Disconnect)
    assert said.code == 0x8B


def test_at_qos_0_nothing_is_sent_again_and_the_connection_stays() -> None:
    client = Broker().client(5)
    client.connect("c")
    (send,) = client.connection.receive(encode(published(0), 5), 0)
    assert isinstance(send, Send)
    client.connection.answer(Refused(send.ticket, Failure(ErrorCode.STORE_UNAVAILABLE, "no answer")), 0)
    assert not client.connection.closed
