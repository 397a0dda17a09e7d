"""Normative statements that take more than one client, or time: by their numbers in MQTT 5.0, and in brackets in 3.1.1."""

from __future__ import annotations

import pytest

from protocols.mqtt import property as props
from protocols.mqtt.connect import Will
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Unsubscribe
from tests.conformance.script import entered, heard
from tests.protocols.mqtt.stage import Broker, bodies, with_number

both_versions = pytest.mark.parametrize("version", [4, 5])


@both_versions
def test_3_1_2_4_to_6_and_3_2_2_2_sessions_are_resumed_or_begun_anew(version: int) -> None:
    """[3.1.2-4 to -6, 3.2.2-1 to -3]"""
    broker = Broker()
    kept = 100 if version == 5 else None
    for clean, present in ((False, False), (False, True), (True, False), (False, version == 5)):
        client = broker.client(version)
        assert client.connect("c", clean=clean, expiry_s=kept).present is present
        client.drop()


@both_versions
def test_3_1_2_23_and_4_5_0_1_what_a_session_is_owed_waits_for_it(version: int) -> None:
    broker = Broker()
    client = entered(broker, version, "c", keep=True)
    client.subscribe("t", 1)
    client.drop()
    entered(broker, version, "sender").publish("t", b"kept")
    client = entered(broker, version, "c", keep=True)
    assert bodies(client.messages()) == [b"kept"]


@both_versions
def test_3_1_4_3_a_client_that_connects_again_ends_its_other_connection(version: int) -> None:
    """[3.1.4-2]"""
    broker = Broker()
    first = entered(broker, version, "c")
    entered(broker, version, "c")
    assert heard(first) == (["DISCONNECT 8e", "closed"] if version == 5 else ["closed"])


@both_versions
@pytest.mark.parametrize(("retain", "flag"), [(False, ""), (True, " retain")])
def test_3_1_2_8_14_and_15_a_will_is_published_and_retained_if_it_says_so(version: int, retain: bool, flag: str) -> None:
    """[3.1.2-8, -16, -17]"""
    broker = Broker()
    entered(broker, version, "c", will=Will("w", b"gone", 1, retain, NONE)).drop()
    late = entered(broker, version, "late")
    late.subscribe("w")
    assert heard(late) == (["PUBLISH w q1 retain gone"] if retain else [])


@both_versions
def test_3_1_2_10_and_3_14_4_3_a_will_is_forgotten_with_goodbye(version: int) -> None:
    """[3.1.2-10, 3.14.4-3]"""
    broker = Broker()
    listener = entered(broker, version, "listener")
    listener.subscribe("w")
    entered(broker, version, "c", will=Will("w", b"gone", 1, False, NONE)).leave()
    assert heard(listener) == []


def test_3_1_3_9_a_will_with_a_delay_is_not_published_when_its_session_goes_on() -> None:
    broker = Broker()
    listener = entered(broker, 5, "listener")
    listener.subscribe("w")
    will = Will("w", b"gone", 1, False, with_number(props.WILL_DELAY, 5))
    entered(broker, 5, "c", keep=True, will=will).drop()
    broker.run(4_000)
    entered(broker, 5, "c", keep=True)
    broker.run(10_000)
    assert heard(listener) == []


@both_versions
def test_3_1_2_22_silence_of_one_and_a_half_times_the_keep_alive_closes(version: int) -> None:
    """[3.1.2-24]"""
    broker = Broker()
    client = entered(broker, version, "c", keep_alive_s=10)
    broker.run(14_900)
    assert not client.gone
    broker.run(200)
    assert heard(client) == (["DISCONNECT 8d", "closed"] if version == 5 else ["closed"])


@both_versions
def test_3_3_1_1_and_4_4_0_1_what_was_not_acknowledged_is_repeated_on_return_and_marked(version: int) -> None:
    """[3.3.1-1, 4.4.0-1]; 4.6.0-1 and -5: in the same order; 2.2.1-4: with ids of its own."""
    broker = Broker()
    client = entered(broker, version, "c", keep=True)
    client.subscribe("t", 2)
    sender = entered(broker, version, "sender")
    for number, qos in enumerate((1, 2, 1)):
        sender.publish("t", b"%d" % number, qos, packet_id=number + 1)
    first = client.messages(answer=False)
    assert all(not message.dup for message in first), "3.3.1-3"
    broker.run(60_000)
    assert client.messages(answer=False) == [], "4.4.0-1: only on return"
    client.drop()
    again = entered(broker, version, "c", keep=True).messages(answer=False)
    assert [(message.body, message.packet_id) for message in again] == [(message.body, message.packet_id) for message in first]
    assert all(message.dup for message in again)
    assert len({message.packet_id for message in again} - {0}) == 3


