"""Sessions as clients see them, over the real use cases and store: what is kept, for how long, and how often it comes."""

from __future__ import annotations

import pytest

from domain import property as stored
from domain.record import Record
from protocols.mqtt import property as props
from protocols.mqtt.connect import Disconnect, Will
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Unsubscribe
from tests.protocols.mqtt.stage import Broker, Client, bodies


def with_number(name: int, number: int) -> Properties:
    out = Properties()
    out.numbers[name] = number
    return out


def away(broker: Broker, version: int = 4, qos: int = 1, pattern: str = "t/#") -> None:
    """Make a session that is away."""
    client = broker.client(version)
    client.connect("away", clean=False, expiry_s=1000 if version == 5 else None)
    assert client.subscribe(pattern, qos) == qos
    client.leave()


def back(broker: Broker, version: int = 4) -> Client:
    """Its return."""
    client = broker.client(version)
    assert client.connect("away", clean=False, expiry_s=1000 if version == 5 else None).present
    return client


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_publish_and_receive(version: int, qos: int) -> None:
    broker = Broker()
    listener = broker.client(version)
    assert not listener.connect("listener").present
    assert listener.subscribe("sensors/+/temp", qos) == qos
    sender = broker.client(version)
    sender.connect("sender")
    sender.publish("sensors/room1/temp", b"21", qos)
    answers = [(ack.kind, ack.packet_id) for ack in sender.take() if isinstance(ack, Ack)]
    assert answers == [[], [(4, 1)], [(5, 1)]][qos]
    (got,) = listener.messages()
    assert (got.topic, got.body, got.qos, got.retain, got.dup) == (b"sensors/room1/temp", b"21", qos, False, False)
    if qos == 2:
        sender.put(Ack(6, 1))
        assert [(ack.kind, ack.packet_id) for ack in sender.take() if isinstance(ack, Ack)] == [(7, 1)]


def test_delivered_qos_is_the_lower_of_both() -> None:
    broker = Broker()
    listener = broker.client()
    listener.connect("listener")
    listener.subscribe("t/low", 0)
    listener.subscribe("t/high", 2)
    sender = broker.client()
    sender.connect("sender")
    sender.publish("t/low", qos=2, packet_id=1)
    sender.publish("t/high", qos=1, packet_id=2)
    assert [(got.topic, got.qos) for got in listener.messages()] == [(b"t/low", 0), (b"t/high", 1)]


def test_a_message_of_an_sdk_reaches_the_bare_topic() -> None:
    """It has no path: `t`, `t/#`, `+` and `#` match it, `t/+` does not."""
    broker = Broker()
    listener = broker.client()
    listener.connect("listener")
    for pattern in ("sensors/+", "sensors/#"):
        listener.subscribe(pattern)
    broker.publish("sensors", b"22", b"colour\x01blue\x02")
    (got,) = listener.messages()
    assert (got.topic, got.body, got.qos) == (b"sensors", b"22", 1)


def test_order_of_one_publisher_is_kept() -> None:
    broker = Broker()
    listener = broker.client()
    listener.connect("listener")
    listener.subscribe("#")
    sender = broker.client()
    sender.connect("sender")
    sender.put(*(Publish(b"t/%d" % (n % 3), b"%d" % n, 1, False, False, n + 1, NONE) for n in range(30)))
    assert [ack.packet_id for ack in sender.take() if isinstance(ack, Ack)] == list(range(1, 31))
    got = listener.messages()
    for path in (b"t/0", b"t/1", b"t/2"):
        numbers = [int(message.body) for message in got if message.topic == path]
        assert numbers == sorted(numbers)
        assert len(numbers) == 10


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
def test_messages_for_an_absent_session_wait_in_the_log(kill: bool, version: int, qos: int) -> None:
    broker = Broker()
    away(broker, version, qos)
    sender = broker.client(version)
    sender.connect("sender")
    for number in range(5):
        sender.publish("t/x", b"%d" % number, qos, packet_id=number + 1)
    sender.publish("other", b"no", qos, packet_id=9)
    if kill:
        broker.kill()
    client = back(broker, version)
    assert bodies(client.messages()) == [b"0", b"1", b"2", b"3", b"4"]
    client.leave()
    assert back(broker, version).messages() == []


