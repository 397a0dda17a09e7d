"""One group under a seed: members that receive and members that pull, while the node is killed and links break.

Invariants of every run: each acknowledged message is processed; no message is delivered again after it was settled or its
offset committed; no message is delivered to a second member before the lease of the first ends or the first disappears.
"""

from __future__ import annotations

import random

import pytest

from tests.simulation.puller import Puller
from tests.simulation.sdk import Member, Producer
from tests.simulation.world import World

TOPIC, GROUP, QUEUES = "sim", "sim-mixed", 8
FAULTS_S = 25.0


def run(seed: int, power: bool) -> tuple[World, list[Puller]]:
    """Run once. One of the receivers joins late, so that pullers are members before it."""
    world = World.started(seed)
    dial = lambda client: world.dial("remoting", client)  # noqa: E731 - one client after another gets it
    ledger = world.ledger
    producers = [
        Producer(f"p{number}", world.clock, random.Random(seed * 100 + number), dial, ledger, TOPIC, 60) for number in range(3)
    ]
    pullers = [
        Puller(
            f"q{number}", world.clock, random.Random(seed * 300 + number), dial, ledger, TOPIC, GROUP,
            list(range(number, QUEUES, 2)), not power,
        )
        for number in range(2)
    ]  # fmt: skip
    members = [
        Member(f"m{number}", world.clock, random.Random(seed * 200 + number), dial, ledger, TOPIC, GROUP, not power)
        for number in range(2)
    ]
    for client in (*producers, *pullers):
        client.start()
    world.clock.run_for(world.chance.randrange(0, 3_000))
    for member in members:
        member.start()
    world.endure(FAULTS_S, power)
    world.clock.run_until(
        lambda: all(producer.done for producer in producers) and world.is_consumed(GROUP, TOPIC, QUEUES),
        400_000,
    )
    return world, pullers


def check(world: World, pullers: list[Puller]) -> None:
    """Check the invariants."""
    assert world.ledger.faults == []
    names = {f"{record.queue_id}/{record.queue_offset}" for queue in world.stored(TOPIC, QUEUES) for record in queue}
    assert names <= set(world.ledger.leases), "given to somebody, each of them"
    assert sum(puller.got for puller in pullers) > 0


@pytest.mark.parametrize("seed", range(12))
def test_kill_nine_and_broken_links(seed: int) -> None:
    check(*run(seed, power=False))


@pytest.mark.parametrize("seed", range(100, 104))
def test_power_failures(seed: int) -> None:
    world, pullers = run(seed, power=True)
    assert sum(puller.got for puller in pullers) > 0
    assert len(world.ledger.acknowledged) == 180
