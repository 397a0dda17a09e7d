"""Connections that the node reports to tools, compared with the real ones: clients come, go, fall silent, and links break."""

from __future__ import annotations

import json

import pytest

from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from tests.simulation.consumer import Consumer
from tests.simulation.respondent import GrpcRespondent
from tests.simulation.sender import Sender
from tests.simulation.simple import Publisher
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP, PRODUCERS = "sim", "workers", "makers"


def consumers(tool: Tool) -> list[str]:
    """Client ids of the consumers by code 203, which code 38 has to agree with."""
    answer = tool.call(codes.GET_CONSUMER_CONNECTIONS, {"consumerGroup": GROUP})
    names = [each["clientId"] for each in json.loads(answer.body)["connectionSet"]] if answer.code == 0 else []
    assert answer.code == (0 if names else codes.CONSUMER_NOT_ONLINE)
    members = tool.call(codes.GET_MEMBERS, {"consumerGroup": GROUP})
    assert (sorted(json.loads(members.body)["consumerIdList"]) if members.code == 0 else []) == sorted(names)
    return sorted(names)


def producers(tool: Tool) -> list[str]:
    """Client ids of the producers by code 204, which code 328 has to agree with."""
    answer = tool.call(codes.GET_PRODUCER_CONNECTIONS, {"producerGroup": PRODUCERS, "topic": TOPIC})
    names = [each["clientId"] for each in json.loads(answer.body)["connectionSet"]] if answer.code == 0 else []
    every = json.loads(tool.call(codes.GET_PRODUCERS).body)["data"]
    assert sorted(each["clientId"] for each in every.get(PRODUCERS, [])) == sorted(names)
    return sorted(names)


def goodbye(client: Consumer | Sender) -> None:
    """Unregister the client (code 35)."""
    side = "consumerGroup" if isinstance(client, Consumer) else "producerGroup"
    client.done(codes.UNREGISTER_CLIENT, {"clientID": client.name, side: client.group})


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("seed", range(6))
def test_tools_are_told_who_is_connected_and_nobody_else(seed: int, power: bool) -> None:
    world = World.started(seed)
    tool, chance = Tool(world, "tool"), world.chance
    tool.topic(TOPIC, 1)
    pulling: dict[str, Consumer] = {}
    sending: dict[str, Sender] = {}
    calling: dict[str, GrpcRespondent] = {}
    for turn in range(60):
        what = chance.choice(("consumer", "sender", "caller", "hang up", "goodbye", "links", "kill"))
        name = f"{what}{turn}"
        if what == "consumer":
            pulling[name] = Consumer(world, name, GROUP, TOPIC)
        elif what == "sender":
            sending[name] = Sender(world, name, PRODUCERS)
        elif what == "caller":
            calling[name] = GrpcRespondent(world, name, GROUP, TOPIC)
        elif what in ("hang up", "goodbye"):
            gone = chance.choice([*pulling, *sending, *calling, ""])
            for table in (pulling, sending, calling):
                client = table.pop(gone, None)
                if isinstance(client, Consumer | Sender) and what == "goodbye":
                    goodbye(client)
                if client is not None:
                    client.hang_up()
        elif what == "links":
            world.reset_some()
        elif turn % 3 == 0:
            world.again(power)
        # Clients connect to the node again within 200 ms and then send heartbeats.
        world.clock.run_for(400)
        assert consumers(tool) == sorted([*pulling, *calling])
        assert producers(tool) == sorted(sending)


def test_what_is_told_of_each_client_is_what_it_said_last() -> None:
    world = World.started(212)
    tool = Tool(world, "tool")
    tool.topic(TOPIC, 1)
    Consumer(world, "one", GROUP, TOPIC, expression="A || B", start="CONSUME_FROM_LAST_OFFSET")
    world.clock.run_for(100)

    said = json.loads(tool.call(codes.GET_CONSUMER_CONNECTIONS, {"consumerGroup": GROUP}).body)
    assert (said["consumeType"], said["messageModel"], said["consumeFromWhere"]) == (
        "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET",
    )  # fmt: skip
    table = said["subscriptionTable"]
    assert sorted(table) == [f"%RETRY%{GROUP}", TOPIC]
    assert (table[TOPIC]["subString"], table[TOPIC]["tagsSet"]) == ("A || B", ["A", "B"])
    subscription = json.loads(tool.call(codes.GET_SUBSCRIPTION, {"group": GROUP, "topic": TOPIC}).body)["subscriptionData"]
    assert subscription == table[TOPIC]
    (client,) = said["connectionSet"]
    assert client["clientAddr"].startswith("10.0.0.7:")
    assert client["language"] == "JAVA"


def test_a_producer_over_grpc_and_a_group_of_both_protocols() -> None:
    world = World.started(213)
    tool = Tool(world, "tool")
    tool.topic(TOPIC, 1)
    publisher = Publisher(world, "grpc", TOPIC)
    assert publisher.send("hello").status.code == pb.OK
    GrpcRespondent(world, "receives", GROUP, TOPIC)
    Consumer(world, "pulls", GROUP, TOPIC)
    world.clock.run_for(100)
    assert consumers(tool) == ["pulls", "receives"]
    found = json.loads(tool.call(codes.GET_CONSUMER_CONNECTIONS, {"consumerGroup": GROUP}).body)["connectionSet"]
    assert {each["clientId"]: each["language"] for each in found} == {"pulls": "JAVA", "receives": "JAVA"}
    assert len({each["clientAddr"] for each in found}) == 2
    world.again()
    assert consumers(tool) == ["pulls", "receives"]
