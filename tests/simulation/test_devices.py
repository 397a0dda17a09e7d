"""MQTT under a seed: persistent sessions while the node is killed, or loses power, and links break.

Invariants: an acknowledged session is never lost; an acknowledged message reaches the subscriber, at QoS 2 exactly once; first
deliveries of one publisher's messages are in the order in which they were published.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from domain.limits import MILLISECOND_NS
from tests.simulation.device import Listener, Sensor
from tests.simulation.world import World
from tests.store.faults.soak import SOAK

FAULTS_S = 20.0
COUNT = 50
FAULTS = 40
"""Of gateways and the node, in one run."""


def run(world: World, trouble: Callable[[World], None]) -> tuple[World, Listener]:
    """Run two publishers at QoS 1, two at QoS 2 and one subscriber, first with `trouble`, then without."""
    world.start()
    seed = world.seed
    dial = lambda device: world.dial("mqtt", device)  # noqa: E731 - one device after another gets it
    listener = Listener("ear", world.clock, random.Random(seed), dial, world.ledger)
    listener.start()
    world.clock.run_until(lambda: listener.ready)
    sensors = [
        Sensor(f"s{number}", world.clock, random.Random(seed * 10 + number), dial, world.ledger, 1 + number % 2, COUNT)
        for number in range(4)
    ]
    for sensor in sensors:
        sensor.start()
    trouble(world)
    everything = {f"s{number}/{count}" for number in range(4) for count in range(COUNT)}
    world.clock.run_until(
        lambda: all(sensor.done for sensor in sensors) and {body for body, _ in listener.taken} >= everything, 200_000
    )
    world.clock.run_for(30_000)
    return world, listener


def check(world: World, listener: Listener) -> None:
    """Check the invariants."""
    assert world.ledger.faults == []
    bodies = [body for body, _ in listener.taken]
    for number in range(4):
        mine = [body for body in bodies if body.startswith(f"s{number}/")]
        first = list(dict.fromkeys(mine))
        assert first == [f"s{number}/{count}" for count in range(COUNT)]
        if number % 2:
            assert len(mine) == COUNT, "a QoS 2 message came twice"


def node_fails(world: World, power: bool = False) -> None:
    """The node is killed, or loses power, and links break."""
    world.endure(FAULTS_S, power)


def gateways_fail(world: World) -> None:
    """Gateways are killed and hang, the node is killed, at times all of them at once."""
    gateways = world.gateways
    assert gateways is not None
    for _ in range(FAULTS):
        world.clock.run_for(world.chance.uniform(10, 400))
        kind = world.chance.random()
        if 0.5 <= kind < 0.7:
            gateways.hang_one(int(world.chance.uniform(100, 12_000)) * MILLISECOND_NS)
        for _ in range(1 if kind < 0.5 else 3 if kind >= 0.85 else 0):
            gateways.kill_one(lambda: world.parts)
        if kind >= 0.7:
            world.again(away_ms=world.chance.uniform(5, 1_500))


@pytest.mark.parametrize("seed", range(8))
def test_kill_nine_and_broken_links(seed: int) -> None:
    check(*run(World(seed), node_fails))


@pytest.mark.parametrize("seed", range(50, 54))
def test_power_failures(seed: int) -> None:
    check(*run(World(seed), partial(node_fails, power=True)))


@pytest.mark.parametrize("seed", range(200, 300 if SOAK else 204))
def test_gateways_and_the_node_are_killed(seed: int) -> None:
    check(*run(World(seed, gateways=3), gateways_fail))
