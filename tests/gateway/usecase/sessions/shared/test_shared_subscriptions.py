"""Shared subscriptions: sessions as members of consumer groups (MQTT 5, 4.8.2)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from domain.address import share_group
from domain.command import Acknowledge, Command, Receive
from domain.event import Event, Leased, Received
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.waiting import read_turns
from protocols.mqtt import property as props
from protocols.mqtt.connect import Disconnect
from protocols.mqtt.packet import Packet
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Unsubscribe
from tests.connection_driver import StrictDriver
from tests.protocols.mqtt.stage import Broker, Client, bodies, with_number

pytestmark = pytest.mark.usefixtures("near_and_late")


def member(
    broker: Broker,
    client_id: str,
    pattern: str = "$share/g/t/#",
    qos: int = 1,
    version: int = 5,
    expiry_s: int | None = None,
) -> Client:
    client = broker.client(version)
    client.connect(client_id, clean=expiry_s is None, expiry_s=expiry_s)
    assert client.subscribe(pattern, qos) == qos
    return client


def sender(broker: Broker) -> Client:
    client = broker.client()
    client.connect("sender")
    return client


def send(client: Client, count: int, topic: str = "t/x", first: int = 0, qos: int = 1) -> None:
    for number in range(first, first + count):
        client.publish(topic, b"%d" % number, qos, packet_id=number + 1)
        if qos == 2:
            client.put(Ack(6, number + 1))


def numbers(messages: Sequence[Publish]) -> list[int]:
    return sorted(int(body) for body in bodies(list(messages)))


class Receiver(StrictDriver):
    """A consumer of another protocol."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.client_connection = ClientConnection("http", self)
        self.got: list[Leased] = []

    def answer(self, event: Event) -> None:
        if isinstance(event, Received):
            self.got += event.messages

    def do(self, command: Command) -> None:
        self.broker.handler.handle(self.client_connection, command)
        self.broker.run()

    def receive(self, limit: int = 32, wait_ms: int = 0, group: str = "g") -> list[Leased]:
        self.got.clear()
        self.do(Receive(1, group, "t", limit, 30_000, wait_ms))
        return list(self.got)

    def acknowledge(self, messages: list[Leased]) -> None:
        self.do(Acknowledge(2, "g", "t", [message.receipt for message in messages]))


def test_connack_says_that_they_are_available() -> None:
    answer = Broker().client(5).connect("c")
    assert answer.properties.numbers[props.SHARED_AVAILABLE] == 1


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_are_shared_out_evenly(version: int, qos: int) -> None:
    broker = Broker()
    members = [member(broker, name, qos=qos, version=version) for name in "abc"]
    send(sender(broker), 30, qos=qos)
    found = [numbers(each.messages()) for each in members]
    assert sorted(number for one in found for number in one) == list(range(30))
    assert [len(each) for each in found] == [10, 10, 10]
    assert Receiver(broker).receive() == []


def test_a_slow_member_gets_less() -> None:
    broker = Broker()
    quick, slow = member(broker, "quick"), member(broker, "slow")
    source = sender(broker)
    got = [0, 0]
    for number in range(20):
        send(source, 1, first=number)
        got[0] += len(quick.messages())
        got[1] += len(slow.messages(answer=False))
    assert got == [19, 1]


@pytest.mark.parametrize("way", ["drop", "leave", "take over", "kill"])
def test_what_a_member_has_not_acknowledged_goes_to_another(way: str) -> None:
    broker = Broker()
    first = member(broker, "first")
    send(sender(broker), 10)
    assert len(first.messages(answer=False)) == 10
    second = member(broker, "second")
    assert second.messages() == []
    if way == "drop":
        first.drop()
    elif way == "leave":
        first.leave()
    elif way == "take over":
        broker.client(5).connect("first")
    else:
        broker.kill()
        second = member(broker, "second")
    broker.run()
    got = second.messages()
    assert numbers(got) == list(range(10))
    assert not any(packet.dup for packet in got)


