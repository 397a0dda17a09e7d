"""Requests of tools that a whole node relays to members: running info, consume one message, positions; answered or not."""

from __future__ import annotations

import json

import pytest

from domain.limits import MILLISECOND_NS
from protocols.remoting import codes
from protocols.remoting.wire import frame
from tests.simulation.respondent import LEAVES, NEVER, GrpcRespondent, Respondent
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "workers"
KINDS: dict[str, type[Respondent | GrpcRespondent]] = {"remoting": Respondent, "grpc": GrpcRespondent}
WAIT_MS = 10_000
SLACK_MS = 100
"""Time in ms that links and event loop turns may add to a wait."""

Member = Respondent | GrpcRespondent


def up(seed: int) -> tuple[World, Tool, str]:
    """A node, a tool, and the offset id of a stored message."""
    world = World.started(seed)
    tool = Tool(world, "tool")
    tool.topic(TOPIC, 1)
    tool.group(GROUP)
    return world, tool, Sender(world, "p").send(TOPIC, b"poison", queue=0, KEYS="k")["msgId"]


def join(world: World, kind: str, name: str, after_ms: int = 0) -> Member:
    """Connect a member and wait until the node knows it."""
    member = KINDS[kind](world, name, GROUP, TOPIC, after_ms)
    world.clock.run_for(100)
    return member


def running_info(tool: Tool, name: str, stacks: bool = True) -> frame.Frame:
    """Ask for a member's running info (code 307)."""
    fields = {"consumerGroup": GROUP, "clientId": name, "jstackEnable": "true" if stacks else "false"}
    return tool.call(codes.GET_RUNNING_INFO, fields)


def consume(tool: Tool, name: str, message_id: str) -> frame.Frame:
    """Ask a member to consume one message (code 309)."""
    return tool.call(codes.CONSUME_DIRECTLY, {"consumerGroup": GROUP, "clientId": name, "msgId": message_id})


def offline(answer: frame.Frame) -> bool:
    """Whether the answer says that the member is not connected (AdminBrokerProcessor.callConsumer: an error code and text)."""
    return answer.code == codes.SYSTEM_ERROR and "not online" in (answer.remark or "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_how_a_member_is_with_stacks_and_without(kind: str, faults: str) -> None:
    world, tool, _ = up(201)
    for name in ("one", "two"):
        join(world, kind, name)
    world.disturb(faults)
    for name in ("one", "two"):
        plain, full = running_info(tool, name, stacks=False), running_info(tool, name)
        assert (plain.code, full.code) == (0, 0), (plain.remark, full.remark)
        assert "jstack" not in json.loads(plain.body)
        assert json.loads(full.body)["jstack"] == f"stacks of {name}"
    assert offline(running_info(tool, "three"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_a_member_consumes_one_message_and_positions_stay(kind: str, faults: str) -> None:
    world, tool, message_id = up(202)
    member = join(world, kind, "one")
    world.disturb(faults)
    for name in ("one", ""):
        found = consume(tool, name, message_id)
        assert found.code == 0, found.remark
        assert json.loads(found.body)["consumeResult"] == "CR_SUCCESS"
    assert len(member.asked) == 2
    question = member.asked[0]
    body = question.body if isinstance(question, frame.Frame) else question.verify_message_command.message.body
    assert b"poison" in body
    assert world.position(GROUP, TOPIC, 0) == 0
    gone = message_id[:16] + f"{int(message_id[16:], 16) + 1_000_000:016X}"
    missing = consume(tool, "one", gone)
    assert missing.code != 0
    assert not offline(missing), "it is the message that is not there"
    assert offline(consume(tool, "two", message_id))
    assert len(member.asked) == 2


@pytest.mark.parametrize("seed", range(4))
def test_many_questions_under_broken_links_all_end(seed: int) -> None:
    """Each tool that is still connected gets one answer in time, and the node keeps no pending request."""
    world, tool, message_id = up(seed)
    chance = world.chance
    names = [f"m{at}" for at in range(6)]
    for at, name in enumerate(names):
        join(world, chance.choice(list(KINDS)), name, (0, 3_000, 9_000, NEVER, LEAVES, 12_000)[at])
    asked: dict[int, str] = {}
    for turn in range(60):
        name = chance.choice(names)
        if turn % 2:
            fields = {"consumerGroup": GROUP, "clientId": name, "jstackEnable": "true"}
            asked[tool.post(codes.GET_RUNNING_INFO, fields)] = name
        else:
            fields = {"consumerGroup": GROUP, "clientId": name, "msgId": message_id}
            asked[tool.post(codes.CONSUME_DIRECTLY, fields)] = name
        world.clock.run_for(chance.uniform(0, 400))
        if turn == 30:
            # Requests of a broken connection are not answered. All clients have connected again before the run continues.
            asked.clear()
            world.reset_some()
            world.clock.run_for(500)
    world.clock.run_for(WAIT_MS + SLACK_MS)
    answers = {opaque: tool.answer(opaque) for opaque in asked}
    for opaque, name in asked.items():
        answer = answers[opaque]
        assert answer is not None, f"{name} was waited for too long"
        assert (answer.code == 0) == (name in names[:3]), (name, answer.remark)
    world.clock.run_for(5_000)
    assert [tool.answer(opaque) for opaque in asked] == [None] * len(asked), "one answer each"


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_a_node_that_dies_while_it_waits(power: bool) -> None:
    """The tool repeats its request by itself; the member that has connected again answers the last request."""
    world, tool, _ = up(205)
    member = join(world, "remoting", "one", 2_000)
    world.clock.call_at(world.clock.monotonic_ns() + 1_000 * MILLISECOND_NS, lambda: world.kill(power))
    world.clock.call_at(world.clock.monotonic_ns() + 1_050 * MILLISECOND_NS, world.start)
    found = running_info(tool, "one")
    if offline(found):
        world.clock.run_for(500)
        found = running_info(tool, "one")
    assert found.code == 0, found.remark
    assert len(member.asked) == 2
