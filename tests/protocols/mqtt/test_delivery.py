"""Deliveries from one client to another: QoS, order, retained messages, options, properties, slow readers."""

from __future__ import annotations

import pytest

from domain.message import property as stored
from domain.message.record import Record
from domain.store.store_request import ReadRequest
from protocols.mqtt import property as props
from protocols.mqtt.property import Properties
from protocols.mqtt.publish import Ack
from protocols.mqtt.subscribe import Suback, Unsubscribe
from tests.protocols.mqtt.stage import Broker, bodies, with_number

pytestmark = pytest.mark.usefixtures("near_and_late")


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_publish_and_receive(broker: Broker, version: int, qos: int) -> None:
    listener = broker.client(version)
    assert not listener.connect("listener").present
    assert listener.subscribe("sensors/+/temp", qos) == qos
    sender = broker.joined("sender", version)
    sender.publish("sensors/room1/temp", b"21", qos)
    answers = [(ack.kind, ack.packet_id) for ack in sender.take() if isinstance(ack, Ack)]
    assert answers == [[], [(4, 1)], [(5, 1)]][qos]
    (got,) = listener.messages()
    assert (got.topic, got.body, got.qos, got.retain, got.dup) == (b"sensors/room1/temp", b"21", qos, False, False)
    if qos == 2:
        sender.put(Ack(6, 1))
        assert [(ack.kind, ack.packet_id) for ack in sender.take() if isinstance(ack, Ack)] == [(7, 1)]


def test_a_message_of_an_sdk_reaches_the_bare_topic(broker: Broker) -> None:
    """A message of an SDK has no path: `t`, `t/#`, `+` and `#` match it, `t/+` does not."""
    listener = broker.joined("listener")
    for pattern in ("sensors/+", "sensors/#"):
        listener.subscribe(pattern)
    broker.publish("sensors", b"22", b"colour\x01blue\x02")
    (got,) = listener.messages()
    assert (got.topic, got.body, got.qos) == (b"sensors", b"22", 1)


def test_retained_values(broker: Broker) -> None:
    sender = broker.joined("sender", 5)
    for qos in (0, 1, 2):
        sender.publish(f"r/{qos}", b"%d" % qos, qos, packet_id=qos + 1, retain=True)
        sender.put(Ack(6, qos + 1))
    broker.kill()
    listener = broker.joined("listener", 5, "r/+", 2)
    got = sorted((got.body, got.qos, got.retain) for got in listener.messages())
    assert got == [(b"0", 0, True), (b"1", 1, True), (b"2", 2, True)]
    sender = broker.joined("sender", 5)
    sender.publish("r/1", b"", 1, packet_id=4, retain=True)
    (live,) = listener.messages()
    assert (live.body, live.retain) == (b"", False)
    assert listener.subscribe("r/+", 1) == 1
    assert sorted(bodies(listener.messages())) == [b"0", b"2"]


def test_unsubscribe_stops_delivery(broker: Broker) -> None:
    client = broker.joined("c", 5, "t/#")
    client.put(Unsubscribe(9, ["t/#", "never"]))
    answer = client.only(Suback)
    assert (answer.un, answer.codes) == (True, b"\x00\x11")
    broker.publish("t", b"x")
    assert client.take() == []


def test_user_properties_are_properties_for_everybody_else(broker: Broker) -> None:
    sender = broker.joined("sender", 5)
    given = Properties()
    given.user = [("plain", "1"), ("twice", "1"), ("twice", "2"), ("TAGS", "stolen"), ("HG_CLIENT", "forged")]
    sender.publish("t/x", properties=given)
    found: list[bytes] = []
    for queue in range(8):
        broker.store.log.read(
            ReadRequest("t", queue, 0, 10, 1 << 20), lambda result: found.extend(getattr(result, "records", []))
        )
    (record,) = found
    assert stored.user(Record(record).properties) == {"plain": "1"}
    assert stored.find(Record(record).properties, stored.TAGS_START) == b"MQTT_COMMON"
    assert stored.find(Record(record).properties, stored.HG_CLIENT_START) == b"sender"


def test_a_slow_reader_loses_the_oldest_of_qos_0_only() -> None:
    broker = Broker(output_bytes_max=5_000)
    listener = broker.joined("listener", 4, "t/0", 0)
    listener.subscribe("t/1", 1)
    listener.stalled = True
    sender = broker.joined("sender")
    for number in range(20):
        sender.publish("t/0", b"%02d" % number + bytes(498), 0)
        sender.publish("t/1", b"%02d" % number + bytes(498), 1, packet_id=number + 1)
    listener.stalled = False
    broker.run()
    got = listener.messages()
    assert [int(message.body[:2]) for message in got if message.qos == 1] == list(range(20))
    low = [int(message.body[:2]) for message in got if message.qos == 0]
    assert low == list(range(20 - len(low), 20))
    assert 0 < len(low) < 20
    assert broker.adapter.lost == {"refused": 0, "slow-reader": 20 - len(low), "too-large": 0}


def test_deliveries_too_large_for_the_client_are_passed_over(broker: Broker) -> None:
    listener = broker.joined("listener", 5, properties=with_number(props.MAXIMUM_PACKET_SIZE, 100))
    listener.subscribe("t/#")
    sender = broker.joined("sender", 5)
    sender.publish("t/x", bytes(200), packet_id=1)
    sender.publish("t/x", b"small", packet_id=2)
    broker.run()
    assert bodies(listener.messages()) == [b"small"]
    assert not listener.gone
    assert (broker.sessions.lost["too-large"], broker.adapter.lost["too-large"]) == (1, 0)
    sender.publish("t/x", bytes(200), qos=0)
    assert (broker.sessions.lost["too-large"], broker.adapter.lost["too-large"]) == (1, 1)


def test_aliases_towards_the_client(broker: Broker) -> None:
    """3.3.2.3.4: as many aliases as the client accepts, for the first topics; a packet that sets one is never dropped."""
    listener = broker.joined("listener", 5, properties=with_number(props.TOPIC_ALIAS_MAXIMUM, 1))
    listener.subscribe("t/#", 1)
    sender = broker.joined("sender", 5)
    for number, (topic, qos) in enumerate((("t/a", 0), ("t/a", 1), ("t/b", 1), ("t/a", 0)), 1):
        sender.publish(topic, qos=qos, packet_id=number)
    got = [(message.topic, message.properties.numbers.get(props.TOPIC_ALIAS)) for message in listener.messages()]
    assert got == [(b"t/a", 1), (b"", 1), (b"t/b", None), (b"", 1)]
