"""The values under `$SYS/broker/`."""

from __future__ import annotations

from protocols.mqtt.connect import Disconnect
from protocols.mqtt.publish import Ack
from tests.protocols.mqtt.stage import Broker, bodies


def test_facts_are_like_latest_values_and_come_again_when_they_change() -> None:
    broker = Broker()
    told = {"version": "1", "clients/connected": "2"}
    broker.sessions.sys_topics.begin(lambda: told)
    client = broker.client()
    client.connect("c")
    assert client.subscribe("$SYS/#", 1) == 1
    got = client.messages()
    assert sorted((message.topic, message.body, message.qos, message.retain) for message in got) == [
        (b"$SYS/broker/clients/connected", b"2", 0, True),
        (b"$SYS/broker/version", b"1", 0, True),
    ]
    broker.run(10_000)
    client.take()
    told["clients/connected"] = "3"
    broker.run(10_000)
    (message,) = client.messages()
    assert (message.topic, message.body, message.retain) == (b"$SYS/broker/clients/connected", b"3", False)


def test_leading_wildcards_do_not_match_them_and_nothing_is_stored() -> None:
    broker = Broker()
    broker.sessions.sys_topics.begin(lambda: {"version": "1"})
    wild = broker.client()
    wild.connect("wild")
    wild.subscribe("#")
    wild.subscribe("+/broker/version")
    exact = broker.client()
    exact.connect("exact")
    exact.subscribe("$SYS/broker/version")
    broker.run(10_100)
    assert wild.messages() == []
    assert bodies(exact.messages()) == [b"1", b"1"]
    assert broker.store.metadata.topic("mqtt_other") is None


def test_nobody_can_publish_there() -> None:
    client = Broker().client(5)
    client.connect("c")
    client.publish("$SYS/broker/version", b"2")
    (answer,) = client.take()
    assert isinstance(answer, Ack | Disconnect)
    assert answer.code == 0x87
