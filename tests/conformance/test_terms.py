"""The limits that CONNECT and CONNACK agree on, and that the server enforces and keeps them: statements of MQTT 5.0."""

from __future__ import annotations

import pytest

from protocols.mqtt import property as props
from protocols.mqtt.connect import Connack, Connect, Disconnect, Will
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import Ack
from protocols.mqtt.subscribe import Subscribe
from tests.conformance.script import entered, heard
from tests.protocols.mqtt.stage import Broker, bodies, with_number


def asked(properties: Properties, **options: object) -> Connack:
    """CONNACK of a client with these CONNECT properties."""
    return Broker(**options).client(5).connect("c", properties=properties)


def test_3_1_2_21_and_3_2_2_21_the_server_may_name_the_keep_alive() -> None:
    answer = Broker(keep_alive_max_s=60).client(5).connect("c", keep_alive_s=61)
    assert answer.properties.numbers[props.SERVER_KEEP_ALIVE] == 60


def test_3_1_2_24_and_25_nothing_larger_than_the_client_takes_is_sent() -> None:
    broker = Broker()
    client = broker.client(5)
    client.connect("c", properties=with_number(props.MAXIMUM_PACKET_SIZE, 50))
    client.subscribe("t", 1)
    sender = entered(broker, 5, "sender")
    sender.publish("t", b"x" * 100, packet_id=1)
    sender.publish("t", b"small", packet_id=2)
    assert bodies(client.messages()) == [b"small"]


@pytest.mark.parametrize(("most", "aliases"), [(None, 0), (0, 0), (1, 1)])
def test_3_1_2_26_and_27_and_3_3_2_9_aliases_towards_the_client_are_bounded_by_it(most: int | None, aliases: int) -> None:
    broker = Broker()
    client = broker.client(5)
    client.connect("c", properties=NONE if most is None else with_number(props.TOPIC_ALIAS_MAXIMUM, most))
    client.subscribe("t/#", 0)
    sender = entered(broker, 5, "sender")
    for path in ("t/1", "t/2", "t/1", "t/2"):
        sender.publish(path, qos=0)
    got = client.messages()
    assert len({message.properties.numbers.get(props.TOPIC_ALIAS) for message in got} - {None}) == aliases
    assert [message.topic for message in got] == [b"t/1", b"t/2", b"" if aliases else b"t/1", b"t/2"]


@pytest.mark.parametrize(("wanted", "configured", "said"), [(1, "re/%c/", "re/c/"), (0, "re/%c/", None), (1, "", None)])
def test_3_1_2_28_response_information_is_for_who_asks(wanted: int, configured: str, said: str | None) -> None:
    answer = asked(with_number(props.REQUEST_RESPONSE, wanted), response_information=configured)
    assert answer.properties.texts.get(props.RESPONSE_INFORMATION) == said


@pytest.mark.parametrize("wanted", [0, 1])
def test_3_1_2_29_reasons_in_words_are_for_who_wants_them(wanted: int) -> None:
    broker = Broker()
    client = broker.client(5)
    client.connect("c", properties=with_number(props.REQUEST_PROBLEM, wanted))
    client.publish("$SYS/x")
    client.put(Subscribe(2, [("a/#/b", 0)]))
    found = [props.REASON_STRING in packet.properties.texts for packet in client.take()]  # type: ignore[union-attr]
    assert found == [bool(wanted), bool(wanted)]


def test_3_4_2_2_and_3_9_2_2_words_are_left_out_where_they_do_not_fit() -> None:
    broker = Broker()
    client = broker.client(5)
    client.connect("c", properties=with_number(props.MAXIMUM_PACKET_SIZE, 30))
    client.publish("$SYS/x")
    client.put(Subscribe(2, [("a/#/b", 0)]))
    client.put(Connect(5, "c", True, 0, None, None, None, NONE))
    packets = client.take()
    assert [type(packet).__name__ for packet in packets] == ["Ack", "Suback", "Disconnect"]
    assert all(packet.properties == NONE for packet in packets)  # type: ignore[union-attr]


