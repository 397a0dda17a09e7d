"""PRIORITY topics on a whole node: the highest first with each receive, over POP and gRPC, through kills and power failures."""

from __future__ import annotations

import pytest

from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.simple import Receiver, said
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP, LEVELS = "sim", "sim-priority", 4


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
@pytest.mark.parametrize("seed", range(3))
def test_each_receive_has_the_highest_that_there_is(seed: int, faults: str) -> None:
    world = World(seed)
    world.start()
    Tool(world, "tool").topic(TOPIC, LEVELS, message_type="PRIORITY")
    sender, popper = Sender(world, "p"), Consumer(world, "c", GROUP, TOPIC)
    receiver = Receiver(world, "r", GROUP, TOPIC)
    waiting: list[tuple[int, int]] = []
    number = 0
    for turn in range(20):
        for _ in range(world.chance.randrange(5)):
            level = world.chance.randrange(LEVELS)
            sender.send(TOPIC, b"%d %d" % (level, number), -1, 0, _SYS_MSG_PRIORITY_=str(level))
            waiting.append((level, number))
            number += 1
        if faults != "none" and turn % 6 == 5:
            world.again(power=faults == "power")
        most = world.chance.randrange(1, 5)
        wanted = sorted(waiting, key=lambda each: (-each[0], each[1]))[:most]
        if turn % 2:
            messages = receiver.receive(most=most) if waiting else []
            assert [receiver.ack(message) for message in messages] == [20_000] * len(messages)
            found = said(messages)
        else:
            popped = popper.pop(most=most)
            assert [popper.ack(one) for one in popped] == [0] * len(popped)
            found = [one.body for one in popped]
        assert found == [f"{level} {at}" for level, at in wanted]
        waiting = [each for each in waiting if each not in wanted]
    assert number > 20
