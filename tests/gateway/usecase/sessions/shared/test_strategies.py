"""Strategies of shared subscriptions, members that cannot take a message, and members as tools see them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.admin.client import Connections, QueryConnections
from domain.client.membership import Heartbeat, Members, MembersChanged, Membership, QueryMembers, Subscription
from domain.command import Command, Receive
from domain.event import Event, Leased, Received
from domain.store.store_request import ReadRequest
from domain.topic.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.topics_and_groups import policy
from protocols.mqtt import property as props
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Unsubscribe
from tests.connection_driver import RecordingDriver
from tests.gateway.usecase.sessions.shared.test_shared_subscriptions import member, numbers, send, sender
from tests.protocols.mqtt.stage import PEER, Broker, Client, bodies, with_number


def notify(broker: Broker, name: str, group: str = "g") -> None:
    """Set the strategy, as `updateSubGroup --attributes +share.strategy=name` does."""
    known = broker.store.metadata.group(group) or Group(group)
    attributes = {policy.STRATEGY: name}
    broker.store.metadata.put_group(replace(known, attributes=attributes), lambda _: None)
    broker.run()


def keyed(broker: Broker, key: str, number: int) -> None:
    broker.publish("t", b"%s-%d" % (key.encode(), number), f"__SHARDINGKEY\x01{key}\x02".encode())


def small(broker: Broker, client_id: str, packet_bytes: int, qos: int = 1) -> Client:
    client = broker.client(5)
    client.connect(client_id, properties=with_number(props.MAXIMUM_PACKET_SIZE, packet_bytes))
    assert client.subscribe("$share/g/t/#", qos) == qos
    return client


class RemotingConsumer(RecordingDriver):
    """A consumer of another protocol."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.client_connection = ClientConnection("remoting", self)

    def ask(self, command: Command) -> Event:
        self.recorded.clear()
        self.broker.handler.handle(self.client_connection, command)
        self.broker.run()
        return self.recorded[0]

    def leased(self) -> list[Leased]:
        event = self.ask(Receive(1, "g", "t", 32, 30_000))
        assert isinstance(event, Received)
        return event.messages


def test_a_change_counts_from_the_next_message_on() -> None:
    broker = Broker()
    quick, slow = member(broker, "quick"), member(broker, "slow")
    source = sender(broker)
    send(source, 10)
    assert len(slow.messages(answer=False)) == 5
    assert len(quick.messages()) == 5
    notify(broker, policy.ROUND_ROBIN)
    for number in range(10, 14):
        send(source, 1, first=number)
        quick.messages()
    assert len(slow.messages(answer=False)) == 2


def test_the_policy_is_for_groups_that_say_nothing() -> None:
    broker = Broker()
    broker.policy.share_strategy = policy.ROUND_ROBIN
    members = [member(broker, name) for name in "ab"]
    members[0].messages(answer=False)
    for number in range(6):
        send(sender(broker), 1, first=number)
        members[1].messages()
    assert len(members[0].messages(answer=False)) == 3


@pytest.mark.parametrize("window", [1, 3, 20])
def test_sticky_keeps_the_order_of_a_key_when_its_member_is_lost(window: int) -> None:
    broker = Broker()
    broker.publish("t", b"first")
    notify(broker, policy.STICKY)
    first = broker.client(5)
    first.connect("first", properties=with_number(props.RECEIVE_MAXIMUM, window))
    assert first.subscribe("$share/g/t/#", 1) == 1
    keyed(broker, "k", 0)
    second = member(broker, "second")
    for number in range(1, 12):
        keyed(broker, "k", number)
        keyed(broker, "other", number)
    assert len(first.messages(answer=False)) == min(window, 12)
    others = bodies(second.messages())
    assert others == [b"other-%d" % number for number in range(1, 12)], "a member without room holds nobody else up"
    first.drop()
    keyed(broker, "k", 12)
    assert bodies(second.messages()) == [b"k-%d" % number for number in range(13)]


