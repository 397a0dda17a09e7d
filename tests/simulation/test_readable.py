"""Read permission, removed and restored by tools (codes 353, 200 and 25), for pull, POP and gRPC, with kills."""

from __future__ import annotations

import json

import pytest

from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.simple import Receiver, said
from tests.simulation.test_names import perms
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, OTHER, GROUP = "sim", "sim-other", "readers"


def readable(tool: Tool, topic: str, wanted: str = "") -> bool:
    """Set the permission (code 353). Returns the permission in force."""
    answer = tool.call(codes.SET_READABLE, {"group": GROUP, "topic": topic, **({"readable": wanted} if wanted else {})})
    assert answer.code == 0, answer.remark
    told = json.loads(answer.body)
    assert (told["group"], told["topic"]) == (GROUP, topic)
    return bool(told["readable"])


def permit(tool: Tool, permission: int) -> None:
    """mqadmin updateBrokerConfig -k brokerPermission."""
    assert tool.call(codes.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=%d" % permission).code == 0


def denied(world: World, topic: str) -> list[bool]:
    """Whether a pull, a POP and a receive over gRPC are refused, each by a new client."""
    member = Consumer(world, f"c{world.chance.random()}", GROUP, topic)
    member.beat()
    pulled = member.pull(0, 0)
    about = {
        "consumerGroup": GROUP, "topic": topic, "queueId": "-1", "maxMsgNums": "1", "invisibleTime": "10000", "pollTime": "0",
        "bornTime": "0", "initMode": "0", "expType": "TAG", "exp": "*", "order": "false",
    }  # fmt: skip
    popped = member.call(codes.POP, about)
    receiver = Receiver(world, f"r{world.chance.random()}", GROUP, topic)
    request = pb.ReceiveMessageRequest(batch_size=1, filter_expression=receiver.filter)
    request.group.name, request.message_queue.topic.name, request.message_queue.id = GROUP, topic, -1
    request.long_polling_timeout.seconds = 5
    request.invisible_duration.seconds = 10
    found = receiver.stream("ReceiveMessage", request, pb.ReceiveMessageResponse)
    told = [each.status.code for each in found if each.HasField("status")]
    return [pulled.code == codes.NO_PERMISSION, popped.code == codes.NO_PERMISSION, told == [pb.FORBIDDEN]]


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_a_topic_that_is_forbidden_to_a_group_stays_so_through_kills_and_costs_no_other(power: bool) -> None:
    world = World(353)
    world.start()
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    tool.group(GROUP)
    for topic in (TOPIC, OTHER):
        tool.topic(topic)
        sender.send(topic, b"here")
    assert readable(tool, TOPIC)
    assert not readable(tool, TOPIC, "false")
    for _ in range(3):
        assert denied(world, TOPIC) == [True] * 3
        assert denied(world, OTHER) == [False] * 3
        world.again(power=power)
        assert not readable(tool, TOPIC)
    groups = json.loads(tool.call(codes.GET_ALL_GROUPS).body)
    assert groups["forbiddenTable"] == {GROUP: {TOPIC: 4}}
    assert readable(tool, TOPIC, "true")
    world.again(power=power)
    receiver = Receiver(world, "r", GROUP, TOPIC)
    assert said(receiver.receive()) == ["here"], "nothing was lost of what could not be read meanwhile"


def test_a_group_that_may_not_consume_is_refused_over_every_protocol() -> None:
    world = World(354)
    world.start()
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    tool.topic(TOPIC)
    tool.group(GROUP, consumeEnable=False)
    sender.send(TOPIC, b"here")
    assert denied(world, TOPIC) == [True] * 3
    world.again()
    assert denied(world, TOPIC) == [True] * 3
    tool.group(GROUP)
    assert denied(world, TOPIC) == [False] * 3


def test_a_group_that_may_not_broadcast_reads_as_a_cluster_only() -> None:
    world = World(356)
    world.start()
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    tool.topic(TOPIC)
    sender.send(TOPIC, b"here")
    about = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "0",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0",
    }  # fmt: skip

    def pulled(model: str) -> int:
        member = Consumer(world, f"c{world.chance.random()}", GROUP, TOPIC, model=model)
        member.beat()
        return member.call(codes.PULL, about).code

    for allowed in (False, True):
        tool.group(GROUP, consumeBroadcastEnable=allowed)
        for _ in range(2):
            assert pulled("BROADCASTING") == (codes.SUCCESS if allowed else codes.NO_PERMISSION)
            assert pulled("CLUSTERING") == codes.SUCCESS
            world.again()


def test_the_permission_of_the_broker_until_its_next_start() -> None:
    world = World(355)
    world.start()
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    tool.topic(TOPIC)
    tool.group(GROUP)
    sender.send(TOPIC, b"here")
    permit(tool, 2)
    assert (perms(tool, TOPIC), denied(world, TOPIC)) == ([2], [True] * 3)
    sender.send(TOPIC, b"taken")
    permit(tool, 4)
    assert (perms(tool, TOPIC), denied(world, TOPIC)) == ([4], [False] * 3)
    assert b"brokerPermission=4\n" in tool.call(codes.GET_BROKER_CONFIG).body
    sender.send(TOPIC, b"by an old route")
    for wrong in (0, 3, 7):
        assert tool.call(codes.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=%d" % wrong).code == codes.INVALID_PARAMETER
    world.again()
    assert (perms(tool, TOPIC), denied(world, TOPIC)) == ([6], [False] * 3)
