"""Whole nodes under a load of all protocols, while the disk fails and the machine dies: nothing acknowledged is lost.

A sample runs in `./test`; `make soak` runs 50 power failures and more.
"""

from __future__ import annotations

import random

import pytest

from tests.simulation.kit.disk import Operation
from tests.simulation.mixed import GROUP, TOPIC, Mixed
from tests.simulation.world import World
from tests.store.faults.soak import SOAK

QUEUES = 8
COUNT = 25
FAULTS_S = 20.0
END_MS = 200_000
RUNS = 25 if SOAK else 2


class BadDisk:
    """Fails one sync or write of the log every few seconds; a supervisor starts the node again when it takes no more writes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = random.Random(world.seed * 400)
        self.failed = 0
        self._left = self.chance.randrange(60)

    def tick(self) -> None:
        """Run every 250 ms of virtual time."""
        world = self.world
        if world.parts is not None:
            world.disk.watch = self._watch
            if self._left < 0 and self.chance.random() < 0.05:
                self._left = self.chance.randrange(30)
            if world.parts.store.broken is not None and self.chance.random() < 0.3:
                world.kill(False)
                world.start()

    def _watch(self, operation: Operation) -> None:
        if operation.kind in ("append", "sync") and self._left >= 0:
            self._left -= 1
            if self._left < 0:
                self.failed += 1
                raise OSError(5, "Input/output error")


def run(seed: int, power: bool, bad: bool) -> World:
    """Run once: clients work with faults, then without faults until all is delivered and settled."""
    world = World.started(seed)
    mixed = Mixed(world, COUNT, leases_survive=not power and not bad)
    mixed.listen()
    world.clock.run_until(lambda: mixed.listener.ready)
    mixed.start()
    if not bad:
        world.schedule_faults(FAULTS_S, power)
        world.clock.run_for(FAULTS_S * 1_000 + 2_000)
    else:
        disk = BadDisk(world)
        for _ in range(int(FAULTS_S * 4)):
            disk.tick()
            world.clock.run_for(250)
        assert disk.failed
        world.disk.watch = None
        if world.parts is not None:
            world.kill(power)
    if world.parts is None:
        world.start()
    world.clock.run_until(
        lambda: mixed.sent and all(world.position(GROUP, TOPIC, at) == world.end(TOPIC, at) for at in range(QUEUES)), END_MS
    )
    world.clock.run_until(mixed.heard, END_MS)
    mixed.check([[(record.queue_offset, record.body) for record in queue] for queue in world.stored(TOPIC, QUEUES)])
    return world


@pytest.mark.parametrize("seed", range(RUNS))
def test_kills(seed: int) -> None:
    run(seed, power=False, bad=False)


@pytest.mark.parametrize("seed", range(100, 100 + RUNS))
def test_power_failures(seed: int) -> None:
    run(seed, power=True, bad=False)


@pytest.mark.parametrize("seed", range(200, 200 + RUNS))
def test_a_disk_that_fails_and_then_the_power(seed: int) -> None:
    run(seed, power=True, bad=True)


def test_a_seed_repeats_exactly() -> None:
    assert run(1, power=True, bad=False).ledger.digest() == run(1, power=True, bad=False).ledger.digest()
