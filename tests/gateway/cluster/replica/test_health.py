"""What a replica measures between two heartbeats."""

from __future__ import annotations

from domain.controller.health import UNMEASURED, ReplicaFigures
from domain.replication.ports import LogWork
from gateway.cluster.replica.health import ReplicaHealth
from store.replication.ack_times import AckTimes, PathTimes
from tests.simulation.kit.clock import START_MS, VirtualClock

MS = 1_000_000


def made() -> tuple[VirtualClock, ReplicaHealth]:
    clock = VirtualClock()
    clock.run_for(1)
    meter = ReplicaHealth(clock, 500)
    meter.start()
    return clock, meter


def test_nothing_is_measured_where_nothing_happens() -> None:
    clock, meter = made()
    clock.run_for(249)
    assert meter.take(LogWork(), UNMEASURED) == ReplicaFigures(UNMEASURED, UNMEASURED, 0, 0, START_MS + 250, 500)


def test_syncs_since_the_last_heartbeat_have_their_mean() -> None:
    clock, meter = made()
    meter.take(LogWork(10, 1_000 * MS), UNMEASURED)
    clock.run_for(250)
    assert meter.take(LogWork(12, 1_050 * MS), UNMEASURED).sync_us == 25_000
    clock.run_for(250)
    assert meter.take(LogWork(12, 1_050 * MS), UNMEASURED).sync_us == UNMEASURED


def test_a_sync_that_takes_longer_than_a_heartbeat_is_told_while_it_lasts() -> None:
    clock, meter = made()
    clock.run_for(200)
    since = clock.monotonic_ns()
    clock.run_for(50)
    assert meter.take(LogWork(1, 5 * MS, since), UNMEASURED).sync_us == 5_000
    clock.run_for(250)
    assert meter.take(LogWork(1, 5 * MS, since), UNMEASURED).sync_us == 300_000
    clock.run_for(250)
    assert meter.take(LogWork(2, 405 * MS), UNMEASURED).sync_us == 400_000


def test_the_work_of_another_log_begins_at_nothing() -> None:
    _, meter = made()
    meter.take(LogWork(10, 1_000 * MS, 0, 7), UNMEASURED)
    meter.other_log()
    found = meter.take(LogWork(2, 8 * MS, 0, 1), UNMEASURED)
    assert (found.sync_us, found.errors, meter.errors) == (4_000, 1, 8)


def test_the_longest_turn_since_the_last_heartbeat_is_told_once() -> None:
    clock, meter = made()
    clock.run_for(120)
    clock.stall(300)
    clock.run_for(100)
    clock.stall(100)
    clock.run_for(100)
    assert 250_000 <= meter.take(LogWork(), UNMEASURED).turn_us <= 300_000
    clock.run_for(250)
    assert meter.take(LogWork(), UNMEASURED).turn_us == 0


def test_connections_that_broke_and_errors_of_the_log_count() -> None:
    _, meter = made()
    meter.broke()
    meter.broke()
    assert meter.take(LogWork(errors=3), UNMEASURED).errors == 5
    assert meter.take(LogWork(errors=3), UNMEASURED).errors == 0
    assert meter.errors == 5


def test_the_time_to_the_fastest_answer_is_sampled_one_position_at_a_time() -> None:
    clock = VirtualClock()
    acks = AckTimes(clock)
    acks.written(100)
    clock.run_for(3)
    acks.written(200)
    acks.held(90)
    clock.run_for(2)
    acks.held(100)
    acks.held(150)
    acks.written(200)
    clock.run_for(7)
    acks.held(200)
    assert acks.take_us() == 6_000
    acks.written(200)
    clock.run_for(1_000)
    assert acks.take_us() == UNMEASURED, "nothing more was written"


def test_an_answer_that_does_not_come_is_told_while_it_is_waited_for() -> None:
    clock = VirtualClock()
    acks = AckTimes(clock)
    clock.run_for(100)
    acks.written(100)
    clock.run_for(50)
    assert acks.take_us() == UNMEASURED, "it has only just begun"
    clock.run_for(250)
    assert acks.take_us() == 300_000
    acks.forget()
    assert acks.take_us() == UNMEASURED, "nobody follows"


def test_the_path_to_each_follower_is_measured_by_itself() -> None:
    clock = VirtualClock()
    paths = PathTimes(clock)
    paths.follows(2)
    paths.follows(3)
    paths.written(100)
    clock.run_for(4)
    paths.held(2, 100)
    paths.held(7, 100)
    clock.run_for(300)
    assert paths.take() == ((2, 4_000), (3, 304_000)), "it is told while it lasts"
    clock.run_for(200)
    assert paths.take() == ((3, 504_000),)
    paths.held(3, 100)
    paths.written(200)
    paths.lost(3)
    clock.run_for(8)
    paths.held(2, 200)
    assert paths.take() == ((2, 8_000),), "who does not follow is not waited for"
    assert paths.take() == ()
