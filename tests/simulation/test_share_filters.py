"""One share name with several filters under a seed, with faults: each pair of name and filter is a subscription of its own."""

from __future__ import annotations

import random

import pytest

from domain.address import share_group
from tests.simulation.device import Sensor
from tests.simulation.ledger import Ledger
from tests.simulation.sharer import Places, Sharer
from tests.simulation.test_shares import EACH, FAULTS_S, GROUP, QUEUES, TOPIC
from tests.simulation.world import World

PATTERNS = (f"{TOPIC}/#", f"{TOPIC}/+", "#", f"{TOPIC}/s0")


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_each_filter_gets_every_message_that_matches(seed: int, power: bool) -> None:
    """Kills, power failures and broken links: two members have each filter, and share what it matches among them alone."""
    world = World.started(seed)
    mqtt = lambda device: world.dial("mqtt", device)  # noqa: E731 - one device after another gets it
    clock, places = world.clock, Places(world, TOPIC, QUEUES)
    ledgers = [Ledger() for _ in PATTERNS]
    sharers = [
        Sharer(
            f"d{at}-{twin}", clock, random.Random(seed * 40 + at * 2 + twin), mqtt, ledgers[at], TOPIC, GROUP, 1 + twin, places,
            not power, pattern,
        )
        for at, pattern in enumerate(PATTERNS)
        for twin in range(2)
    ]  # fmt: skip
    for sharer in sharers:
        sharer.start()
    clock.run_until(lambda: all(sharer.subscribed for sharer in sharers))
    sensors = [Sensor(f"s{at}", clock, random.Random(seed * 10 + at), mqtt, world.ledger, 2, EACH) for at in range(3)]
    for sensor in sensors:
        sensor.start()
    world.endure(FAULTS_S, power)
    groups = [share_group(GROUP, pattern) for pattern in PATTERNS]
    clock.run_until(
        lambda: all(sensor.done for sensor in sensors) and all(world.is_consumed(group, TOPIC, QUEUES) for group in groups),
        600_000,
    )
    stored = {
        f"{record.queue_id}/{record.queue_offset}": record.body.decode()
        for queue in world.stored(TOPIC, QUEUES)
        for record in queue
    }
    for pattern, ledger in zip(PATTERNS, ledgers, strict=True):
        assert ledger.faults == []
        wanted = {place for place, body in stored.items() if not pattern.endswith("/s0") or body.startswith("s0/")}
        assert set(ledger.leases) == wanted, pattern