@both_versions
def test_3_3_1_5_to_8_retained_messages_are_kept_replaced_and_removed(version: int) -> None:
    """[3.3.1-5 to -12]"""
    broker = Broker()
    sender = entered(broker, version, "sender")

    def stands() -> list[str]:
        client = entered(broker, version, "late")
        client.subscribe("t", 1)
        return heard(client)

    sender.publish("t", b"one", retain=True)
    sender.publish("t", b"two", retain=True, packet_id=2)
    assert stands() == ["PUBLISH t q1 retain two"]
    sender.publish("t", b"passing", packet_id=3)
    assert stands() == ["PUBLISH t q1 retain two"]
    sender.publish("t", b"", retain=True, packet_id=4)
    assert stands() == []


@pytest.mark.parametrize(("handling", "times"), [(0, [1, 1]), (1, [1, 0]), (2, [0, 0])])
def test_3_3_1_9_to_11_and_3_8_4_4_retain_handling(handling: int, times: list[int]) -> None:
    broker = Broker()
    entered(broker, 5, "sender").publish("t", b"x", retain=True)
    client = entered(broker, 5, "c")
    found = []
    for _ in range(2):
        client.subscribe("t", 1 | handling << 4)
        found.append(len(client.messages()))
    assert found == times


@pytest.mark.parametrize(("option", "word"), [(0, "PUBLISH t q1 x"), (8, "PUBLISH t q1 retain x")])
def test_3_3_1_12_and_13_retain_as_published(option: int, word: str) -> None:
    broker = Broker()
    client = entered(broker, 5, "c")
    client.subscribe("t", 1 | option)
    entered(broker, 5, "sender").publish("t", b"x", retain=True)
    assert heard(client) == [word]


def test_3_3_2_4_to_20_properties_arrive_as_they_were_sent() -> None:
    broker = Broker()
    client = entered(broker, 5, "c")
    client.subscribe("t", 1)
    given = Properties()
    given.numbers = {props.PAYLOAD_FORMAT: 1}
    given.texts = {props.CONTENT_TYPE: "text/x", props.RESPONSE_TOPIC: "re/ply"}
    given.blobs = {props.CORRELATION_DATA: b"\x00\xff"}
    given.user = [("b", "2"), ("a", "1"), ("b", "1")]
    entered(broker, 5, "sender").publish("t", b"text", properties=given)
    (message,) = client.messages()
    assert message.properties == given


def test_3_3_2_5_and_6_messages_expire_and_tell_how_long_they_have() -> None:
    broker = Broker()
    client = entered(broker, 5, "c", keep=True)
    client.subscribe("t", 1)
    client.drop()
    sender = entered(broker, 5, "sender")
    for number, life in enumerate((2, 60)):
        sender.publish("t", b"%d" % life, packet_id=number + 1, properties=with_number(props.MESSAGE_EXPIRY, life))
    broker.run(10_000)
    (message,) = entered(broker, 5, "c", keep=True).messages()
    assert (message.body, message.properties.numbers[props.MESSAGE_EXPIRY] <= 50) == (b"60", True)


def test_3_3_2_7_aliases_end_with_their_connection() -> None:
    broker = Broker()
    client = entered(broker, 5, "c", keep=True)
    client.publish("t", properties=with_number(props.TOPIC_ALIAS, 1))
    client.drop()
    client = entered(broker, 5, "c", keep=True)
    client.publish("", properties=with_number(props.TOPIC_ALIAS, 1))
    assert heard(client)[-2:] == ["DISCONNECT 82", "closed"]


def test_3_3_4_2_and_3_overlapping_filters_give_one_message_with_all_identifiers() -> None:
    """[3.3.5-1]"""
    broker = Broker()
    client = entered(broker, 5, "c")
    for pattern, qos, identifier in (("t/#", 0, 1), ("t/+", 2, 2), ("+/x", 1, 3)):
        given = Properties()
        given.subscription_ids = [identifier]
        client.subscribe(pattern, qos, given)
    entered(broker, 5, "sender").publish("t/x", b"x", 2)
    (message,) = client.messages()
    assert (message.qos, sorted(message.properties.subscription_ids)) == (2, [1, 2, 3])


@both_versions
def test_3_8_4_3_a_filter_that_is_there_is_replaced(version: int) -> None:
    """[3.8.4-3]"""
    broker = Broker()
    client = entered(broker, version, "c")
    client.subscribe("t", 2)
    client.subscribe("t", 0)
    entered(broker, version, "sender").publish("t", b"x", 2)
    assert heard(client) == ["PUBLISH t q0 x"]


