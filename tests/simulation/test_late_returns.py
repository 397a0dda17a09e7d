"""Lite pull consumers and receivers in one group, under a seed: a message that returns behind a puller is delivered.

Invariants of every run: each acknowledged message is processed by a member, soon after the last receiver has left, whichever
members were killed; and processed messages are settled by later commits.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.simulation.lite_puller import LitePuller
from tests.simulation.sdk import ACK, Member, Producer
from tests.simulation.world import World

TOPIC, GROUP, QUEUES = "sim", "sim-lite", 4
FAULTS_S = 20.0
SOON_MS = 30_000


class Leaver(Member):
    """A receiver that leaves for ever at some time, with its leased messages unsettled."""

    handled: set[str]
    gone = False

    def start(self) -> None:
        if not self.gone:
            super().start()

    def leave(self) -> None:
        """Leave without connecting again."""
        self.gone = True
        if self.link is not None:
            self.link.reset()

    def ask(self, about: object, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        if code == ACK and isinstance(about, tuple) and self.link is not None:
            self.handled.add(about[0])  # the answer may be lost
        super().ask(about, code, fields, body)


def handled(world: World, parties: Sequence[LitePuller | Leaver]) -> bool:
    """Whether each stored message was processed by at least one member."""
    stored = {f"{record.queue_id}/{record.queue_offset}" for queue in world.stored(TOPIC, QUEUES) for record in queue}
    return stored <= set().union(*[party.handled for party in parties])


def run(seed: int, forward: bool, memory: bool, power: bool) -> tuple[World, list[LitePuller], list[Leaver]]:
    """Receivers join a little later than pullers, and leave for ever after the faults, with their messages unsettled."""
    world = World.started(seed)
    dial = lambda client: world.dial("remoting", client)  # noqa: E731 - one client after another gets it
    ledger = world.ledger
    producers = [
        Producer(f"p{each}", world.clock, random.Random(seed * 100 + each), dial, ledger, TOPIC, 60) for each in range(6)
    ]
    pullers = [
        LitePuller(
            f"q{each}", world.clock, random.Random(seed * 300 + each), dial, ledger, TOPIC, GROUP,
            list(range(each, QUEUES, 2)), forward, memory, not power,
        )
        for each in range(2)
    ]  # fmt: skip
    members = [
        Leaver(f"m{each}", world.clock, random.Random(seed * 200 + each), dial, ledger, TOPIC, GROUP, not power)
        for each in range(2)
    ]
    for member in members:
        member.handled = set()
    for client in (*producers[:3], *pullers):
        client.start()
    world.clock.run_for(world.chance.randrange(0, 2_000))
    for member in members:
        member.start()
    world.endure(FAULTS_S, power)
    for producer in producers[3:]:
        producer.start()
    world.clock.run_for(world.chance.randrange(200, 900))
    for member in members:
        member.leave()
    parties: list[LitePuller | Leaver] = [*pullers, *members]
    world.clock.run_until(lambda: all(producer.done for producer in producers) and handled(world, parties), SOON_MS)
    last = Producer("last", world.clock, random.Random(seed * 400), dial, ledger, TOPIC, 60)
    last.start()
    world.clock.run_until(
        lambda: last.done and world.is_consumed(GROUP, TOPIC, QUEUES),
        SOON_MS,
    )
    return world, pullers, members


@pytest.mark.parametrize("memory", [False, True], ids=["killed", "lives"])
@pytest.mark.parametrize("forward", [False, True], ids=["back", "forward"])
@pytest.mark.parametrize("seed", range(4))
def test_kill_nine_and_broken_links(seed: int, forward: bool, memory: bool) -> None:
    world, pullers, members = run(seed, forward, memory, power=False)
    assert world.ledger.faults == []
    assert handled(world, (*pullers, *members))
    assert sum(puller.late_returns for puller in pullers) > 0


@pytest.mark.parametrize("seed", range(100, 104))
def test_power_failures(seed: int) -> None:
    world, pullers, members = run(seed, forward=False, memory=False, power=True)
    assert handled(world, (*pullers, *members))
