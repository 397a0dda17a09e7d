"""A promoted replica may have another clock than its leader had: leases stay exclusive, timers are not early, times ascend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.message.message import Message
from domain.message.record import Record
from domain.topic.topic import Durability
from store.delay import parking
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.replication.replica_log.pair import CONFIG, Leading, apply_all, opened, ship

SKEW_MS = 500


class Failover:
    """A leader, and a replica whose clock is `ahead_ms` before the leader's. `done`: it leads now."""

    def __init__(self, ahead_ms: int, skew_ms: int = SKEW_MS) -> None:
        self.clock = VirtualClock()
        disk = MemoryDisk(self.clock)
        self.old = Leading(opened(disk, self.clock), disk, self.clock, 1).alone()
        self.old.driver.topic("t", Durability.FLUSHED)
        self._ahead_ms = ahead_ms
        self._skew_ms = skew_ms

    def done(self) -> Leading:
        """The replica is promoted, and its clock is what the store reads from now on."""
        disk = MemoryDisk(self.clock)
        config = replace(CONFIG, clock_skew_ms=self._skew_ms)
        follower = opened(disk, self.clock, config)
        ship(self.old.replica, follower)
        apply_all(follower, self.clock, follower.written)
        self.clock.step_wall(self._ahead_ms)
        return Leading(follower, disk, self.clock, 2, config).alone()


@pytest.mark.parametrize("ahead_ms", [-SKEW_MS, 0, SKEW_MS])
def test_a_lease_is_exclusive_for_its_whole_time_across_a_promotion(ahead_ms: int) -> None:
    failover = Failover(ahead_ms)
    failover.old.driver.send("t", b"once")
    began_ms = failover.clock.monotonic_ns() // 1_000_000
    (leased,) = failover.old.driver.lease("g", "t", invisible_ms=5_000).messages
    new = failover.done()
    while not (again := new.driver.lease("g", "t", invisible_ms=5_000).messages):
        failover.clock.run_for(10)
    waited_ms = failover.clock.monotonic_ns() // 1_000_000 - began_ms
    assert 5_000 <= waited_ms <= 5_000 + 2 * SKEW_MS + 100
    assert again[0].receipt.pop_ms > leased.receipt.pop_ms, "pop times ascend, whatever the clock says"
    assert new.driver.settle("g", "t", leased)[0] is not None, "the old receipt changes nothing"
    assert new.driver.settle("g", "t", again[0]) == [None]


def test_without_the_delay_a_lease_would_end_early() -> None:
    failover = Failover(SKEW_MS, 0)
    failover.old.driver.send("t", b"once")
    began_ms = failover.clock.monotonic_ns() // 1_000_000
    failover.old.driver.lease("g", "t", invisible_ms=5_000)
    new = failover.done()
    while not new.driver.lease("g", "t").messages:
        failover.clock.run_for(10)
    assert failover.clock.monotonic_ns() // 1_000_000 - began_ms < 5_000


def test_leases_of_the_new_leader_end_at_their_time() -> None:
    failover = Failover(0)
    new = failover.done()
    new.driver.send("t", b"its own")
    began_ms = failover.clock.monotonic_ns() // 1_000_000
    new.driver.lease("g", "t", invisible_ms=2_000)
    while not new.driver.lease("g", "t").messages:
        failover.clock.run_for(10)
    assert failover.clock.monotonic_ns() // 1_000_000 - began_ms < 2_000 + 100


def _timer(body: bytes, due_ms: int) -> Message:
    return Message("t", body, b"TIMER_DELIVER_MS\x01%d\x02" % due_ms, queue_id=0)


@pytest.mark.parametrize("ahead_ms", [-SKEW_MS, 0, SKEW_MS])
def test_timers_of_the_leader_before_are_not_early_and_none_is_lost(ahead_ms: int) -> None:
    failover = Failover(ahead_ms)
    began_ms = failover.clock.monotonic_ns() // 1_000_000
    failover.old.driver.append([_timer(b"inherited", failover.clock.wall_ms() + 4_000)])
    failover.old.driver.append([Message("t", b"level", b"DELAY\x011\x02", queue_id=0)])
    new = failover.done()
    own_due_ms = failover.clock.wall_ms() + 4_100 - (failover.clock.monotonic_ns() // 1_000_000 - began_ms)
    new.driver.append([_timer(b"own", own_due_ms), _timer(b"own later", own_due_ms + 5_000)])
    seen: dict[bytes, int] = {}
    while len(seen) < 4:
        failover.clock.run_for(10)
        now_ms = failover.clock.monotonic_ns() // 1_000_000 - began_ms
        for body in new.driver.bodies("t"):
            seen.setdefault(body, now_ms)
        assert now_ms < 20_000, seen
    assert 4_000 <= seen[b"inherited"] <= 4_000 + 2 * SKEW_MS + 100
    assert parking.LEVELS_MS[0] <= seen[b"level"] <= parking.LEVELS_MS[0] + 2 * SKEW_MS + 200
    assert seen[b"own"] >= 4_100, "it may wait behind one that is delayed"
    assert 9_100 <= seen[b"own later"] <= 9_250, "nothing is delayed behind it any more"


def test_store_times_ascend_across_a_promotion_to_a_clock_that_is_late() -> None:
    failover = Failover(-SKEW_MS)
    failover.old.driver.send("t", b"before")
    new = failover.done()
    new.driver.send("t", b"after")
    result = new.driver.read("t")
    before, after = (Record(each).store_ms for each in result.records)
    assert after >= before
