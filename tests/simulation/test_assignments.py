"""Queues shared out by the node (code 400) while members come and go: every queue has a member, and modes are kept."""

from __future__ import annotations

import json

import pytest

from protocols.remoting import codes
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP, QUEUES = "sim", "workers", 8
POWER = pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])


def assigned(member: Consumer, strategy: str = "AVG") -> tuple[str, list[int]]:
    """What one member is given: the mode, and queues, -1 for any."""
    asked = {
        "topic": TOPIC, "consumerGroup": GROUP, "clientId": member.name, "messageModel": member.model, "strategyName": strategy,
    }  # fmt: skip
    answer = member.call(codes.QUERY_ASSIGNMENT, {}, json.dumps(asked).encode())
    assert answer.code == 0, answer.remark
    found = json.loads(answer.body)["messageQueueAssignments"]
    modes = {each["mode"] for each in found}
    assert len(modes) <= 1
    return next(iter(modes), ""), [each["messageQueue"]["queueId"] for each in found]


def up(seed: int) -> tuple[World, Tool]:
    """A node with the topic and the group."""
    world = World(seed)
    world.start()
    tool = Tool(world, "tool")
    tool.topic(TOPIC, QUEUES)
    tool.group(GROUP)
    return world, tool


@POWER
@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE"])
@pytest.mark.parametrize("seed", range(3))
def test_every_queue_has_one_member_after_each_change(seed: int, strategy: str, power: bool) -> None:
    world, _ = up(seed)
    members: dict[str, Consumer] = {}
    for turn in range(30):
        if members and world.chance.random() < 0.4:
            members.pop(world.chance.choice(sorted(members))).hang_up()
        else:
            members[f"m{turn}"] = Consumer(world, f"m{turn}", GROUP, TOPIC)
        if turn % 7 == 6:
            world.again(power)
        world.clock.run_for(400)
        shares = {name: assigned(member, strategy)[1] for name, member in members.items()}
        if not shares:
            continue
        assert sorted(queue for share in shares.values() for queue in share) == list(range(QUEUES))
        sizes = [len(share) for share in shares.values()]
        assert max(sizes) - min(sizes) <= 1


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
    """Message by message: POP members of one group on any queue, one of them gone in between."""
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


def test_who_broadcasts_has_every_queue() -> None:
    world, _ = up(303)
    members = [Consumer(world, f"m{at}", "casts", TOPIC, model="BROADCASTING") for at in range(2)]
    world.clock.run_for(200)
    for member in members:
        assert assigned(member)[1] == list(range(QUEUES))