def test_what_was_there_before_the_subscription_is_not_delivered() -> None:
    broker = Broker()
    sender = broker.client()
    sender.connect("sender")
    sender.publish("t/x", b"before", packet_id=1)
    away(broker)
    sender.publish("t/x", b"after", packet_id=2)
    broker.kill()
    assert bodies(back(broker).messages()) == [b"after"]


def test_a_filter_that_begins_with_a_wildcard_waits_too() -> None:
    broker = Broker()
    sender = broker.client()
    sender.connect("sender")
    sender.publish("a/x", b"before", packet_id=1)
    broker.run(1000)
    away(broker, pattern="+/x")
    sender.publish("a/x", b"1", packet_id=2)
    sender.publish("b/x", b"2", packet_id=3)
    sender.publish("$c/x", b"3", packet_id=4)
    broker.kill()
    client = back(broker)
    assert sorted(bodies(client.messages())) == [b"1", b"2"]
    client.leave()
    assert back(broker).messages() == []


def test_unacknowledged_messages_come_again_first_and_marked() -> None:
    """4.4: in their original order, with their packet ids, DUP set."""
    broker = Broker()
    away(broker)
    sender = broker.client()
    sender.connect("sender")
    for number in range(3):
        sender.publish("t/x", b"%d" % number, packet_id=number + 1)
    client = back(broker)
    first = client.messages(answer=False)
    assert bodies(first) == [b"0", b"1", b"2"]
    client.put(Ack(4, first[1].packet_id))
    client.drop()
    sender.publish("t/x", b"3", packet_id=4)
    again = back(broker).messages()
    assert [(got.body, got.dup) for got in again] == [(b"0", True), (b"2", True), (b"3", False)]
    assert [got.packet_id for got in again[:2]] == [first[0].packet_id, first[2].packet_id]


@pytest.mark.parametrize("kill", [False, True])
def test_exactly_once_out_survives_a_lost_connection_at_every_step(kill: bool) -> None:
    broker = Broker()
    away(broker, qos=2)
    sender = broker.client()
    sender.connect("sender")
    sender.publish("t/x", b"once", qos=2)

    def lose(client: Client) -> None:
        client.drop()
        if kill:
            broker.kill()

    client = back(broker)
    (first,) = client.messages(answer=False)
    assert not first.dup
    lose(client)
    client = back(broker)
    (second,) = client.messages(answer=False)
    assert (second.dup, second.packet_id) == (True, first.packet_id)
    client.put(Ack(5, second.packet_id))
    assert [(ack.kind, ack.packet_id) for ack in client.take() if isinstance(ack, Ack)] == [(6, first.packet_id)]
    lose(client)
    client = back(broker)
    (rel,) = client.take()
    assert isinstance(rel, Ack)
    assert (rel.kind, rel.packet_id) == (6, first.packet_id)
    client.put(Ack(7, first.packet_id))
    broker.run(1000)
    lose(client)
    assert back(broker).take() == []


def test_a_kill_between_pubcomp_and_checkpoint_does_not_deliver_twice() -> None:
    broker = Broker()
    away(broker, qos=2)
    sender = broker.client()
    sender.connect("sender")
    sender.publish("t/x", b"once", qos=2)
    client = back(broker)
    assert bodies(client.messages()) == [b"once"]
    broker.kill()
    assert not [packet for packet in back(broker).take() if isinstance(packet, Publish)]


@pytest.mark.parametrize("kill", [False, True])
def test_exactly_once_in_survives_a_lost_connection(kill: bool) -> None:
    broker = Broker()
    listener = broker.client()
    listener.connect("listener", clean=False)
    listener.subscribe("t/#", 2)
    listener.leave()
    sender = broker.client()
    sender.connect("sender", clean=False)
    sender.publish("t/x", b"once", qos=2, packet_id=5)
    sender.drop()
    if kill:
        broker.kill()
    sender = broker.client()
    assert sender.connect("sender", clean=False).present
    sender.publish("t/x", b"once", qos=2, packet_id=5, dup=True)
    sender.put(Ack(6, 5))
    assert [(ack.kind, ack.packet_id) for ack in sender.take() if isinstance(ack, Ack)] == [(5, 5), (7, 5)]
    sender.publish("t/x", b"another", qos=2, packet_id=5)
    listener = broker.client()
    listener.connect("listener", clean=False)
    assert bodies(listener.messages()) == [b"once", b"another"]