def test_what_waits_for_a_full_member_is_bounded() -> None:
    broker = Broker()
    broker.publish("t", b"first")
    notify(broker, policy.STICKY)
    stuck = broker.client(5)
    stuck.connect("stuck", properties=with_number(props.RECEIVE_MAXIMUM, 1))
    assert stuck.subscribe("$share/g/t/#", 1) == 1
    keyed(broker, "k", 0)
    idle = member(broker, "idle")
    for number in range(1, 200):
        keyed(broker, "k", number)
    assert idle.messages() == []
    left = RemotingConsumer(broker).leased()
    assert len(left) == 32, "the rest is there for members of other protocols"


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_too_large_for_one_member_goes_to_another(qos: int) -> None:
    broker = Broker()
    tight = small(broker, "tight", 600, qos)
    wide = member(broker, "wide", qos=qos)
    source = sender(broker)
    for number in range(10):
        source.publish("t/x", b"%d" % number + b"." * (100 if number % 2 else 1_000), qos, packet_id=number + 1)
        if qos == 2:
            source.put(Ack(6, number + 1))
    got = bodies(tight.messages()), bodies(wide.messages())
    assert sorted(int(body.rstrip(b".")) for one in got for body in one) == list(range(10))
    assert all(len(body) < 600 for body in got[0])
    assert got[0], "what it can take it does get"


def test_what_only_the_connection_knows_to_be_too_large_goes_to_another() -> None:
    broker = Broker()
    tight = small(broker, "tight", 109)
    sender(broker).publish("t/x", b"." * 100)  # 4 + 3 + 2 + 1 + 100 bytes in a packet of 5.0
    assert tight.messages() == []
    wide = member(broker, "wide")
    sender(broker).publish("t/x", b"+" * 100)
    assert [body[:1] for body in bodies(wide.messages())] == [b"+"]
    broker.run(30_000)
    assert [body[:1] for body in bodies(wide.messages())] == [b"."], "at the next attempt it was there"


def test_too_large_for_everybody_is_counted_and_ends_as_a_dead_letter() -> None:
    broker = Broker()
    notify(broker, policy.LEAST)
    known = broker.store.metadata.group("g")
    assert known is not None
    broker.store.metadata.put_group(replace(known, retry_max=2), lambda _: None)
    tight = small(broker, "tight", 200)
    send(sender(broker), 1)
    sender(broker).publish("t/x", b"." * 1_000)
    assert numbers(tight.messages()) == [0]
    for _ in range(60):
        broker.run(10_000)
    assert tight.messages() == []
    assert broker.sessions.oversize == 3
    found: list[bytes] = []
    broker.store.log.read(ReadRequest("%DLQ%g", 0, 0, 10, 1 << 20), lambda result: found.extend(result.records))  # type: ignore[union-attr]
    assert len(found) == 1


def test_members_are_in_the_registry_of_all_protocols() -> None:
    broker = Broker()
    broker.publish("t", b"first")
    consumer = RemotingConsumer(broker)
    one, two = member(broker, "one"), member(broker, "two")
    seen = consumer.ask(QueryConnections(1, "g"))
    assert isinstance(seen, Connections)
    assert [(each.client_id, each.address) for each in seen.clients] == [
        (name, f"{PEER.host}:{PEER.port}") for name in ("one", "two")
    ]
    assert [each.topic for each in seen.subscriptions] == ["t"]
    broker.run(600_000)
    members = consumer.ask(QueryMembers(2, "g"))
    assert isinstance(members, Members)
    assert members.client_ids == ["one", "two"], "they need no heartbeat"
    one.drop()
    members = consumer.ask(QueryMembers(3, "g"))
    assert isinstance(members, Members)
    assert members.client_ids == ["two"]
    two.put(Unsubscribe(9, ["$share/g/t/#"]))
    assert not isinstance(consumer.ask(QueryMembers(4, "g")), Members)


def test_the_others_hear_of_it_when_a_member_comes_and_goes() -> None:
    broker = Broker()
    consumer = RemotingConsumer(broker)
    consumer.ask(Heartbeat(1, "puller", consumers=[Membership("g", subscriptions=[Subscription("t")])]))
    consumer.recorded.clear()
    client = member(broker, "device")
    assert [event.group for event in consumer.recorded if isinstance(event, MembersChanged)] == ["g"]
    consumer.recorded.clear()
    client.leave()
    broker.run()
    assert [event.group for event in consumer.recorded if isinstance(event, MembersChanged)] == ["g"]


def test_a_group_that_a_message_names_by_mqtt() -> None:
    broker = Broker()
    notify(broker, policy.STICKY)
    members = [member(broker, name) for name in "ab"]
    source = broker.client(5)
    source.connect("source")
    for number in range(6):
        named = props.Properties()
        named.user = [("messageGroup", "engine")]
        source.put(Publish(b"t/%d" % number, b"%d" % number, 1, False, False, number + 1, named))
    found = sorted(len(each.messages()) for each in members)
    assert found == [0, 6]
