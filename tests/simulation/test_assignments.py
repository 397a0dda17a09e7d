"""Queue assignment by the node (code 400) while members come and go: every queue has a member, and modes are durable.

When a topic is on several nodes that are registered with each other, all of them give the same assignment.
"""

from __future__ import annotations

import json

import pytest

from gateway.node.settings import Config
from protocols.remoting import codes
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP, QUEUES = "sim", "workers", 8
SIZES = (("b-one", QUEUES), ("b-two", 3))
PLACES = [(broker, queue) for broker, queues in SIZES for queue in range(queues)]
POWER = pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])


def assigned(member: Consumer, strategy: str = "AVG") -> tuple[str, list[int]]:
    """The assignment of one member: the mode, and queues, -1 for any."""
    mode, found = everywhere(member, strategy)
    return mode, [queue for _, queue in found]


def everywhere(member: Consumer, strategy: str = "AVG") -> tuple[str, list[tuple[str, int]]]:
    """The assignment of one member: the mode, and (broker, queue) pairs."""
    asked = {
        "topic": TOPIC, "consumerGroup": GROUP, "clientId": member.name, "messageModel": member.model, "strategyName": strategy,
    }  # fmt: skip
    answer = member.call(codes.QUERY_ASSIGNMENT, {}, json.dumps(asked).encode())
    assert answer.code == 0, answer.remark
    found = json.loads(answer.body)["messageQueueAssignments"]
    modes = {each["mode"] for each in found}
    assert len(modes) <= 1
    return next(iter(modes), ""), [(each["messageQueue"]["brokerName"], each["messageQueue"]["queueId"]) for each in found]


def up(seed: int) -> tuple[World, Tool]:
    """A node with the topic and the group."""
    world = World.started(seed)
    tool = Tool(world, "tool")
    tool.topic(TOPIC, QUEUES)
    tool.group(GROUP)
    return world, tool


@POWER
def test_the_mode_of_a_group_is_kept_and_pop_members_share_neighbours(power: bool) -> None:
    world, tool = up(301)
    members = [Consumer(world, f"m{at}", GROUP, TOPIC) for at in range(4)]
    world.clock.run_for(200)

    def set_mode(mode: str, shared: int) -> None:
        body = {"topic": TOPIC, "consumerGroup": GROUP, "mode": mode, "popShareQueueNum": shared}
        tool.done(codes.SET_REQUEST_MODE, {}, body)
        world.again(power)

    set_mode("POP", 0)
    assert [assigned(member) for member in members] == [("POP", [-1])] * 4
    set_mode("POP", 1)
    shares = [assigned(member)[1] for member in members]
    assert [len(share) for share in shares] == [4] * 4
    assert all(sum(queue in share for share in shares) == 2 for queue in range(QUEUES))
    members[0].hang_up()
    world.clock.run_for(200)
    left = [assigned(member)[1] for member in members[1:]]
    assert {queue for share in left for queue in share} == set(range(QUEUES)), "who has gone leaves no queue behind"
    set_mode("PULL", 0)
    assert sorted(queue for member in members[1:] for queue in assigned(member)[1]) == list(range(QUEUES))


