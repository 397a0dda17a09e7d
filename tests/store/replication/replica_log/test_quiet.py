"""Retention of a replica that leads a log to which nothing is written."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.replication.replica_log.pair import CONFIG, Leading, anew, log_bytes, opened, ship

QUIET = replace(CONFIG, retention_ms=60_000, retention_check_ms=1_000)


def test_the_oldest_segment_of_a_quiet_log_goes_once_a_batch_follows() -> None:
    clock = VirtualClock()
    disk = MemoryDisk(clock)
    leader = Leading(opened(disk, clock, QUIET), disk, clock, 1, QUIET).alone()
    follower = opened(MemoryDisk(clock), clock, QUIET)
    leader.driver.topic("orders")
    for number in range(5):
        leader.driver.send("orders", b"%d " % number + b"x" * 100)
    before = disk.syncs
    clock.run_for(600_000)
    assert len(disk.names("checkpoint")) <= 2
    assert disk.syncs - before < 200, "a checkpoint after the other, for a segment that cannot go yet"
    leader.driver.send("orders", b"a batch")
    clock.run_for(5_000)
    assert leader.replica.first > 0
    assert leader.driver.bodies("orders") == [b"a batch"]
    anew(follower, leader.replica.first, 77)
    ship(leader.replica, follower)
    clock.run_for(1_000)
    end = leader.replica.written
    again = opened(disk.killed(clock), clock, QUIET)
    assert (again.first, again.written) == (leader.replica.first, end)
    assert log_bytes(disk, again.first, end)
