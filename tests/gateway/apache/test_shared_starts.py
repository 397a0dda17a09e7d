"""Where groups of shared subscriptions begin at a cluster, whose brokers may not tell, and whose topics come late."""

from __future__ import annotations

import pytest

from domain.address import share_group
from protocols.mqtt.property import NONE
from protocols.mqtt.subscribe import Suback, Subscribe
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.gateway.apache.mqtt_stage import ClusterGateway
from tests.gateway.apache.scripted_cluster import Reply


@pytest.fixture
def gateway() -> ClusterGateway:
    return ClusterGateway()


def busy(_: Frame) -> Reply:
    return codes.SYSTEM_BUSY, {"a": "b"}, b"", "busy"


@pytest.mark.parametrize("telling", [0, 1])
def test_a_group_whose_positions_brokers_do_not_tell_keeps_them(gateway: ClusterGateway, telling: int) -> None:
    """What it has not received yet would be passed over."""
    for at, (name, queues) in enumerate(gateway.queues.items()):
        queues.put(0, b"0", b"1", b"2")
        queues.groups["g", "T", 0] = 1
        if at >= telling:
            gateway.servers[name].on(codes.QUERY_OFFSET, busy)
    client = gateway.client()
    client.connect("member")
    assert client.subscribe("$share/g/T/#", 1) == (1 if telling else 0x80)
    assert [queues.groups["g", "T", 0] for queues in gateway.queues.values()] == [1, 1]


def test_a_new_group_begins_at_the_end_of_the_queues_of_brokers_that_tell(gateway: ClusterGateway) -> None:
    for queues in gateway.queues.values():
        queues.put(0, b"0", b"1", b"2")
    gateway.servers["broker-b"].on(codes.QUERY_OFFSET, busy)
    client = gateway.client()
    client.connect("member")
    assert client.subscribe("$share/g/T/#", 1) == 1
    assert [queues.groups for queues in gateway.queues.values()] == [{("g", "T", 0): 3}, {}]


def test_a_filter_begins_where_the_group_of_its_name_is(gateway: ClusterGateway) -> None:
    for queues in gateway.queues.values():
        queues.put(0, b"0", b"1", b"2")
    gateway.queues["broker-a"].groups["g", "T", 0] = 1
    client = gateway.client()
    client.connect("member")
    assert client.subscribe("$share/g/T/+/x", 1) == 1
    own = (share_group("g", "T/+/x"), "T", 0)
    assert [queues.groups.get(own) for queues in gateway.queues.values()] == [1, None], "as that group would"


def test_a_second_first_member_does_not_move_where_the_group_begins(gateway: ClusterGateway) -> None:
    """Both find no position; between their answers a message comes, which is for the first of them."""
    queues = gateway.queues["broker-a"]
    one, another = gateway.client(), gateway.client()
    one.connect("one")
    another.connect("another")
    queues.slow_ms = {codes.GET_MIN_OFFSET: [0, 60]}
    for client in (one, another):
        client.put(Subscribe(7, [("$share/g/T/#", 1)], NONE), wait=False)
    while not any(isinstance(packet, Suback) for packet in one.take()):
        gateway.run(1)
    queues.put(0, b"for the first")
    gateway.run(500)
    assert queues.groups["g", "T", 0] == 0


@pytest.mark.parametrize("pattern", ["$share/g/late/#", "$share/g/+"])
def test_a_topic_that_comes_later_is_received_from(gateway: ClusterGateway, pattern: str) -> None:
    client = gateway.client()
    client.connect("member")
    assert client.subscribe(pattern, 1) == 1
    gateway.run(60_000)
    gateway.topics["late"] = {"broker-b": (1, 1, 6)}
    gateway.run(15_000)
    pops = [frame.fields() or {} for frame in gateway.servers["broker-b"].requests if frame.code == codes.POP]
    assert [each for each in pops if each["topic"] == "late"]
    assert {each["initMode"] for each in pops if each["topic"] == "late"} == {"0"}