def test_a_member_that_stays_keeps_its_message_for_as_long_as_it_needs() -> None:
    broker = Broker()
    slow = member(broker, "slow")
    send(sender(broker), 1)
    (message,) = slow.messages(answer=False)
    other = member(broker, "other")
    for _ in range(20):
        broker.run(15_000)
    assert other.messages() == []
    slow.put(Ack(4, message.packet_id))
    slow.leave()
    broker.run(120_000)
    assert other.messages() == []


def test_a_window_is_not_exceeded_and_the_rest_stays_in_the_log() -> None:
    broker = Broker()
    client = broker.client(5)
    client.connect("narrow", properties=with_number(props.RECEIVE_MAXIMUM, 2))
    assert client.subscribe("$share/g/t/#", 1) == 1
    send(sender(broker), 5)
    assert len(client.messages(answer=False)) == 2
    assert len(Receiver(broker).receive()) == 3
    broker.run(31_000)
    client.drop()
    assert numbers(member(broker, "wide").messages()) == list(range(5))


def test_the_group_is_the_group_of_other_protocols() -> None:
    broker = Broker()
    source = sender(broker)
    client = member(broker, "m")
    send(source, 4)
    assert numbers(client.messages()) == [0, 1, 2, 3]
    client.leave()
    send(source, 4, first=4)
    receiver = Receiver(broker)
    messages = receiver.receive()
    assert len(messages) == 4
    receiver.acknowledge(messages[:3])
    client = member(broker, "m")
    assert client.messages() == []
    broker.run(31_000)
    assert len(client.messages()) == 1
    assert receiver.receive() == []


def test_paths_that_the_filter_refuses_are_settled_in_passing() -> None:
    broker = Broker()
    client = member(broker, "m", "$share/g/t/+/temp")
    source = sender(broker)
    send(source, 3, "t/a/hum")
    send(source, 1, "t/a/temp", first=3)
    assert numbers(client.messages()) == [3]
    assert Receiver(broker).receive(group=share_group("g", "t/+/temp")) == []


def test_members_with_different_filters_get_what_is_theirs() -> None:
    broker = Broker()
    one, two = member(broker, "one", "$share/g/t/1"), member(broker, "two", "$share/g/t/2")
    source = sender(broker)
    send(source, 2, "t/1")
    send(source, 2, "t/2", first=2)
    assert (numbers(one.messages()), numbers(two.messages())) == ([0, 1], [2, 3])


def test_a_group_begins_where_it_is_made_and_goes_on_where_it_was() -> None:
    broker = Broker()
    source = sender(broker)
    send(source, 3)
    client = member(broker, "m")
    assert client.messages() == []
    client.leave()
    send(source, 3, first=3)
    broker.kill()
    assert numbers(member(broker, "m").messages()) == [3, 4, 5]


def test_a_kept_session_is_still_a_member_when_it_returns() -> None:
    broker = Broker()
    member(broker, "kept", expiry_s=1000).leave()
    send(sender(broker), 3)
    broker.kill()
    client = broker.client(5)
    assert client.connect("kept", clean=False, expiry_s=1000).present
    assert numbers(client.messages()) == [0, 1, 2]


def test_a_filter_that_begins_with_a_wildcard_follows_topics_that_come() -> None:
    broker = Broker()
    source = sender(broker)
    send(source, 1, "old/x")
    client = member(broker, "m", "$share/g/+/x")
    send(source, 1, "old/x", first=1)
    send(source, 1, "new/x", first=2)
    send(source, 1, "new/y", first=3)
    send(source, 1, "$dollar/x", first=4)
    assert numbers(client.messages()) == [1, 2]


def test_a_topic_that_does_not_exist_yet_is_followed_from_its_first_message() -> None:
    broker = Broker()
    client = member(broker, "m", "$share/g/later/#")
    send(sender(broker), 3, "later/x")
    assert numbers(client.messages()) == [0, 1, 2]


def test_no_latest_value_on_subscribing() -> None:
    broker = Broker()
    sender(broker).publish("t/x", b"1", retain=True)
    assert member(broker, "m").messages() == []