def test_a_repetition_shares_the_fate_of_a_copy_that_is_not_stored_yet() -> None:
    broker = Broker()
    sender = broker.client(5)
    sender.connect("sender", clean=False, expiry_s=100)
    broker.disk.hold_syncs = True
    sender.publish("t/x", b"once", qos=2, packet_id=5)
    assert sender.take() == []
    sender.publish("t/x", b"once", qos=2, packet_id=5, dup=True)
    assert sender.take() == []
    broker.disk.hold_syncs = False
    broker.disk.release()
    broker.run(100)
    assert [ack.code for ack in sender.take() if isinstance(ack, Ack)] == [0, 0]


def test_take_over_ends_the_older_connection() -> None:
    broker = Broker()
    old = broker.client(5)
    old.connect("same")
    new = broker.client(5)
    new.connect("same")
    (goodbye,) = old.take()
    assert isinstance(goodbye, Disconnect)
    assert goodbye.code == 0x8E
    assert (old.gone, old.reason, new.gone) == (True, "taken-over", False)
    new.subscribe("t")
    broker.publish("t", b"x")
    assert bodies(new.messages()) == [b"x"]


def test_clean_start_forgets() -> None:
    broker = Broker()
    away(broker)
    client = broker.client()
    assert not client.connect("away", clean=True).present
    client.leave()
    client = broker.client()
    assert not client.connect("away", clean=False).present
    broker.publish("t", b"x")
    assert client.messages() == []


def test_session_expiry_ends_it() -> None:
    broker = Broker()
    for wait_ms, present in ((3_000, True), (6_000, False)):
        client = broker.client(5)
        client.connect("c", clean=True, expiry_s=5)
        client.leave()
        broker.run(wait_ms)
        client = broker.client(5)
        assert client.connect("c", clean=False, expiry_s=5).present is present


def test_disconnect_can_change_the_expiry() -> None:
    broker = Broker()
    client = broker.client(5)
    client.connect("c", clean=True, expiry_s=1000)
    client.leave(properties=with_number(props.SESSION_EXPIRY, 0))
    client = broker.client(5)
    assert not client.connect("c", clean=False, expiry_s=0).present
    client.leave(properties=with_number(props.SESSION_EXPIRY, 5))
    assert client.reason == "protocol-error"


def test_an_expired_session_leaves_nothing_in_the_store() -> None:
    broker = Broker()
    client = broker.client(5)
    client.connect("c", clean=True, expiry_s=5)
    client.subscribe("t/#", 2)
    sender = broker.client()
    sender.connect("s")
    sender.publish("t/x")
    client.leave()
    assert list(broker.store.state.scan("session", b""))
    broker.kill()
    broker.run(10_000)
    assert list(broker.store.state.scan("session", b"")) == []


def test_will_on_a_lost_connection_but_not_after_goodbye() -> None:
    broker = Broker()
    listener = broker.client()
    listener.connect("listener")
    listener.subscribe("wills/#")
    for word, expected in (("drop", [b"gone"]), ("leave", [])):
        client = broker.client()
        client.connect("c", will=Will("wills/c", b"gone", 1, False, NONE))
        client.drop() if word == "drop" else client.leave()
        broker.run()
        assert bodies(listener.messages()) == expected


def test_disconnect_with_will_message() -> None:
    """3.14.2.1: reason code 0x04."""
    broker = Broker()
    listener = broker.client(5)
    listener.connect("listener")
    listener.subscribe("wills/#")
    client = broker.client(5)
    client.connect("c", will=Will("wills/c", b"gone", 1, False, NONE))
    client.leave(4)
    assert bodies(listener.messages()) == [b"gone"]


