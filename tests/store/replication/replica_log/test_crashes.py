"""A replica whose machine dies at any operation of its disk: it is the same log, or another one, and never half of one."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from store.replication.replica_log.follower_log import Follower
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import Crash, MemoryDisk, Operation
from tests.store.driver import wait
from tests.store.faults.soak import SOAK
from tests.store.replication.replica_log.pair import CONFIG, Pair, anew, log_bytes, opened, ship


class Life(Pair):
    """A pair whose follower has all of the log."""

    def __init__(self, count: int = 60) -> None:
        super().__init__(count)
        self.catch_up()
        self.clock.run_for(2_000)


def dies_at(disk: MemoryDisk, at: int) -> list[int]:
    """Let the machine die at an operation that changes the disk; the list has how many there were."""
    seen = [0]

    def watch(operation: Operation) -> None:
        if operation.kind != "read":
            seen[0] += 1
            if seen[0] > at:
                raise Crash

    disk.watch = watch
    return seen


class SyncWatch:
    """Sees that no file is cut, or goes, while it is synced.

    cuts   files that were cut, or have gone
    """

    def __init__(self, disk: MemoryDisk, clock: VirtualClock) -> None:
        self.cuts: list[str] = []
        self._clock = clock
        self._sync_ns = int(disk.sync_ms * 1_000_000)
        self._until: dict[str, list[int]] = {}
        disk.watch = self._began

    def _began(self, operation: Operation) -> None:
        now, name = self._clock.monotonic_ns(), operation.name
        ends = self._until.setdefault(name, [])
        if operation.kind == "sync":
            ends.append(now + self._sync_ns)
        if operation.kind in ("rename", "truncate") and name.startswith("log/"):
            if operation.kind == "rename":
                ends.pop()  # its own sync, which ends at once
            assert all(each < now for each in ends), f"{name} is cut while it is synced"
            self.cuts.append(name)


def test_syncs_wait_while_the_log_is_cut() -> None:
    life = Life()
    base = [int(name) for name in life.disk.names("log")][1]
    life.send(60)
    follower = life.follower
    life.ship()
    behind = follower.applied
    assert base < behind < follower.written
    calls: list[str] = []
    watch = SyncWatch(life.disk, life.clock)
    follower.sync(lambda: calls.append("first"))
    follower.cut(behind, lambda: calls.append("done"))
    follower.sync(lambda: calls.append("second"))
    for _ in range(20):
        life.clock.run_for(0.25)
        follower.sync(lambda: None)
    life.clock.run_until(lambda: {"done", "second"} <= set(calls))
    assert follower.written == behind
    assert len(watch.cuts) > 1, "files have gone, and one has become shorter"


@pytest.mark.parametrize("seed", range(30 if SOAK else 2))
def test_a_new_beginning_is_whole_wherever_the_machine_dies(seed: int) -> None:
    """Whatever names the power failure brings back: the log that has begun stays, or begins once more; its records never go
    under its name."""
    at = 0
    while True:
        life = Life(30)
        chance = random.Random(seed * 1_000 + at)
        seen = dies_at(life.disk, at)
        held = 0
        try:
            anew(life.follower, life.leader.replica.first, 99)
            life.ship()
            wait(life.clock, life.follower.sync)
            held = life.follower.synced
        except (Crash, AssertionError):
            pass
        died = seen[0] > at
        disk = life.disk.powered_off(life.clock, chance=chance)
        again = opened(disk, life.clock, replace(CONFIG, boot="two", fresh_incarnation=4_711))
        if 99 in (again.incarnation, again.continues):
            assert again.written >= held, f"died at {at}: the log that it continues had {held} bytes"
        ship_again(life, again, disk)
        if not died:
            return
        at += 1


def ship_again(life: Life, follower: Follower, disk: MemoryDisk) -> None:
    end = life.leader.replica.written
    if follower.written < life.leader.replica.first or follower.written > end:
        anew(follower, life.leader.replica.first, 5_000)
    ship(life.leader.replica, follower)
    assert log_bytes(disk, follower.first, end) == log_bytes(life.leader_disk, follower.first, end)
    follower.close()


def test_the_log_that_is_continued_is_named_until_the_controllers_know_the_new_one() -> None:
    """The removal of the note may be lost with the power: it must not name the log before the last one then."""
    life = Life(10)
    first = life.follower.incarnation
    config = replace(CONFIG, fresh_incarnation=2_001, boot="two")
    disk = life.disk.powered_off(life.clock)
    second = opened(disk, life.clock, config)
    assert (second.incarnation, second.continues) == (2_001, first)
    second.registered()
    disk = disk.powered_off(life.clock, chance=Always())
    third = opened(disk, life.clock, replace(config, fresh_incarnation=3_001, boot="three"))
    assert (third.incarnation, third.continues) == (3_001, 2_001)


def test_a_log_that_is_not_registered_yet_keeps_its_identity_when_power_is_lost_again() -> None:
    """Its registration may have been made, and the answer lost: a third log that continued the first would be nobody's heir."""
    life = Life(10)
    first = life.follower.incarnation
    config = replace(CONFIG, fresh_incarnation=2_001, boot="two")
    disk = life.disk.powered_off(life.clock)
    second = opened(disk, life.clock, config)
    written = second.written
    disk = disk.powered_off(life.clock, chance=Always())
    third = opened(disk, life.clock, replace(config, fresh_incarnation=3_001, boot="three"))
    assert (third.incarnation, third.continues, third.written) == (2_001, first, written)


class Always(random.Random):
    """Everything that can be lost is."""

    def random(self) -> float:
        return 0.0