def test_unsubscribing_leaves_the_group() -> None:
    broker = Broker()
    client, other = member(broker, "m"), member(broker, "o")
    client.put(Unsubscribe(9, ["$share/g/t/#", "$share/g/t/#", "t/#"]))
    (answer,) = client.take()
    assert isinstance(answer, Suback)
    assert list(answer.codes) == [0, 0x11, 0x11]
    send(sender(broker), 4)
    assert (len(client.messages()), len(other.messages())) == (0, 4)


def test_a_member_gets_the_message_also_by_its_own_filter() -> None:
    broker = Broker()
    client = member(broker, "m")
    assert client.subscribe("t/#", 1) == 1
    send(sender(broker), 2)
    assert numbers(client.messages()) == [0, 0, 1, 1]


NO_NAMES = ["$share/g", "$share/g/", "$share//t", "$share/", "$share/a+b/t", "$share/g/t/#/x", "$share/ä/t"]


@pytest.mark.parametrize("pattern", NO_NAMES)
def test_names_that_are_none_are_refused(pattern: str) -> None:
    client = Broker().client(5)
    client.connect("c")
    assert client.subscribe(pattern, 1) == 0x8F


def test_no_local_breaks_the_protocol() -> None:
    client = Broker().client(5)
    client.connect("c")
    client.send(bytes.fromhex("821200070000") + b"\x0c$share/g/t/#" + b"\x05")
    (goodbye,) = client.take()
    assert isinstance(goodbye, Disconnect)
    assert goodbye.code == 0x82


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("taken", [False, True])
def test_exactly_once_stays_with_a_session_that_is_kept(kill: bool, taken: bool) -> None:
    broker = Broker()
    client = member(broker, "kept", qos=2, expiry_s=1000)
    send(sender(broker), 3, qos=2)
    got = client.messages(answer=False)
    assert numbers(got) == [0, 1, 2]
    if taken:
        client.put(*(Ack(5, packet.packet_id) for packet in got))
        assert all(isinstance(packet, Ack) and packet.kind == 6 for packet in client.take())
    if kill:
        broker.kill()
    else:
        client.drop()
    other = member(broker, "other", qos=2)
    broker.run(120_000)
    assert other.messages() == []
    other.leave()
    client = broker.client(5)
    assert client.connect("kept", clean=False, expiry_s=1000).present
    again: list[Packet] = client.take()
    if taken:
        assert {packet.packet_id for packet in again if isinstance(packet, Ack)} == {packet.packet_id for packet in got}
    else:
        assert numbers([packet for packet in again if isinstance(packet, Publish)]) == [0, 1, 2]
        assert all(packet.dup for packet in again if isinstance(packet, Publish))


@pytest.mark.parametrize("taken", [False, True])
def test_exactly_once_of_a_session_that_ends_goes_to_nobody_else(taken: bool) -> None:
    broker = Broker()
    client = member(broker, "brief", qos=2)
    send(sender(broker), 1, qos=2)
    (message,) = client.messages(answer=False)
    if taken:
        client.put(Ack(5, message.packet_id))
    client.drop()
    broker.run()
    assert member(broker, "other", qos=2).messages() == []
    broker.run(120_000)
    letters = broker.store.metadata.topic("%DLQ%g")
    assert (letters is None) is taken


def test_attempts_are_counted_and_end_in_the_dead_letter_topic() -> None:
    broker = Broker()
    broker.publish("t", b"before")
    member(broker, "m").leave()
    send(sender(broker), 1)
    for _ in range(17):
        client = member(broker, "m")
        assert len(client.messages(answer=False)) == 1
        client.drop()
    assert member(broker, "m").messages() == []
    assert broker.store.metadata.topic("%DLQ%g") is not None


def test_a_group_goes_on_when_its_receives_wait_for_later_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read is taken to fill its turn: the connection that a group receives by is told when reading goes on."""
    monkeypatch.setattr(read_turns, "READ_BYTES", 1)
    broker = Broker()
    first = member(broker, "first")
    send(sender(broker), 100)
    broker.run(500)
    assert sorted(numbers(first.messages())) == list(range(100))
