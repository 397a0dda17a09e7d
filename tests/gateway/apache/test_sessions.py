"""MQTT sessions over the queues of brokers whose answers come late: what comes meanwhile is delivered, and nothing older."""

from __future__ import annotations

import pytest

from protocols.mqtt.connect import Disconnect
from protocols.mqtt.property import NONE, PUBACK, RECEIVE_MAXIMUM
from protocols.mqtt.publish import Ack
from protocols.mqtt.subscribe import Suback, Subscribe
from protocols.remoting import codes
from tests.gateway.apache.mqtt_stage import ClusterGateway
from tests.protocols.mqtt.stage import Client, back, bodies, with_number

HOUR_MS = 3_600_000


@pytest.fixture
def gateway() -> ClusterGateway:
    return ClusterGateway()


def subscriber(gateway: ClusterGateway, pattern: str = "T/#", qos: int = 1) -> Client:
    """A client with a session that outlives its connection."""
    client = gateway.client()
    client.connect("away", clean=False)
    assert client.subscribe(pattern, qos) == qos
    return client


def test_what_comes_while_a_broker_tells_the_end_of_a_queue_waits_for_who_has_left(gateway: ClusterGateway) -> None:
    """The session is in memory still when the client is back, as while an append of it is under way."""
    client = subscriber(gateway)
    gateway.queues["broker-a"].put(0, b"first")
    gateway.run()
    assert bodies(client.messages()) == [b"first"]
    gateway.run(1_000)
    gateway.disk.hold_syncs = True
    gateway.queues["broker-a"].slow_ms = {codes.GET_MIN_OFFSET: [20]}
    client.put(Disconnect(0, NONE), wait=False)
    gateway.queues["broker-a"].put(0, b"between")
    gateway.run()
    gateway.disk.hold_syncs = False
    gateway.disk.release()
    assert bodies(back(gateway).messages()) == [b"between"]


@pytest.mark.parametrize("kill", [False, True])
def test_a_message_after_suback_is_delivered_however_late_brokers_answer(gateway: ClusterGateway, kill: bool) -> None:
    queues = gateway.queues["broker-a"]
    queues.put(0, b"before")
    gateway.run(HOUR_MS)
    client = gateway.client()
    client.connect("away", clean=False)
    queues.slow_ms = {codes.GET_MIN_OFFSET: [40], codes.PULL: [300]}
    client.put(Subscribe(7, [("T/#", 1)], NONE), wait=False)
    gateway.run(20)
    assert [packet for packet in client.take() if isinstance(packet, Suback)], "it does not wait for the end of the queues"
    queues.put(0, b"after")
    gateway.run(100)
    if kill:
        gateway.kill()
        client = back(gateway)
    gateway.run(1_000)
    assert bodies(client.messages()) == [b"after"]


@pytest.mark.parametrize("kill", [False, True])
def test_what_was_offered_is_not_read_again(gateway: ClusterGateway, kill: bool) -> None:
    """Positions are stored when the client leaves, without a question to a broker."""
    client = subscriber(gateway, "T/of/others")
    gateway.queues["broker-a"].put(0, *[b"no match"] * 500)
    gateway.run()
    client.leave()
    if kill:
        gateway.kill()
    server = gateway.servers["broker-a"]
    server.requests.clear()
    back(gateway)
    gateway.run(1_000)
    reads = [int((frame.fields() or {})["queueOffset"]) for frame in server.requests if frame.code == codes.PULL]
    assert reads
    assert min(reads) == 500


@pytest.mark.parametrize("kill", [False, True])
def test_a_broker_that_is_away_at_the_subscription_loses_nothing_of_what_others_send_meanwhile(
    gateway: ClusterGateway, kill: bool
) -> None:
    queues, server = gateway.queues["broker-a"], gateway.servers["broker-a"]
    queues.put(0, b"before")
    gateway.run(HOUR_MS)
    server.stop()
    client = subscriber(gateway)
    gateway.run(60_000)
    queues.put(0, b"meanwhile")
    if kill:
        gateway.kill()
    server.up = True
    gateway.run(5_000)
    if kill:
        client = back(gateway)
    assert bodies(client.messages()) == [b"meanwhile"]
    gateway.run(60_000)
    client.leave()
    assert back(gateway).messages() == []


def test_a_session_is_given_what_waits_at_other_brokers_while_one_is_away(gateway: ClusterGateway) -> None:
    subscriber(gateway).leave()
    for queues in gateway.queues.values():
        queues.put(0, b"waits")
    gateway.servers["broker-a"].stop()
    client = back(gateway)
    gateway.run(100)
    assert bodies(client.messages()) == [b"waits"]
    gateway.queues["broker-b"].put(0, b"new")
    gateway.run(100)
    assert bodies(client.messages()) == [b"new"]
    gateway.servers["broker-a"].up = True
    gateway.run(3_000)
    assert bodies(client.messages()) == [b"waits"]


