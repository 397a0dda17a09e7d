"""PRIORITY topics on a whole node: each receive gets the highest first, by POP and gRPC, with kills and power failures."""

from __future__ import annotations

import pytest

from gateway.node.settings import Config
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.simple import Receiver, said
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP, LEVELS = "sim", "sim-priority", 4


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
@pytest.mark.parametrize("seed", range(3))
def test_each_receive_has_the_highest_that_there_is(seed: int, faults: str) -> None:
    world = World.started(seed)
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


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
@pytest.mark.parametrize(("ascending", "again"), [(True, 0), (True, 100), (False, 0), (False, 100)])
def test_what_comes_again_has_its_place_over_every_protocol(ascending: bool, again: int, faults: str) -> None:
    """Redelivered messages come after all new ones, or before, sorted by priority; configured settings survive a restart."""
    world = World(330, Config(tables={"policy": {
        "priority_order_ascending": ascending, "priority_again_first_percent": again,
    }}))  # fmt: skip
    world.start()
    Tool(world, "tool").topic(TOPIC, LEVELS, message_type="PRIORITY")
    sender, popper = Sender(world, "p"), Consumer(world, "c", GROUP, TOPIC)
    receiver = Receiver(world, "r", GROUP, TOPIC)
    fresh: list[tuple[int, int]] = []
    lost: list[tuple[int, int]] = []
    number = 0

    def order(each: tuple[int, int]) -> tuple[int, int]:
        return (-each[0] if ascending else each[0]), each[1]

    for turn in range(20):
        for _ in range(world.chance.randrange(6)):
            level = world.chance.randrange(LEVELS)
            sender.send(TOPIC, b"%d %d" % (level, number), -1, 0, _SYS_MSG_PRIORITY_=str(level))
            fresh.append((level, number))
            number += 1
        most = world.chance.randrange(1, 6)
        parts = (sorted(lost, key=order), sorted(fresh, key=order))
        wanted = [each for part in (parts if again else parts[::-1]) for each in part][:most]
        loses = turn % 3 != 2
        if turn % 2:
            messages = receiver.receive(most=most) if wanted else []
            found = said(messages)
            if not loses:
                assert [receiver.ack(message) for message in messages] == [20_000] * len(messages)
            else:
                assert [receiver.change(message, 0) for message in messages] == [20_000] * len(messages)
        else:
            popped = popper.pop(most=most)
            found = [one.body for one in popped]
            assert [popper.change(one, 0) if loses else popper.ack(one) for one in popped] == [0] * len(popped)
        assert found == [f"{level} {at}" for level, at in wanted]
        fresh = [each for each in fresh if each not in wanted]
        lost = [each for each in lost if each not in wanted] + (wanted if loses else [])
        if faults != "none" and turn % 6 == 5:
            world.again(power=faults == "power")
    assert number > 20