@both_versions
@pytest.mark.parametrize("asked_for", [0, 1, 2])
@pytest.mark.parametrize("sent", [0, 1, 2])
def test_3_8_4_8_deliveries_have_the_lower_qos(version: int, asked_for: int, sent: int) -> None:
    """[3.8.4-6]; 4.3.1 to 4.3.3"""
    broker = Broker()
    client = entered(broker, version, "c")
    client.subscribe("t", asked_for)
    entered(broker, version, "sender").publish("t", b"x", sent)
    assert heard(client) == [f"PUBLISH t q{min(asked_for, sent)} x"]


def test_3_8_3_3_no_local_keeps_a_client_from_hearing_itself() -> None:
    broker = Broker()
    client = entered(broker, 5, "c")
    client.subscribe("t", 4)
    client.publish("t", b"mine", 0)
    entered(broker, 5, "other").publish("t", b"theirs", 0)
    assert bodies(client.messages()) == [b"theirs"]


@both_versions
def test_3_10_4_1_to_3_what_is_unsubscribed_is_heard_no_more(version: int) -> None:
    """[3.10.4-1 to -3]; what is under way is completed."""
    broker = Broker()
    client = entered(broker, version, "c")
    client.subscribe("t", 2)
    sender = entered(broker, version, "sender")
    sender.publish("t", b"before", 2)
    (message,) = client.messages(answer=False)
    client.put(Unsubscribe(9, ["t"]))
    sender.publish("t", b"after", 2, packet_id=2)
    client.put(Ack(5, message.packet_id), Unsubscribe(10, ["T"]))
    words = heard(client)
    assert f"PUBREL {message.packet_id}" in words
    assert not any(word.startswith("PUBLISH") for word in words)


@both_versions
def test_4_3_3_10_a_repetition_is_acknowledged_and_not_stored_again(version: int) -> None:
    """[4.3.3-2]; PUBREL ends it: the same id is a new message then (4.3.3-12)."""
    broker = Broker()
    listener = entered(broker, version, "listener")
    listener.subscribe("t", 0)
    client = entered(broker, version, "c", keep=True)
    client.publish("t", b"once", 2, 7)
    client.drop()
    client = entered(broker, version, "c", keep=True)
    client.publish("t", b"once", 2, 7, dup=True)
    client.put(Ack(6, 7))
    assert heard(client) == ["PUBREC 7", "PUBCOMP 7"]
    client.publish("t", b"new", 2, 7)
    assert bodies(listener.messages()) == [b"once", b"new"]


@both_versions
def test_4_3_3_a_refusal_by_pubrec_ends_the_delivery(version: int) -> None:
    broker = Broker()
    client = entered(broker, version, "c")
    client.subscribe("t", 2)
    entered(broker, version, "sender").publish("t", b"x", 2)
    (message,) = client.messages(answer=False)
    client.put(Ack(5, message.packet_id, 0x87 if version == 5 else 0))
    assert heard(client) == ([] if version == 5 else [f"PUBREL {message.packet_id}"])


@both_versions
@pytest.mark.parametrize(
    ("pattern", "topic", "fits"),
    [
        ("#", "$x/y", False), ("+/y", "$x/y", False), ("$x/#", "$x/y", True), ("$x/+", "$x/y", True), ("a", "A", False),
        ("a//b", "a//b", True), ("a/+/b", "a//b", True), ("a/#", "a", True), ("a/+", "a", False), ("a/+", "a/", True),
        ("/", "/", True), ("+/+", "/", True), ("a", "a/", False), ("\ufeff", "\ufeff", True), ("a b", "a b", True),
        ("\u00e9", "e\u0301", False),
    ],
)  # fmt: skip
def test_4_7_1_to_4_7_3_and_1_5_4_3_what_matches(version: int, pattern: str, topic: str, fits: bool) -> None:
    """[4.7.1-2 to 4.7.3-4, 1.5.3-3]; 3.3.2-3: the topic arrives as it was sent."""
    broker = Broker()
    client = entered(broker, version, "c")
    client.subscribe(pattern, 0)
    entered(broker, version, "sender").publish(topic, b"x", 0)
    assert heard(client) == ([f"PUBLISH {topic} q0 x"] if fits else [])


@both_versions
def test_4_6_0_6_a_topic_is_in_order(version: int) -> None:
    """[4.6.0-5, -6]"""
    broker = Broker()
    client = entered(broker, version, "c")
    client.subscribe("t", 1)
    sender = entered(broker, version, "sender")
    sender.put(*(Publish(b"t", b"%d" % number, 1, False, False, number + 1, NONE) for number in range(50)))
    assert bodies(client.messages()) == [b"%d" % number for number in range(50)]
