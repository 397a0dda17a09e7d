"""Administration of a whole node: acknowledged changes of topics, groups and settings are in force, under seeds and faults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocols.remoting import codes
from tests.simulation.caller import bodies
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

POWER = pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])


class ExpectedConfiguration:
    """The acknowledged configuration, compared with the configuration that the node reports."""

    def __init__(self, world: World) -> None:
        self.world, self.tool = world, Tool(world, "tool")
        self.topics: dict[str, int] = {}
        self.groups: dict[str, int] = {}
        self.settings: dict[str, str] = {}

    def change(self, name: str) -> None:
        """Make one change of a random kind."""
        chance, tool = self.world.chance, self.tool
        what = chance.choice(("topic", "group", "setting", "no topic", "no group", "no setting"))
        if what == "topic":
            # Queues are only added, never removed: their messages have to be read.
            queues = max(self.topics.get(name, 1), chance.randrange(1, 9))
            tool.topic(name, queues)
            self.topics[name] = queues
        elif what == "group":
            self.groups[name] = chance.randrange(1, 17)
            tool.group(name, retryMaxTimes=self.groups[name])
        elif what == "setting":
            self.settings[name] = f"{chance.random()}"
            tool.done(codes.PUT_KV, {"namespace": "sim", "key": name, "value": self.settings[name]})
        elif what == "no topic":
            self.topics.pop(name, None)
            tool.call(codes.DELETE_TOPIC, {"topic": name})
        elif what == "no group":
            self.groups.pop(name, None)
            tool.call(codes.DELETE_GROUP, {"groupName": name, "cleanOffset": "true"})
        else:
            self.settings.pop(name, None)
            tool.call(codes.DELETE_KV, {"namespace": "sim", "key": name})

    def check(self) -> None:
        """Compare with every list that the node answers with."""
        topics = json.loads(self.tool.call(codes.GET_ALL_TOPICS).body)["topicConfigTable"]
        mine = {name: each["writeQueueNums"] for name, each in topics.items() if name.startswith("sim")}
        assert mine == self.topics
        listed = json.loads(self.tool.call(codes.GET_TOPICS).body)["topicList"]
        assert sorted(name for name in listed if name.startswith("sim")) == sorted(self.topics)
        groups = json.loads(self.tool.call(codes.GET_ALL_GROUPS).body)["subscriptionGroupTable"]
        assert {name: each["retryMaxTimes"] for name, each in groups.items() if name.startswith("sim")} == self.groups
        answer = self.tool.call(codes.LIST_KV, {"namespace": "sim"})
        assert (json.loads(answer.body)["table"] if answer.code == 0 else {}) == self.settings
        for name in (f"sim{at}" for at in range(6)):
            route: Any = self.tool.route(name)
            assert (route["queueDatas"][0]["writeQueueNums"] if route else None) == self.topics.get(name)
            found = self.tool.call(codes.GET_KV, {"namespace": "sim", "key": name})
            assert (found.fields() or {}).get("value") == self.settings.get(name)


@POWER
@pytest.mark.parametrize("seed", range(5))
def test_what_was_set_and_answered_is_in_force_and_nothing_else(seed: int, power: bool) -> None:
    world = World.started(seed)
    expected = ExpectedConfiguration(world)
    for turn in range(40):
        expected.change(f"sim{world.chance.randrange(6)}")
        if turn % 5 == 4:
            if world.chance.random() < 0.5:
                world.again(power)
            expected.check()


@POWER
def test_a_topic_that_was_deleted_takes_everything_along(power: bool) -> None:
    """A topic that is created again is empty: no old messages or positions, and none found by key, also after a kill."""
    world = World.started(291)
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    tool.topic("sim", 1)
    for number in range(3):
        sender.send("sim", b"%d" % number, 0, KEYS="k")
    consumer = Consumer(world, "c", "g", "sim")
    assert bodies(consumer.drain(0)) == ["0", "1", "2"]
    consumer.commit(0, 3)
    tool.done(codes.DELETE_TOPIC, {"topic": "sim"})
    world.again(power)
    assert consumer.pull(0, 3).code == codes.TOPIC_NOT_EXIST
    tool.topic("sim", 1)
    assert tool.by_key("sim", "k") == []
    assert consumer.position(0) <= 0
    sender.send("sim", b"new", 0, KEYS="k")
    world.again(power)
    first, end = world.bounds("sim", 0)
    assert end - first == 1
    assert bodies(consumer.drain(0, first)) == ["new"]
    assert bodies(tool.by_key("sim", "k")) == ["new"]


@POWER
def test_a_group_that_was_deleted_begins_anew(power: bool) -> None:
    world = World.started(292)
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    tool.topic("sim", 1)
    tool.group("g", retryMaxTimes=3)
    for number in range(4):
        sender.send("sim", b"%d" % number, 0)
    popper = Consumer(world, "pops", "g", "sim")
    found = popper.pop(most=3)
    assert [popper.ack(one) for one in found[:2]] == [0, 0]
    popper.hang_up()
    world.clock.run_for(600)
    tool.done(codes.DELETE_GROUP, {"groupName": "g", "cleanOffset": "true"})
    world.again(power)
    assert world.position("g", "sim", 0) == 0
    again = Consumer(world, "again", "g", "sim")
    assert [(one.body, one.record.reconsume_times) for one in again.pop()] == [(str(number), 0) for number in range(4)]


@POWER
def test_permissions_and_more_queues_hold_for_clients_at_once(power: bool) -> None:
    world = World.started(293)
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    tool.topic("sim", 1)
    sender.send("sim", b"one", 0)
    consumer = Consumer(world, "c", "g", "sim")

    def allow(perm: int, queues: int) -> None:
        tool.done(codes.UPDATE_TOPIC, {
            "topic": "sim", "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues),
            "perm": str(perm), "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        })  # fmt: skip
        world.again(power)

    allow(4, 1)
    assert sender.refused("sim", b"two") == codes.NO_PERMISSION
    assert bodies(consumer.drain(0)) == ["one"]
    allow(2, 3)
    sender.send("sim", b"three", 2)
    assert consumer.pull(0, 0).code == codes.NO_PERMISSION
    allow(6, 3)
    assert bodies(consumer.drain(2)) == ["three"]


def test_what_the_node_does_unasked_is_changed_until_its_next_start() -> None:
    world = World.started(294)
    tool, sender = Tool(world, "tool"), Sender(world, "p")

    def set_to(text: str) -> int:
        return tool.call(codes.UPDATE_BROKER_CONFIG, {}, text.encode()).code

    assert set_to("autoCreateTopicEnable=false\n") == 0
    assert b"autoCreateTopicEnable=false" in tool.call(codes.GET_BROKER_CONFIG).body
    assert sender.refused("made", b"one") == codes.TOPIC_NOT_EXIST
    assert set_to("autoCreateTopicEnable=true\nbrokerName=another\n") != 0, "all or none"
    assert sender.refused("made", b"one") == codes.TOPIC_NOT_EXIST
    for wrong in (0, 3, 7):
        assert set_to(f"brokerPermission={wrong}\n") == codes.INVALID_PARAMETER
    world.again()
    sender.send("made", b"one")