def test_members_that_take_what_they_are_given_have_everything_once() -> None:
    """POP members of one group on any queue, one of which leaves, receive every message once."""
    world, tool = up(302)
    sender = Sender(world, "p")
    tool.done(codes.SET_REQUEST_MODE, {}, {"topic": TOPIC, "consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 0})
    members = [Consumer(world, f"m{at}", GROUP, TOPIC) for at in range(3)]
    for number in range(60):
        sender.send(TOPIC, b"%d" % number)
    got: list[str] = []
    turns = 0
    while len(got) < 60 and turns < 60:
        turns += 1
        member = members[turns % len(members)]
        found = member.pop(most=4, queue=assigned(member)[1][0])
        if turns == 5:
            members.remove(member)
            member.hang_up()
            world.clock.run_for(10_500)
            continue
        got += [one.body for one in found]
        assert [member.ack(one) for one in found] == [0] * len(found)
    assert sorted(got, key=int) == [str(number) for number in range(60)]


class Cluster:
    """Two nodes with the topic, of 8 and of 3 queues, whose brokers are registered at each other's name servers."""

    def __init__(self, seed: int) -> None:
        self.nodes = [World(seed + at, Config(broker=broker)) for at, (broker, _) in enumerate(SIZES)]
        self.chance = self.nodes[0].chance
        self.tools: list[Tool] = []
        self.members: dict[str, list[Consumer]] = {}
        for node, (_, queues) in zip(self.nodes, SIZES, strict=True):
            node.start()
            self.tools.append(Tool(node, "tool"))
            self.tools[-1].topic(TOPIC, queues)
        self.register()

    def register(self) -> None:
        """Register the brokers at each other's name servers: a restarted node has lost these registrations."""
        for tool, (broker, queues) in zip(self.tools, reversed(SIZES), strict=True):
            config = {"perm": 6, "readQueueNums": queues, "writeQueueNums": queues, "topicName": TOPIC, "topicSysFlag": 0}
            version = {"counter": 1, "stateVersion": 1, "timestamp": 1_700_000_000_000}
            fields = {
                "brokerName": broker, "brokerAddr": f"{broker}:10911", "clusterName": "DefaultCluster", "brokerId": "0",
                "haServerAddr": f"{broker}:10912", "compressed": "false", "bodyCrc32": "0",
            }  # fmt: skip
            wrapper = {"dataVersion": version, "topicConfigTable": {TOPIC: config, broker: {**config, "topicName": broker}}}
            tool.done(codes.REGISTER_BROKER, fields, {"filterServerList": [], "topicConfigSerializeWrapper": wrapper})

    def join(self, name: str) -> None:
        """Add a member, which sends heartbeats to every broker of its topics."""
        self.members[name] = [Consumer(node, name, GROUP, TOPIC) for node in self.nodes]

    def leave(self, name: str) -> None:
        for member in self.members.pop(name):
            member.hang_up()

    def run(self, ms: float) -> None:
        for node in self.nodes:
            node.clock.run_for(ms)

    def mode(self, mode: str, shared: int = 0) -> None:
        """Set the mode on every broker, as mqadmin does."""
        for tool in self.tools:
            tool.done(
                codes.SET_REQUEST_MODE, {}, {"topic": TOPIC, "consumerGroup": GROUP, "mode": mode, "popShareQueueNum": shared}
            )

    def shares(self, strategy: str = "AVG") -> list[list[tuple[str, int]]]:
        """The assignments of all members. Fails when the nodes give different ones."""
        out = []
        for asked in self.members.values():
            first, *others = (everywhere(member, strategy) for member in asked)
            assert all(other == first for other in others), "the nodes do not agree"
            out.append(first[1])
        return out


@POWER
@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE"])
@pytest.mark.parametrize("seed", [410, 420])
def test_every_node_shares_out_the_queues_of_all(seed: int, strategy: str, power: bool) -> None:
    cluster = Cluster(seed)
    for turn in range(20):
        if cluster.members and cluster.chance.random() < 0.4:
            cluster.leave(cluster.chance.choice(sorted(cluster.members)))
        else:
            cluster.join(f"m{turn}")
        if turn % 6 == 5:
            cluster.nodes[turn % 2].again(power)
            cluster.register()
        cluster.run(400)
        shares = cluster.shares(strategy)
        if shares:
            assert sorted(queue for share in shares for queue in share) == PLACES
            sizes = [len(share) for share in shares]
            assert max(sizes) - min(sizes) <= 1


def test_pop_members_have_every_node_or_their_neighbours_queues_of_it() -> None:
    cluster = Cluster(430)
    for at in range(4):
        cluster.join(f"m{at}")
    cluster.run(200)
    cluster.mode("POP")
    assert cluster.shares() == [[("b-one", -1), ("b-two", -1)]] * 4
    cluster.mode("POP", 1)
    shares = cluster.shares()
    assert all(sum(queue in share for share in shares) == 2 for queue in PLACES)
    for at in range(4, 13):
        cluster.join(f"m{at}")
    cluster.run(200)
    crowded = cluster.shares()
    assert [len(share) for share in crowded] == [1] * 13, "more members than queues have one each"
    assert {queue for share in crowded for queue in share} == set(PLACES)


def test_a_node_knows_of_a_topic_that_lives_on_another_one_only() -> None:
    cluster = Cluster(440)
    cluster.join("m")
    cluster.run(200)
    cluster.tools[0].done(codes.DELETE_TOPIC, {"topic": TOPIC})
    assert everywhere(cluster.members["m"][0]) == ("PULL", [("b-two", queue) for queue in range(3)])
    cluster.mode("POP")
    assert everywhere(cluster.members["m"][0]) == ("POP", [("b-two", -1)])
    cluster.run(126_000)
    answer = cluster.members["m"][0].call(
        codes.QUERY_ASSIGNMENT, {}, json.dumps({"topic": TOPIC, "consumerGroup": GROUP, "clientId": "m"}).encode()
    )
    assert (answer.code, answer.body) == (0, b"{}"), "its broker has not been heard of for two minutes"
