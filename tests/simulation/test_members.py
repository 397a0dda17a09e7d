"""Members of a group on a whole node: who they are after a kill, and the allocation of queues among them."""

from __future__ import annotations

import pytest

from tests.simulation.caller import bodies
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP, QUEUES = "sim", "sim-members", 4


def averagely(members: list[str], name: str) -> list[int]:
    """The queues of `name` among QUEUES by AllocateMessageQueueAveragely."""
    at, count = members.index(name), len(members)
    share, more = divmod(QUEUES, count)
    start = at * share + min(at, more)
    return list(range(start, start + share + (at < more)))


def ready(seed: int) -> tuple[World, Sender]:
    """A node with the topic, and a producer."""
    world = World.started(seed)
    Tool(world, "tool").topic(TOPIC, QUEUES)
    return world, Sender(world, "p")


def test_members_are_those_that_came_back_after_a_kill() -> None:
    world, _ = ready(62)
    members = [Consumer(world, name, GROUP, TOPIC) for name in ("a", "b", "c")]
    world.clock.run_for(100)
    members[2].hang_up()
    world.again()
    assert members[0].members() == ["a", "b"]


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("seed", range(4))
def test_clustering_shares_queues_out_and_goes_on_where_others_were(seed: int, power: bool) -> None:
    """Members join, are killed, and commit; each message is processed, and no committed message is processed again."""
    world, sender = ready(seed)
    members = {name: Consumer(world, name, GROUP, TOPIC) for name in ("a0", "a1")}
    handled: list[str] = []
    sent: list[str] = []
    reported: set[str] = set()
    for turn in range(16):
        for _ in range(8):
            sent.append(f"{len(sent)}")
            sender.send(TOPIC, sent[-1].encode())
        live = sorted(members)
        assert next(iter(members.values())).members() == live
        for name in live:
            for queue in averagely(live, name):
                start = max(0, members[name].position(queue))
                found = members[name].drain(queue, start)
                texts = bodies(found)
                assert not reported & set(texts), "reported, and here again"
                handled += texts
                if found and world.chance.random() < 0.7:
                    members[name].commit(queue, found[-1].queue_offset + 1)
                    reported.update(texts)
        if turn % 5 == 2:
            world.again(power)
        if turn % 4 == 1:
            members[f"m{turn}"] = Consumer(world, f"m{turn}", GROUP, TOPIC)
        if turn % 4 == 3 and len(members) > 1:
            members.pop(world.chance.choice(sorted(members))).hang_up()
        world.clock.run_for(200)
    for queue in range(QUEUES):
        one = members[min(members)]
        handled += bodies(one.drain(queue, max(0, one.position(queue))))
    assert set(handled) == set(sent)
