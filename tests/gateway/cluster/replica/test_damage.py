"""Damage comes to replicas while connections break: it is found and repaired from others, and all logs end up the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from domain.controller.group import SetMember, StoreGroup, StoreReplica
from domain.errors import StoreError
from domain.replication.ports import DamagedPart, MendableLog
from gateway.cluster.replica.damaged_start import MEND_NS, DamagedStart
from gateway.cluster.replica.identity import ReplicaIdentity
from store.replication.repairing import RepairCounts
from tests.gateway.cluster.replica import world as worlds
from tests.gateway.cluster.replica.world import World
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import FixedEntropy


@pytest.mark.parametrize("seed", range(6))
def test_damage_is_repaired_under_faults(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "CONFIG", replace(worlds.CONFIG, scrub_days=7, scrub_pass_s=1, scrub_bytes_min=1 << 20))
    world = World(seed)
    world.clock.run_for(5_000)
    repaired = damaged = 0
    for _ in range(12):
        for _ in range(25):
            world.send()
            world.clock.run_for(world.chance.randrange(1, 60))
        victim = world.chance.choice(list(world.replicas.values()))
        names = [f"log/{name}" for name in victim.disk.names("log") if name.isdigit()]
        lives = {number: each.life for number, each in world.replicas.items()}
        if victim.running and len(names) > 1:
            name = world.chance.choice(names[:-1])
            if world.chance.random() < 0.3:
                del victim.disk.files[name]
            else:
                victim.disk.flip(name, world.chance.randrange(len(victim.disk.files[name].data)), world.chance.randrange(8))
            damaged += 1
            world.cut(world.chance.randrange(1, 4))
            world.clock.run_for(12_000)
            counts = [life._commands._repairs for number, life in lives.items() if world.replicas[number].life is life]
            repaired += sum(each.parts for each in counts)
    assert damaged > 5
    assert repaired > 0
    for each in world.replicas.values():
        parts = each.follower.parts if each.life.leading is None else each.life.parts
        assert parts is not None
        assert not parts.damaged()
    world.heal()


class Damaged:
    """A `DamagedLog` of one part that others may give."""

    def __init__(self, covered: bool) -> None:
        self.fault = StoreError("what was promised is damaged", "log/0")
        self.parts: MendableLog = self  # type: ignore[assignment]
        self.covered = covered
        self.renounced = 0
        self.closed = 0

    def damaged(self) -> list[DamagedPart]:
        return [DamagedPart(0, 100)] if self.covered else []

    def mend(self, part: DamagedPart) -> None:
        return None

    def abandon_damaged(self, incarnation: int) -> str:
        self.renounced = incarnation
        return "set-aside/replica"

    def close(self) -> None:
        self.closed += 1


class Controllers:
    """Answers with `group`, once it is asked for the third time."""

    def __init__(self, group: StoreGroup | None) -> None:
        self.asked = 0
        self._group = group

    def ask(self, done: Callable[[StoreGroup | None, bool], None]) -> None:
        self.asked += 1
        done(self._group if self.asked > 2 else None, self.asked > 2)


class Sources:
    def of(self, group: StoreGroup | None, own: int) -> list[Any]:
        return [] if group is None else [each for each in group.replicas if each.id != own]


def replicas(*ids: int) -> tuple[StoreReplica, ...]:
    return tuple(StoreReplica(each, f"n{each}", f"10.0.0.{each}:1", "7") for each in ids)


def begun(damaged: Damaged, group: StoreGroup | None) -> tuple[VirtualClock, list[bool], Controllers]:
    clock, told, controllers = VirtualClock(), list[bool](), Controllers(group)
    start: Any = DamagedStart
    identity = ReplicaIdentity(MemoryDisk(clock), cast(Any, FixedEntropy()))
    identity.keep(1)
    identity.keep_group("ours")
    start(damaged, identity, controllers, Sources(), clock, FixedEntropy(), RepairCounts(), told.append).start()
    return clock, told, controllers


ONE, TWO = SetMember(1, "7"), SetMember(2, "7")


@pytest.mark.parametrize("covered", [True, False])
@pytest.mark.parametrize(
    "group",
    [None, StoreGroup("c", "g", replicas=replicas(1), members=(ONE,))],
    ids=["no group", "no other replica"],
)
def test_who_has_nobody_waits_for_a_person(group: StoreGroup | None, covered: bool) -> None:
    damaged = Damaged(covered)
    clock, told, controllers = begun(damaged, group)
    clock.run_for(5_000)
    assert controllers.asked == 3
    assert told == [False]
    assert (damaged.renounced, damaged.closed) == (0, 1)


def test_the_only_member_renounces_nothing() -> None:
    damaged = Damaged(covered=False)
    clock, told, _ = begun(damaged, StoreGroup("c", "g", replicas=replicas(1, 2), members=(ONE,)))
    clock.run_for(5_000)
    assert told == [False]
    assert damaged.renounced == 0


def test_with_another_member_it_becomes_another_log() -> None:
    damaged = Damaged(covered=False)
    clock, told, _ = begun(damaged, StoreGroup("c", "g", replicas=replicas(1, 2), members=(ONE, TWO)))
    clock.run_for(5_000)
    assert told == [True]
    assert damaged.renounced > 0


def test_parts_that_nobody_gives_are_renounced_after_a_while() -> None:
    damaged = Damaged(covered=True)
    clock, told, _ = begun(damaged, StoreGroup("c", "g", replicas=replicas(1, 2), members=(ONE, TWO)))
    clock.run_for(MEND_NS // 1_000_000 - 1_000)
    assert told == []
    clock.run_for(3_000)
    assert told == [True]
    assert damaged.renounced > 0


def test_it_is_opened_when_the_parts_are_whole() -> None:
    damaged = Damaged(covered=True)
    clock, told, _ = begun(damaged, StoreGroup("c", "g", replicas=replicas(1, 2), members=(ONE, TWO)))
    clock.run_for(3_000)
    assert told == []
    damaged.covered = False
    clock.run_for(1_000)
    assert told == [True]
    assert damaged.renounced == 0