@pytest.mark.parametrize("kill", [False, True])
def test_will_delay_waits_and_is_cancelled_by_a_return(kill: bool) -> None:
    broker = Broker()
    listener = broker.client(5)
    listener.connect("listener", clean=False, expiry_s=10_000)
    listener.subscribe("wills/#")
    listener.leave()

    def lose() -> None:
        client = broker.client(5)
        will = Will("wills/c", b"gone", 1, False, with_number(props.WILL_DELAY, 3))
        client.connect("c", clean=False, will=will, expiry_s=100)
        if kill:
            broker.kill()
        else:
            client.drop()

    def heard() -> list[bytes]:
        client = broker.client(5)
        client.connect("listener", clean=False, expiry_s=10_000)
        got = bodies(client.messages())
        client.leave()
        return got

    lose()
    broker.run(2_000)
    lose()
    broker.run(2_000)
    assert heard() == []
    broker.run(2_000)
    assert heard() == [b"gone"]
    broker.run(10_000)
    assert heard() == []


def test_will_of_a_durable_session_survives_the_server() -> None:
    broker = Broker()
    away(broker, pattern="wills/#")
    client = broker.client()
    client.connect("c", clean=False, will=Will("wills/c", b"gone", 1, True, NONE))
    broker.kill()
    broker.run(100)
    broker.kill()
    broker.run(100)
    assert bodies(back(broker).messages()) == [b"gone"]


def test_retained_values() -> None:
    broker = Broker()
    sender = broker.client(5)
    sender.connect("sender")
    for qos in (0, 1, 2):
        sender.publish(f"r/{qos}", b"%d" % qos, qos, packet_id=qos + 1, retain=True)
        sender.put(Ack(6, qos + 1))
    broker.kill()
    listener = broker.client(5)
    listener.connect("listener")
    listener.subscribe("r/+", 2)
    got = sorted((got.body, got.qos, got.retain) for got in listener.messages())
    assert got == [(b"0", 0, True), (b"1", 1, True), (b"2", 2, True)]
    sender = broker.client(5)
    sender.connect("sender")
    sender.publish("r/1", b"", 1, packet_id=4, retain=True)
    (live,) = listener.messages()
    assert (live.body, live.retain) == (b"", False)
    assert listener.subscribe("r/+", 1) == 1
    assert sorted(bodies(listener.messages())) == [b"0", b"2"]


def test_retain_handling_and_retain_as_published() -> None:
    """3.8.3.1: 0 always, 1 when the filter is new, 2 never; and what live deliveries say."""
    broker = Broker()
    sender = broker.client(5)
    sender.connect("sender")
    sender.publish("r/1", b"kept", retain=True)
    listener = broker.client(5)
    listener.connect("listener")
    for options, count in ((0x21, 0), (0x11, 0), (0x01, 1)):
        listener.subscribe("r/1", options)
        assert len(listener.messages()) == count
    listener.subscribe("r/+", 0x11)
    assert len(listener.messages()) == 1
    listener.subscribe("r/+", 0x29)
    sender.publish("r/2", b"live", packet_id=2, retain=True)
    assert [(got.body, got.retain) for got in listener.messages()] == [(b"live", True)]


def test_no_local_and_merged_identifiers() -> None:
    broker = Broker()
    client = broker.client(5)
    client.connect("c")
    first, second = Properties(), Properties()
    first.subscription_ids, second.subscription_ids = [3], [4]
    client.subscribe("t/#", 1, first)
    client.subscribe("t/+", 0 | 4, second)
    client.publish("t/x", b"own")
    (own,) = client.messages()
    assert own.properties.subscription_ids == [3]
    other = broker.client(5)
    other.connect("o")
    other.publish("t/x", b"theirs")
    (theirs,) = client.messages()
    assert theirs.properties.subscription_ids == [3, 4]
    assert theirs.qos == 1


