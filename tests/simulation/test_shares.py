"""One group under a seed: MQTT members beside POP members and pullers, by every strategy, with faults.

Invariants of every run: no published message is lost; no message is delivered to a second member while the first has it in
flight, nor after it was acknowledged; a message delivered at QoS 2 is not delivered again, not even to the same member.
"""

from __future__ import annotations

import random

import pytest

from domain.errors import Failure
from domain.topic.topic import Group
from gateway.usecase.topics_and_groups.policy import LEAST, ROUND_ROBIN, STICKY, STRATEGY
from tests.simulation.device import Sensor
from tests.simulation.puller import Puller
from tests.simulation.sdk import Member
from tests.simulation.sharer import Places, Sharer
from tests.simulation.world import World

TOPIC, GROUP, QUEUES = "dev", "sim-shares", 8
FAULTS_S = 20.0
EACH = 60


def prepare(world: World, strategy: str) -> None:
    """Create the group before its members join."""
    assert world.parts is not None
    made: list[Failure | None] = []
    world.parts.store.metadata.put_group(Group(GROUP, attributes={STRATEGY: strategy}), made.append)
    world.clock.run_until(lambda: made == [None])


def run(seed: int, strategy: str, power: bool, other: bool = True) -> tuple[World, list[Sharer]]:
    """Run publishers at QoS 2 with unique bodies, and members of each kind, one of them late; with faults, then without."""
    world = World.started(seed)
    prepare(world, strategy)
    mqtt = lambda device: world.dial("mqtt", device)  # noqa: E731 - one device after another gets it
    remoting = lambda client: world.dial("remoting", client)  # noqa: E731 - one client after another gets it
    ledger, clock = world.ledger, world.clock
    sensors = [Sensor(f"s{at}", clock, random.Random(seed * 10 + at), mqtt, ledger, 2, EACH) for at in range(3)]
    places = Places(world, TOPIC, QUEUES)
    sharers = [
        Sharer(
            f"d{at}", clock, random.Random(seed * 40 + at), mqtt, ledger, TOPIC, GROUP, 1 + at % 2, places, not power
        )
        for at in range(4)
    ]  # fmt: skip
    for sharer in sharers[:3]:
        sharer.start()
    clock.run_until(lambda: all(sharer.subscribed for sharer in sharers[:3]))
    for sensor in sensors:
        sensor.start()
    clock.run_for(world.chance.randrange(0, 2_000))
    sharers[3].start()
    if other:
        queues = list(range(0, QUEUES, 2))
        Puller("q0", clock, random.Random(seed * 300), remoting, ledger, TOPIC, GROUP, queues, not power).start()
        Member("m0", clock, random.Random(seed * 200), remoting, ledger, TOPIC, GROUP, not power).start()
    world.endure(FAULTS_S, power)
    clock.run_until(
        lambda: all(sensor.done for sensor in sensors) and world.is_consumed(GROUP, TOPIC, QUEUES),
        600_000,
    )
    return world, sharers


def check(world: World, sharers: list[Sharer]) -> None:
    """Check the invariants."""
    assert world.ledger.faults == []
    stored = [record for queue in world.stored(TOPIC, QUEUES) for record in queue]
    assert sorted(record.body.decode() for record in stored) == sorted(f"s{at}/{n}" for at in range(3) for n in range(EACH))
    assert {f"{record.queue_id}/{record.queue_offset}" for record in stored} <= set(world.ledger.leases)
    for sharer in sharers[1::2]:
        assert len(set(sharer.got)) == len(sharer.got), "a message came twice at QoS 2"
    assert sum(len(sharer.got) > 0 for sharer in sharers) > 1


@pytest.mark.parametrize("strategy", [LEAST, ROUND_ROBIN, STICKY])
@pytest.mark.parametrize("seed", range(4))
def test_kill_nine_and_broken_links(seed: int, strategy: str) -> None:
    check(*run(seed, strategy, power=False))


@pytest.mark.parametrize("seed", range(70, 74))
def test_members_of_mqtt_alone(seed: int) -> None:
    check(*run(seed, LEAST, power=False, other=False))


@pytest.mark.parametrize("strategy", [LEAST, ROUND_ROBIN, STICKY])
@pytest.mark.parametrize("seed", range(50, 52))
def test_power_failures(seed: int, strategy: str) -> None:
    check(*run(seed, strategy, power=True))


def test_a_seed_repeats_exactly() -> None:
    assert run(3, STICKY, power=False)[0].ledger.digest() == run(3, STICKY, power=False)[0].ledger.digest()
