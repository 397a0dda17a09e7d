"""Runs under a seed: a remoting producer and POP members, while the node is killed and links break.

Invariants of every run: each acknowledged message is in the log; queue offsets have no gaps; every message is settled at the
end; no settled message is delivered again; no message is leased to two members at once, however often the node is killed.
"""

from __future__ import annotations

import random

import pytest

from tests.simulation.sdk import Member, Producer
from tests.simulation.world import World

TOPIC, GROUP, QUEUES = "sim", "sim-group", 8
FAULTS_S = 20.0
END_MS = 120_000


def run(seed: int, power: bool) -> World:
    """Run once: clients work with faults, then without faults until all messages are settled."""
    world = World.started(seed)
    dial = lambda client: world.dial("remoting", client)  # noqa: E731 - one client after another gets it
    producers = [
        Producer(f"p{number}", world.clock, random.Random(seed * 100 + number), dial, world.ledger, TOPIC, 60)
        for number in range(3)
    ]
    # A power failure may lose leases that were not yet synced: a receive does not wait for the sync of its leases.
    members = [
        Member(f"m{number}", world.clock, random.Random(seed * 200 + number), dial, world.ledger, TOPIC, GROUP, not power)
        for number in range(3)
    ]
    for client in (*producers, *members):
        client.start()
    world.endure(FAULTS_S, power)
    world.clock.run_until(
        lambda: all(producer.done for producer in producers) and world.is_consumed(GROUP, TOPIC, QUEUES),
        END_MS,
    )
    return world


def check(world: World) -> None:
    """Check the invariants."""
    ledger = world.ledger
    assert ledger.faults == []
    queues = world.stored(TOPIC, QUEUES)
    for records in queues:
        assert [record.queue_offset for record in records] == list(range(len(records)))
    stored = {record.body.decode().rstrip(".") for records in queues for record in records}
    assert set(ledger.acknowledged) <= stored
    assert len(ledger.acknowledged) == 180


@pytest.mark.parametrize("seed", range(10))
def test_kill_nine_and_broken_links(seed: int) -> None:
    check(run(seed, power=False))


@pytest.mark.parametrize("seed", range(100, 106))
def test_power_failures(seed: int) -> None:
    check(run(seed, power=True))
