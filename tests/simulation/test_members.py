"""Members of a group on a whole node: notices of changed members, allocation of queues, and broadcasting."""

from __future__ import annotations

import pytest

from tests.simulation.caller import bodies
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP, QUEUES = "sim", "sim-members", 4
SILENCE_MS = 120_000


def averagely(members: list[str], name: str) -> list[int]:
    """The queues of `name` among QUEUES by AllocateMessageQueueAveragely."""
    at, count = members.index(name), len(members)
    share, more = divmod(QUEUES, count)
    start = at * share + min(at, more)
    return list(range(start, start + share + (at < more)))


def ready(seed: int) -> tuple[World, Sender]:
    """A node with the topic, and a producer."""
    world = World(seed)
    world.start()
    Tool(world, "tool").topic(TOPIC, QUEUES)
    return world, Sender(world, "p")


def test_members_are_told_when_one_comes_leaves_breaks_off_or_falls_silent() -> None:
    world, _ = ready(61)
    first = Consumer(world, "a", GROUP, TOPIC)
    world.clock.run_for(100)
    first.notices()
    others = {}
    for name in ("b", "c", "d"):
        others[name] = Consumer(world, name, GROUP, TOPIC)
        world.clock.run_for(100)
        assert first.notices() == 1, f"{name} has come"
    assert first.members() == ["a", "b", "c", "d"]
    others["b"].done(35, {"clientID": "b", "consumerGroup": GROUP})
    world.clock.run_for(50)
    assert first.notices() == 1
    assert "b" not in first.members()
    others["c"].hang_up()
    world.clock.run_for(50)
    assert first.notices() == 1
    assert first.members() == ["a", "d"]
    others["d"].mute = True
    others["b"].hang_up()
    world.clock.run_for(SILENCE_MS - 2_000)
    assert first.members() == ["a", "d"], "silent, for less than two minutes"
    world.clock.run_for(13_000)
    assert first.members() == ["a"]
    assert first.notices() == 1


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


def test_broadcasting_gives_everything_to_each_and_keeps_no_position() -> None:
    """Clients keep their own offsets: a member continues at its offset after a kill, independent of other members."""
    world, sender = ready(63)
    members = [Consumer(world, name, GROUP, TOPIC, model="BROADCASTING") for name in ("a", "b")]
    kept = [dict.fromkeys(range(QUEUES), 0) for _ in members]
    taken: list[list[str]] = [[], []]

    def consume(at: int) -> None:
        for queue in range(QUEUES):
            found = members[at].drain(queue, kept[at][queue])
            taken[at] += bodies(found)
            kept[at][queue] += len(found)

    for turn in range(6):
        for number in range(10):
            sender.send(TOPIC, f"{turn}/{number}".encode())
        consume(0)
        if turn % 2:
            world.again()
            consume(1)
    for each in taken:
        assert sorted(each) == sorted(f"{turn}/{number}" for turn in range(6) for number in range(10))
    assert [members[0].position(queue) for queue in range(QUEUES)] == [-1] * QUEUES
