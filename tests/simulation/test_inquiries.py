"""Requests of tools that a whole node relays to members: running info, consume one message, positions; answered or not."""

from __future__ import annotations

import json
from collections.abc import Callable

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
WAIT_MS, POSITIONS_MS = 10_000, 5_000
SLACK_MS = 100
"""Time in ms that links and event loop turns may add to a wait."""

Member = Respondent | GrpcRespondent


def up(seed: int) -> tuple[World, Tool, str]:
    """A node, a tool, and the offset id of a stored message."""
    world = World(seed)
    world.start()
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


def status(tool: Tool, name: str = "") -> frame.Frame:
    """Ask members for their positions (code 223)."""
    return tool.call(codes.GET_CONSUMER_STATUS, {"topic": TOPIC, "group": GROUP, "clientAddr": name})


def timed(world: World, ask: Callable[[], frame.Frame]) -> tuple[frame.Frame, float]:
    """The answer, and the time until it arrived in ms."""
    begun = world.clock.monotonic_ns()
    return ask(), (world.clock.monotonic_ns() - begun) / MILLISECOND_NS


def offline(answer: frame.Frame) -> bool:
    """Whether the answer says that the member is not connected (AdminBrokerProcessor.callConsumer: an error code and text)."""
    return answer.code == codes.SYSTEM_ERROR and "not online" in (answer.remark or "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_how_a_member_is_with_stacks_and_without(kind: str, faults: str) -> None:
    world, tool, _ = up(201)
    for name in ("one", "two"):
        join(world, kind, name)
    if faults != "none":
        world.again(power=faults == "power")
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
    if faults != "none":
        world.again(power=faults == "power")
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("about", ["running info", "consumption"])
def test_who_answers_late_never_or_leaves_is_waited_for_ten_seconds_at_most(kind: str, about: str) -> None:
    world, tool, message_id = up(203)

    def ask(name: str) -> tuple[frame.Frame, float]:
        if about == "running info":
            return timed(world, lambda: running_info(tool, name))
        return timed(world, lambda: consume(tool, name, message_id))

    join(world, kind, "late", WAIT_MS - 500)
    found, took_ms = ask("late")
    assert found.code == 0, found.remark
    assert WAIT_MS - 500 <= took_ms < WAIT_MS

    silent = join(world, kind, "silent", NEVER)
    found, took_ms = ask("silent")
    assert found.code != 0
    assert WAIT_MS <= took_ms < WAIT_MS + SLACK_MS
    silent.after_ms = WAIT_MS + 2_000
    assert ask("silent")[0].code != 0
    silent.after_ms = 0
    found, took_ms = ask("silent")
    assert (found.code, took_ms < SLACK_MS) == (0, True), "the next question is answered for itself"
    world.clock.run_for(3_000)
    assert len(silent.asked) == 3
    assert ask("silent")[0].code == 0, "an answer that came too late was nobody's"

    join(world, kind, "leaver", LEAVES)
    found, took_ms = ask("leaver")
    assert found.code != 0
    assert took_ms < SLACK_MS, "nobody waits for who has gone"
    assert offline(ask("leaver")[0])


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


@pytest.mark.parametrize("faults", ["none", "kill"])
def test_positions_that_members_have_in_memory(faults: str) -> None:
    world, tool, _ = up(206)
    for name, after_ms in (("one", 0), ("two", POSITIONS_MS - 500), ("silent", NEVER), ("leaver", LEAVES)):
        join(world, "remoting", name, after_ms)
    if faults != "none":
        world.again()
    found, took_ms = timed(world, lambda: status(tool))
    assert found.code == 0, found.remark
    assert POSITIONS_MS <= took_ms < POSITIONS_MS + SLACK_MS
    assert [name for name in ("one", "two", "silent", "leaver") if b'"%b":{{' % name.encode() in found.body] == ["one", "two"]
    one, took_ms = timed(world, lambda: status(tool, "one"))
    assert (one.code, took_ms < SLACK_MS) == (0, True)
    assert b'"queueId":0,"topic":"sim"}:2' in one.body, "what it says now"
    silent, took_ms = timed(world, lambda: status(tool, "silent"))
    assert silent.code != 0
    assert POSITIONS_MS <= took_ms < POSITIONS_MS + SLACK_MS
    assert status(tool, "leaver").code == codes.CONSUMER_NOT_ONLINE