def test_3_1_3_7_and_3_2_2_16_an_assigned_id_is_told_and_unlike_any_other() -> None:
    broker = Broker()
    ids = {broker.client(5).connect("").properties.texts[props.ASSIGNED_CLIENT_ID] for _ in range(20)}
    assert len(ids) == 20


def test_3_2_2_9_to_12_a_highest_qos_is_told_and_kept() -> None:
    broker = Broker(qos_max=1)
    client = broker.client(5)
    assert client.connect("c").properties.numbers[props.MAXIMUM_QOS] == 1
    assert client.subscribe("t", 2) == 1
    client.publish("t", qos=2)
    assert heard(client) == ["DISCONNECT 9b", "closed"]
    assert broker.client(5).connect("w", will=Will("w", b"", 2, False, NONE)).code == 0x9B


def test_3_2_2_13_and_14_that_nothing_is_retained_is_told_and_kept() -> None:
    broker = Broker(retain_available=False)
    client = broker.client(5)
    assert client.connect("c").properties.numbers[props.RETAIN_AVAILABLE] == 0
    client.publish("t", retain=True)
    assert heard(client) == ["DISCONNECT 9a", "closed"]
    assert broker.client(5).connect("w", will=Will("w", b"", 0, True, NONE)).code == 0x9A


@pytest.mark.parametrize(
    ("setting", "name", "pattern", "code"),
    [
        ("wildcards_available", props.WILDCARD_AVAILABLE, "t/#", 0xA2),
        ("shared_available", props.SHARED_AVAILABLE, "$share/g/t", 0x9E),
        ("identifiers_available", props.SUBSCRIPTION_ID_AVAILABLE, "t", 0xA1),
    ],
)
def test_3_2_2_3_11_to_13_what_is_switched_off_is_told_and_refused(setting: str, name: int, pattern: str, code: int) -> None:
    broker = Broker(**{setting: False})
    client = broker.client(5)
    assert client.connect("c").properties.numbers[name] == 0
    given = Properties()
    given.subscription_ids = [1] if code == 0xA1 else []
    assert client.subscribe(pattern, 1, given) == code
    assert client.subscribe("plain", 1) == 1


@pytest.mark.parametrize(("redirect", "code"), [("use-another", 0x9C), ("moved", 0x9D)])
def test_4_11_clients_are_sent_to_another_server(redirect: str, code: int) -> None:
    broker = Broker(redirect=redirect, server_reference="other.example:1883")
    answer = broker.client(5).connect("c")
    assert (answer.code, answer.properties.texts[props.SERVER_REFERENCE]) == (code, "other.example:1883")
    assert broker.client(4).connect("c").code == 3


def test_4_11_clients_of_a_server_that_stops_are_told_where_to_go() -> None:
    broker = Broker(server_reference="other.example")
    client = entered(broker, 5, "c")
    client.connection.drain(0)
    client.poll()
    (goodbye,) = client.take()
    assert isinstance(goodbye, Disconnect)
    assert (goodbye.code, goodbye.properties.texts[props.SERVER_REFERENCE]) == (0x9C, "other.example")
    assert props.SESSION_EXPIRY not in goodbye.properties.numbers, "3.14.2-2"


def test_3_3_4_9_and_4_9_0_1_to_3_receive_maximum_of_the_client() -> None:
    broker = Broker()
    client = broker.client(5)
    client.connect("c", properties=with_number(props.RECEIVE_MAXIMUM, 2))
    client.put(Subscribe(1, [("t", 1), ("u", 0)]))
    client.take()
    sender = entered(broker, 5, "sender")
    for number in range(4):
        sender.publish("t", b"%d" % number, packet_id=number + 1)
    sender.publish("u", b"zero", 0)
    first = client.messages(answer=False)
    assert sorted(bodies(first)) == [b"0", b"1", b"zero"], "QoS 0 flows on (3.3.4-8)"
    client.put(Ack(4, next(message.packet_id for message in first if message.body == b"0")))
    assert bodies(client.messages(answer=False)) == [b"2"]