@pytest.mark.parametrize("live", [False, True])
def test_a_topic_that_the_name_server_tells_later_is_read_from_where_the_session_was(
    gateway: ClusterGateway, live: bool
) -> None:
    """As after a power failure of all: the gateway is there before the brokers have registered."""
    client = subscriber(gateway)
    gateway.queues["broker-a"].put(0, b"first")
    gateway.run()
    assert bodies(client.messages()) == [b"first"]
    client.leave()
    gateway.queues["broker-a"].put(0, b"waits")
    route = gateway.topics.pop("T")
    gateway.kill()
    client = back(gateway)
    gateway.run(2_000)
    gateway.topics["T"] = route
    if live:
        subscriber_of_others = gateway.client()
        subscriber_of_others.connect("another")
        subscriber_of_others.subscribe("T/#", 1)
        gateway.queues["broker-a"].put(0, b"new")
    gateway.run(30_000)
    assert bodies(client.messages()) == [b"waits", b"new"][: 1 + live]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_gateway_that_is_killed_has_no_position_behind_what_was_delivered(gateway: ClusterGateway, qos: int) -> None:
    """While a client does not acknowledge, its window fills, and the queue lags."""
    client = gateway.client(5)
    client.connect("away", clean=True, expiry_s=1_000, properties=NONE)
    assert client.subscribe("T/#", qos) == qos
    numbers = [b"%d" % number for number in range(60)]
    for number in numbers:
        gateway.queues["broker-a"].put(0, number)
        gateway.run(7)
    gateway.kill()
    gateway.queues["broker-a"].put(0, b"after")
    assert bodies(back(gateway, 5).messages()) == [*numbers, b"after"]


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("pattern", ["T/#", "+", "#"])
def test_a_session_that_is_resumed_gets_what_waits_and_what_is_new(gateway: ClusterGateway, pattern: str, kill: bool) -> None:
    subscriber(gateway, pattern).leave()
    gateway.run(60_000)
    gateway.queues["broker-a"].put(0, b"waits")
    if kill:
        gateway.kill()
    client = back(gateway)
    gateway.run(1_000)
    assert bodies(client.messages()) == [b"waits"]
    for queues in gateway.queues.values():
        queues.put(0, b"new")
    gateway.run(1_000)
    assert bodies(client.messages()) == [b"new", b"new"]


@pytest.mark.parametrize("pattern", ["late/#", "+"])
def test_a_topic_that_came_while_the_session_was_away_is_read_from_its_first_message(
    gateway: ClusterGateway, pattern: str
) -> None:
    subscriber(gateway, pattern).leave()
    gateway.run(60_000)
    gateway.topics["late"] = {"broker-b": (2, 2, 6)}
    gateway.queues["broker-b"].put(1, b"first")
    client = back(gateway)
    gateway.queues["broker-b"].put(1, b"second")
    gateway.run(30_000)
    assert bodies(client.messages()) == [b"first", b"second"]


@pytest.mark.parametrize("indexed", [False, True])
def test_a_replica_that_lacks_the_newest_messages_loses_none_that_come_later(gateway: ClusterGateway, indexed: bool) -> None:
    """The position of the session is behind the end of the queue then.

    indexed   another session is subscribed, for which messages are followed: they are indexed for those that are away
    """
    queues = gateway.queues["broker-a"]
    if indexed:
        another = gateway.client()
        another.connect("another")
        another.subscribe("T/#", 0)
    client = subscriber(gateway)
    queues.put(0, *[b"%d" % number for number in range(5)])
    gateway.run()
    assert len(client.messages()) == 5
    gateway.run(60_000)
    client.leave()
    queues.put(0, b"of the dead master")
    gateway.run()
    queues.records[0] = queues.records[0][:3]
    gateway.run(60_000)
    queues.put(0, b"after")
    client = back(gateway)
    gateway.run(1_000)
    assert bodies(client.messages()) == [b"after"]
    queues.put(0, b"new")
    gateway.run(1_000)
    assert bodies(client.messages()) == [b"new"]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("pattern", ["T/#", "#"])
def test_who_is_connected_gets_what_is_new_after_a_broker_has_lost_its_newest_messages(
    gateway: ClusterGateway, pattern: str, qos: int
) -> None:
    """A replica that had not copied all became the master: offsets that were told belong to other messages now."""
    queues = gateway.queues["broker-a"]
    client = subscriber(gateway, pattern, qos)
    queues.put(0, b"first")
    gateway.run(60_000)
    queues.put(0, *[b"will be lost"] * 3)
    gateway.run()
    assert len(client.messages()) == 4
    gateway.run(15_000)
    del queues.records[0][1:]
    queues.put(0, b"new")
    gateway.run(2_000)
    queues.put(0, b"newer")
    gateway.run(2_000)
    assert bodies(client.messages()) == [b"new", b"newer"]
    client.leave()
    queues.put(0, b"newest")
    if qos:
        assert bodies(back(gateway).messages()) == [b"newest"]


@pytest.mark.parametrize("kept", [3, 10])
def test_a_session_that_lags_where_a_broker_has_lost_messages_gets_what_is_new(gateway: ClusterGateway, kept: int) -> None:
    """What has arrived behind its lag is not there any more: it is not waited for.

    kept   messages that the broker still has; the client has been sent five of twenty
    """
    queues, server = gateway.queues["broker-a"], gateway.servers["broker-a"]
    client = gateway.client(5)
    client.connect("away", clean=False, properties=with_number(RECEIVE_MAXIMUM, 5))
    assert client.subscribe("T/#", 1) == 1
    for number in range(20):
        gateway.run(60_000 if number == 8 else 7)
        queues.put(0, b"%d" % number)
    sent = client.messages(answer=False)
    assert len(sent) == 5
    gateway.run(15_000)
    del queues.records[0][kept:]
    queues.put(0)
    gateway.run(2_000)
    for message in sent:
        client.put(Ack(PUBACK, message.packet_id))
    got: list[bytes] = []
    for _ in range(5):
        gateway.run(500)
        got += bodies(client.messages())
    assert got == [b"%d" % number for number in range(5, kept)]
    server.requests.clear()
    gateway.run(1_000)
    assert len([frame for frame in server.requests if frame.code == codes.PULL]) < 10
    queues.put(0, b"new")
    gateway.run(1_000)
    assert bodies(client.messages()) == [b"new"]
