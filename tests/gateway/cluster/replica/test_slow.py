"""Replicas that are slow: leadership leaves them, nobody waits for them, and they return, under seeds."""

from __future__ import annotations

import random
from typing import Final

import pytest

from controller.slow_replicas import record
from controller.slow_replicas.detector import GreyDetector
from controller.slow_replicas.ejections import FIRST_MS
from controller.slow_replicas.ports import PassedOver
from controller.slow_replicas.record import FiguresRecord
from controller.slow_replicas.replay import replay
from domain.controller.health import UNMEASURED, Fitness
from domain.replication.ports import LogWork
from tests.gateway.cluster.replica.service import GROUP
from tests.gateway.cluster.replica.world import SimReplica, World
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.faults.soak import SOAK

MOVED_WITHIN_MS: Final = 10_000
"""docs/controllers.md: leadership has left a replica that is slow."""
SEEDS: Final = range(40 if SOAK else 1)


class Watched:
    """A store group under load, whose controller judges."""

    def __init__(self, seed: int, count: int = 3) -> None:
        self.world = World(seed, count)
        self._chance = random.Random(seed)
        self.disk = MemoryDisk(VirtualClock())
        self.grey = self.world.service.judge(GreyDetector(), FiguresRecord(self.disk))
        self.epochs: list[tuple[int, int]] = []
        self.load(10_000)

    @property
    def now_ms(self) -> int:
        return self.world.service.now_ms()

    def leader(self) -> SimReplica:
        """Who leads by the word of the controllers."""
        group = self.world.service.group()
        assert group is not None
        return next(each for each in self.world.replicas.values() if each.life.own == group.leader)

    def load(self, milliseconds: int, pause_ms: int = 40) -> None:
        """Messages, while time passes."""
        end = self.now_ms + milliseconds
        while self.now_ms < end:
            self.world.send()
            self.world.clock.run_for(self._chance.randrange(5, pause_ms))
            epoch = self.world.service.group().leader_epoch  # type: ignore[union-attr]
            if not self.epochs or self.epochs[-1][1] != epoch:
                self.epochs.append((self.now_ms, epoch))

    def waits_ms(self, since_ms: int) -> int:
        """The 99th percentile of the time to an acknowledgement, of messages sent since then."""
        waits = sorted(took for sent, took in self.world.waited if sent >= since_ms)
        return waits[len(waits) * 99 // 100]

    def members(self) -> tuple[int, ...]:
        group = self.world.service.group()
        assert group is not None
        return group.in_sync

    def standing(self, replica: SimReplica) -> Fitness:
        return self.grey.standing(GROUP, replica.life.own).fitness


@pytest.mark.parametrize("seed", SEEDS)
def test_leadership_leaves_a_slow_disk_and_the_replica_returns_when_it_is_well(seed: int) -> None:
    watched = Watched(seed)
    usual_ms = watched.waits_ms(0)
    slow = watched.leader()
    slow.disk.sync_ms = 400
    watched.load(MOVED_WITHIN_MS)
    assert watched.leader() is not slow
    assert watched.grey.moves == 1
    watched.load(5_000)
    recovered = watched.now_ms
    watched.load(10_000)
    assert watched.waits_ms(recovered) < 3 * usual_ms + 20
    assert slow.life.own not in watched.members(), "nobody waits for it"
    assert len(watched.members()) == 2
    assert watched.standing(slow) is Fitness.SLOW
    slow.disk.sync_ms = 2
    watched.load(FIRST_MS + 15_000, 250)
    assert watched.standing(slow) is Fitness.FIT
    assert len(watched.members()) == 3
    assert watched.grey.moves == 1
    assert watched.leader() is not slow, "nothing is moved back"
    watched.world.heal()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cause", ["disk", "path"])
def test_a_slow_follower_is_not_waited_for_and_returns(seed: int, cause: str) -> None:
    watched = Watched(seed)
    usual_ms = watched.waits_ms(0)
    leader = watched.leader()
    slow = next(each for each in watched.world.replicas.values() if each is not leader)
    if cause == "disk":
        slow.disk.sync_ms = 400
    else:
        watched.world.part_far(leader, slow, 500)
    watched.load(MOVED_WITHIN_MS + 2_000)
    recovered = watched.now_ms
    watched.load(10_000)
    assert watched.leader() is leader
    assert watched.waits_ms(recovered) < 3 * usual_ms + 20
    assert slow.life.own not in watched.members()
    assert ("path_us" if cause == "path" else "sync_us") in str([line for line in _lines(watched) if "passed_over" in line])
    compared = replay(_lines(watched), GreyDetector())
    over = [(ms, each.group, each.replica) for ms, each in compared.decided if isinstance(each, PassedOver)]
    assert over == compared.passed_over
    assert len(over) == 1
    slow.disk.sync_ms = 2
    watched.world.join()
    watched.load(FIRST_MS + 15_000, 250)
    assert watched.standing(slow) is Fitness.FIT
    assert len(watched.members()) == 3
    watched.world.heal()


def test_a_leader_that_does_not_answer_is_no_figure_of_its_followers() -> None:
    """Nobody elects another: followers are refused again and again. One connection each has broken: that to the leader."""
    watched = Watched(1)
    leader = watched.leader()
    followers = [each for each in watched.world.replicas.values() if each is not leader]
    before = [each.life.meter.errors for each in followers]
    watched.world.service.up = False
    leader.end()
    watched.world.clock.run_for(5_000)
    for each, errors in zip(followers, before, strict=True):
        each.life.meter.take(LogWork(), UNMEASURED)
        assert each.life.meter.errors <= errors + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_leadership_leaves_a_loop_that_stalls(seed: int) -> None:
    watched = Watched(seed)
    stalled = watched.leader()

    def stall() -> None:
        stalled.clock.paused = True
        clock = watched.world.clock
        clock.call_at(clock.monotonic_ns() + 300_000_000, stalled.clock.resume)
        clock.call_at(clock.monotonic_ns() + 450_000_000, stall)

    watched.load(10_000)
    stall()
    watched.load(MOVED_WITHIN_MS + 5_000)
    assert watched.leader() is not stalled
    assert "turn_us" in str([line for line in _lines(watched) if "move" in line])


@pytest.mark.parametrize("seed", SEEDS)
def test_leadership_leaves_a_clock_that_runs_away(seed: int) -> None:
    watched = Watched(seed)
    fast = watched.leader()
    fast.time.rate = 1.05
    watched.load(25_000)
    assert watched.leader() is not fast
    assert watched.standing(fast) is Fitness.CLOCK_OFF
    assert len(watched.members()) == 3, "it is waited for: nothing but convenience is decided by clocks"
    other = next(each for each in watched.world.replicas.values() if each not in (fast, watched.leader()))
    for _ in range(3):
        killed = watched.leader()
        killed.end()
        watched.load(4_000)
        assert watched.leader() is not fast
        killed.revive(False)
        watched.load(4_000)
    assert other.running


def test_ordinary_groups_are_left_alone_under_faults_that_end() -> None:
    watched = Watched(7)
    for _ in range(4):
        watched.leader().end()
        watched.load(3_000)
        for each in watched.world.replicas.values():
            if not each.running:
                each.revive(False)
        watched.load(6_000)
    assert watched.grey.moves == 0


def _lines(watched: Watched) -> list[dict[str, object]]:
    watched.grey._record.flush()
    return record.read(watched.disk)