def test_receive_maximum_of_the_client_is_kept_and_the_rest_follows() -> None:
    broker = Broker()
    listener = broker.client(5)
    listener.connect("listener", properties=with_number(props.RECEIVE_MAXIMUM, 2))
    listener.subscribe("t/#")
    sender = broker.client(5)
    sender.connect("sender")
    for number in range(7):
        sender.publish("t/x", b"%d" % number, packet_id=number + 1)
    first = listener.messages(answer=False)
    assert bodies(first) == [b"0", b"1"]
    listener.put(Ack(4, first[0].packet_id))
    assert bodies(listener.messages(answer=False)) == [b"2"]
    listener.put(Ack(4, first[1].packet_id), Ack(4, 3))
    assert bodies(listener.messages()) == [b"3", b"4", b"5", b"6"]
    sender.publish("t/x", b"live", packet_id=8)
    assert bodies(listener.messages()) == [b"live"]


def test_unsubscribe_stops_delivery() -> None:
    broker = Broker()
    client = broker.client(5)
    client.connect("c")
    client.subscribe("t/#")
    client.put(Unsubscribe(9, ["t/#", "never"]))
    (answer,) = client.take()
    assert isinstance(answer, Suback)
    assert (answer.un, answer.codes) == (True, b"\x00\x11")
    broker.publish("t", b"x")
    assert client.take() == []


def test_expired_messages_are_not_delivered_late() -> None:
    broker = Broker()
    away(broker, 5)
    sender = broker.client(5)
    sender.connect("sender")
    sender.publish("t/x", b"short", packet_id=1, properties=with_number(props.MESSAGE_EXPIRY, 1))
    sender.publish("t/x", b"long", packet_id=2, properties=with_number(props.MESSAGE_EXPIRY, 6))
    broker.run(3_000)
    (got,) = back(broker, 5).messages()
    assert got.body == b"long"
    assert 0 < got.properties.numbers[props.MESSAGE_EXPIRY] < 6


def test_properties_go_through_unchanged() -> None:
    broker = Broker()
    listener = broker.client(5)
    listener.connect("listener")
    listener.subscribe("t/#")
    given = Properties()
    given.numbers[props.PAYLOAD_FORMAT] = 1
    given.texts[props.CONTENT_TYPE] = "text/plain"
    given.texts[props.RESPONSE_TOPIC] = "answers/here"
    given.blobs[props.CORRELATION_DATA] = b"\x00\x01\xff"
    given.user = [("a", "1"), ("a", "2"), ("", "empty"), ("KEYS", "reserved"), ("c", "\x01"), ("z", "")]
    sender = broker.client(5)
    sender.connect("sender")
    sender.publish("t/x", "größe".encode(), properties=given)
    (got,) = listener.messages()
    assert got.properties == given


def test_user_properties_are_properties_for_everybody_else() -> None:
    broker = Broker()
    sender = broker.client(5)
    sender.connect("sender")
    given = Properties()
    given.user = [("plain", "1"), ("twice", "1"), ("twice", "2"), ("TAGS", "stolen"), ("HG_CLIENT", "forged")]
    sender.publish("t/x", properties=given)
    found: list[bytes] = []
    for queue in range(8):
        broker.store.read("t", queue, 0, 10, 1 << 20, None, lambda result: found.extend(getattr(result, "records", [])))
    (record,) = found
    assert stored.user(Record(record).properties) == {"plain": "1"}
    assert stored.find(Record(record).properties, b"TAGS") == b"MQTT_COMMON"
    assert stored.find(Record(record).properties, b"HG_CLIENT") == b"sender"


def test_a_slow_reader_loses_the_oldest_of_qos_0_only() -> None:
    broker = Broker(output_bytes_max=5_000)
    listener = broker.client()
    listener.connect("listener")
    listener.subscribe("t/0", 0)
    listener.subscribe("t/1", 1)
    listener.stalled = True
    sender = broker.client()
    sender.connect("sender")
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
    assert broker.adapter.shed == 20 - len(low)


def test_deliveries_too_large_for_the_client_are_passed_over() -> None:
    broker = Broker()
    listener = broker.client(5)
    listener.connect("listener", properties=with_number(props.MAXIMUM_PACKET_SIZE, 100))
    listener.subscribe("t/#")
    sender = broker.client(5)
    sender.connect("sender")
    sender.publish("t/x", bytes(200), packet_id=1)
    sender.publish("t/x", b"small", packet_id=2)
    broker.run()
    assert bodies(listener.messages()) == [b"small"]
    assert not listener.gone
