"""The name server of a whole node: routes as clients poll them, leases of brokers that register, write permission."""

from __future__ import annotations

import json
from typing import Any

from protocols.remoting import codes
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC = "sim"
LEASE_MS = 120_000


def register(tool: Tool, broker: str = "b-x", topic: str = "theirs") -> None:
    """Register a broker of Apache RocketMQ."""
    version = {"counter": 3, "stateVersion": 1, "timestamp": 1_700_000_000_000}
    config = {"perm": 6, "readQueueNums": 8, "writeQueueNums": 4, "topicName": topic, "topicSysFlag": 0}
    wrapper = {"dataVersion": version, "topicConfigTable": {topic: config, broker: {**config, "topicName": broker}}}
    fields = {
        "brokerName": broker, "brokerAddr": "10.0.0.7:10911", "clusterName": "DefaultCluster", "haServerAddr": "10.0.0.7:10912",
        "brokerId": "0", "compressed": "false", "bodyCrc32": "0",
    }  # fmt: skip
    tool.done(codes.REGISTER_BROKER, fields, {"filterServerList": [], "topicConfigSerializeWrapper": wrapper})


def renew(tool: Tool, broker: str = "b-x") -> None:
    """Renew the broker's registration."""
    fields = {"brokerName": broker, "brokerAddr": "10.0.0.7:10911", "clusterName": "DefaultCluster"}
    tool.done(codes.BROKER_HEARTBEAT, fields)


def brokers(tool: Tool, topic: str) -> list[str]:
    """Names of the brokers in a topic's route."""
    found: Any = tool.route(topic)
    return [] if found is None else sorted(each["brokerName"] for each in found["brokerDatas"])


def perms(tool: Tool, topic: str) -> list[int]:
    """Permissions of a topic's queues."""
    found: Any = tool.route(topic)
    return [each["perm"] for each in found["queueDatas"]]


def test_a_topic_has_a_route_as_soon_as_it_is_there_and_after_a_kill() -> None:
    world = World(101)
    world.start()
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    assert tool.route(TOPIC) is None
    sender.send(TOPIC, b"first")
    for _ in range(3):
        found: Any = tool.route(TOPIC)
        assert [each["brokerAddrs"] for each in found["brokerDatas"]] == [{"0": "10.0.0.1:10911"}]
        assert [(each["readQueueNums"], each["writeQueueNums"]) for each in found["queueDatas"]] == [(4, 4)]
        world.again(power=True)
        world.clock.run_for(30_000)


def test_a_broker_that_falls_silent_for_two_minutes_is_no_longer_in_routes() -> None:
    world = World(102)
    world.start()
    tool = Tool(world, "tool")
    register(tool)
    assert brokers(tool, "theirs") == ["b-x"]
    for _ in range(10):
        world.clock.run_for(LEASE_MS - 10_000)
        renew(tool)
        assert brokers(tool, "theirs") == ["b-x"], "each word is good for two minutes"
    world.clock.run_for(LEASE_MS - 1_000)
    assert brokers(tool, "theirs") == ["b-x"]
    world.clock.run_for(7_000)
    assert brokers(tool, "theirs") == []
    answer = tool.call(codes.GET_CLUSTER)
    assert sorted(json.loads(answer.body)["brokerAddrTable"]) == ["broker-a"]
    register(tool)
    world.again()
    assert brokers(tool, "theirs") == [], "registrations are not kept: brokers say them again within 30 s"
    register(tool)
    assert brokers(tool, "theirs") == ["b-x"]


def test_write_permission_wiped_and_added() -> None:
    world = World(103)
    world.start()
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    sender.send(TOPIC, b"one")
    register(tool)
    assert (perms(tool, TOPIC), perms(tool, "theirs")) == ([6], [6])
    for name in ("broker-a", "b-x"):
        tool.done(codes.WIPE_WRITE, {"brokerName": name})
    assert (perms(tool, TOPIC), perms(tool, "theirs")) == ([4], [4])
    sender.send(TOPIC, b"who sends all the same is served")
    renew(tool)
    assert perms(tool, "theirs") == [4]
    for name in ("broker-a", "b-x"):
        tool.done(codes.ADD_WRITE, {"brokerName": name})
    assert (perms(tool, TOPIC), perms(tool, "theirs")) == ([6], [6])
    tool.done(codes.WIPE_WRITE, {"brokerName": "broker-a"})
    world.again()
    assert perms(tool, TOPIC) == [6], "until the next start"
