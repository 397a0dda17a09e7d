"""Three gateways before a node, under a load of all protocols: gateways are killed, connections break, the node is killed.

A gateway has one connection to the node or three, each of which breaks or hangs, and speaks this version of the frames or the
one before.

Nothing that was acknowledged is lost or stored twice, no lease is broken early, and what a killed gateway had delivered is
acknowledged by way of another one. A sample runs in `./test`; `make soak` kills 1,000 gateways.
"""

from __future__ import annotations

import pytest

from domain.limits import MILLISECOND_NS
from tests.simulation.mixed import GROUP, TOPIC, Mixed
from tests.simulation.world import World
from tests.store.faults.soak import SOAK

QUEUES = 8
COUNT = 25
KILLS = 50
"""Gateways that are killed in one run."""
RUNS = 20 if SOAK else 3
END_MS = 200_000


def run(seed: int, node_too: bool) -> World:
    """Run once: clients work while gateways, and perhaps the node, are killed; then until all is delivered and settled."""
    world = World.started(seed, gateways=3)
    gateways = world.gateways
    assert gateways is not None
    mixed = Mixed(world, COUNT, leases_survive=True)
    mixed.listen()
    world.clock.run_until(lambda: mixed.listener.ready)
    mixed.start()
    while gateways.kills < KILLS:
        world.clock.run_for(world.chance.uniform(20, 400))
        gateways.kill_one(lambda: world.parts)
        if world.chance.random() < 0.2:
            gateways.hang_one(int(world.chance.uniform(100, 12_000)) * MILLISECOND_NS)
        if node_too and (world.chance.random() < 0.1 or (gateways.kills == KILLS - 1 and not world.kills)):
            world.again(away_ms=world.chance.uniform(5, 1_500))
    world.clock.run_for(500)
    world.clock.run_until(
        lambda: mixed.sent and all(world.position(GROUP, TOPIC, at) == world.end(TOPIC, at) for at in range(QUEUES)), END_MS
    )
    world.clock.run_until(mixed.heard, END_MS)
    mixed.check([[(record.queue_offset, record.body) for record in queue] for queue in world.stored(TOPIC, QUEUES)])
    return world


@pytest.mark.parametrize("seed", range(RUNS))
def test_gateways_are_killed(seed: int) -> None:
    assert run(seed, node_too=False).gateways.kills == KILLS  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(100, 100 + RUNS))
def test_gateways_and_the_node_are_killed(seed: int) -> None:
    assert run(seed, node_too=True).kills > 0


def test_a_seed_repeats_exactly() -> None:
    assert run(1, node_too=True).ledger.digest() == run(1, node_too=True).ledger.digest()
