"""A replica follows a log, applies what is confirmed, and leads when it is promoted."""

from __future__ import annotations

import pytest

from domain.errors import ErrorCode, Failure, StoreError
from domain.message.message import Message
from domain.replication.message import Era
from domain.replication.ports import ReplicaDataError
from domain.topic.topic import Durability
from store.checkpoint.recovery import ABORT
from store.replication.replica_log.beginning import MARKER
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.driver import Driver, wait
from tests.store.replication.replica_log.pair import (
    CONFIG,
    Leading,
    Pair,
    anew,
    apply_all,
    durable,
    log_bytes,
    opened,
    ship,
)


def test_a_promoted_follower_has_all_that_its_leader_had() -> None:
    two = Pair(120)
    two.ship()
    apply_all(two.follower, two.clock, two.follower.written // 2)
    assert 0 < two.follower.applied <= two.follower.written // 2
    expected = two.bodies()
    end = two.leader.replica.written
    assert log_bytes(two.disk, 0, end) == log_bytes(two.leader_disk, 0, end)
    new = Leading(two.follower, two.disk, two.clock, 2).alone()
    assert two.bodies(new) == expected
    assert len(expected) == 120
    assert new.replica.eras() == [Era(1, 0, two.leader.replica.incarnation), Era(2, new.replica.begin, new.replica.incarnation)]
    new.driver.send("orders", b"more")
    assert two.bodies(new) == [*expected, b"more"]


def test_nothing_above_the_confirmed_position_is_applied() -> None:
    two = Pair(40)
    two.ship()
    two.clock.run_for(5_000)
    assert two.follower.applied == 0


def test_a_follower_cuts_what_was_not_confirmed_and_follows_the_new_leader() -> None:
    two = Pair(20)
    two.ship()
    durable(two.follower, two.clock)
    common = two.follower.written
    apply_all(two.follower, two.clock, common)
    two.send(40)  # these the follower never gets
    two.leader.driver.store.close()
    old = opened(two.leader_disk, two.clock)
    assert old.incarnation == two.leader.replica.incarnation
    new = Leading(two.follower, two.disk, two.clock, 2).alone()
    new.driver.send("orders", b"of the new epoch")
    assert old.written > common
    wait(two.clock, lambda done: old.cut(common, done))
    assert old.written == common
    ship(new.replica, old)
    end = new.replica.written
    assert log_bytes(two.leader_disk, 0, end) == log_bytes(two.disk, 0, end)
    apply_all(old, two.clock, end)
    assert old.eras() == new.replica.eras()
    third = Leading(old, two.leader_disk, two.clock, 3).alone()
    assert two.bodies(third) == two.bodies(new)


def test_a_position_is_readable_when_all_members_have_it() -> None:
    two = Pair(10)
    leader = two.leader.driver

    def position() -> object:
        return leader.call(leader.store.positions.offset, "g", "orders", 0)

    assert leader.call(leader.store.positions.commit, "g", [("orders", 0, 3)]) is None
    two.leader.confirming = False
    confirmed = two.leader.replica.written
    leader.store.positions.commit("g", [("orders", 0, 8)], lambda _: None)
    leader.store.positions.commit("other", [("orders", 0, 8)], lambda _: None)
    two.clock.run_for(2_000)
    assert position() == 3
    assert isinstance(leader.call(leader.store.positions.offset, "other", "orders", 0), Failure)
    end = two.leader.replica.written
    assert end > confirmed
    two.leader.replica.confirm(end, confirmed)  # written by all, durable on none: not what was promised for `orders`
    assert position() == 3
    two.leader.replica.confirm(end, end)
    assert position() == 8


def test_a_cut_below_what_is_applied_is_refused() -> None:
    two = Pair(10)
    two.catch_up()
    with pytest.raises(ReplicaDataError, match="applied"):
        two.follower.cut(0, lambda: None)


def test_a_killed_follower_goes_on_as_the_same_log() -> None:
    two = Pair(100)
    two.catch_up()
    two.clock.run_for(3_000)
    assert two.disk.names("checkpoint")
    identity, written = two.follower.incarnation, two.follower.written
    disk = two.disk.killed(two.clock)
    again = opened(disk, two.clock)
    assert (again.incarnation, again.continues, again.written) == (identity, 0, written)
    assert again.applied > 0
    new = Leading(again, disk, two.clock, 2).alone()
    assert two.bodies(new) == two.bodies()


def test_after_a_power_failure_the_log_is_another_one() -> None:
    two = Pair(30)
    two.ship()
    durable(two.follower, two.clock)
    kept = two.follower.written
    identity = two.follower.incarnation
    two.send(30)
    two.ship()
    disk = two.disk.powered_off(two.clock)
    again = opened(disk, two.clock, CONFIG.__class__(segment_bytes=4_096, boot="two", fresh_incarnation=4_711))
    assert (again.incarnation, again.continues) == (4_711, identity)
    assert again.written >= kept
    ship(two.leader.replica, again)
    new = Leading(again, disk, two.clock, 2).alone()
    assert two.bodies(new) == two.bodies()


def test_a_new_beginning_throws_everything_away_and_survives_a_crash() -> None:
    two = Pair(30)
    two.catch_up()
    anew(two.follower, 8_192, 99)
    assert (two.follower.first, two.follower.written, two.follower.applied, two.follower.incarnation) == (
        8_192,
        8_192,
        8_192,
        99,
    )
    two.follower.close()
    two.disk.replace(MARKER, b"4096 100\n")
    two.disk.remove(ABORT)
    again = opened(two.disk, two.clock)
    assert (again.first, again.written, again.incarnation, again.continues) == (4_096, 4_096, 100, 0)
    assert two.disk.read_all(MARKER) is None


def test_bytes_that_are_not_whole_or_not_the_next_ones_are_refused_and_not_written() -> None:
    two = Pair(10)
    data = two.leader.replica.read(0, 4_000)
    for position, bad in ((1, data), (0, data[:-1]), (0, data[:100] + bytes((data[100] ^ 1,)) + data[101:]), (0, b"x" * 80)):
        with pytest.raises(ReplicaDataError):
            two.follower.append(position, bad)
        assert two.follower.written == 0
    two.follower.append(0, data)
    assert two.follower.written == len(data)


def test_batches_of_an_older_epoch_are_refused() -> None:
    two = Pair(3)
    two.ship()
    new = Leading(two.follower, two.disk, two.clock, 5).alone()
    new.driver.send("orders", b"new")
    third = opened(MemoryDisk(two.clock), two.clock)
    ship(new.replica, third)
    two.send(60)
    position = third.written
    old = two.leader.replica.read(two.leader.replica.first, 1 << 20)
    with pytest.raises(ReplicaDataError):
        third.append(position, old)


def test_a_log_that_is_not_durable_does_not_lead() -> None:
    two = Pair(3)
    two.ship()
    with pytest.raises(StoreError, match="durable"):
        two.follower.promote(2)


def test_a_follower_deletes_what_the_leader_does_not_keep() -> None:
    two = Pair(200)
    two.catch_up()
    bases = [int(name) for name in two.disk.names("log")]
    two.follower.drop_before(bases[2] + 10)
    two.clock.run_for(10_000)
    assert two.follower.first == bases[2]
    assert int(two.disk.names("log")[0]) == bases[2]
    disk = two.disk.killed(two.clock)
    again = opened(disk, two.clock)
    assert again.first == bases[2]
    ship(two.leader.replica, again)
    new = Leading(again, disk, two.clock, 2).alone()
    rest = two.bodies(new)
    assert rest == two.bodies()[-len(rest) :]


def test_a_leader_answers_when_its_replicas_have_it_and_a_deposed_one_says_so() -> None:
    two = Pair()
    two.leader.driver.topic("shipped")
    two.ship()
    leading = Leading(two.follower, two.disk, two.clock, 2)
    answers: list[object] = []
    ready: list[int] = []
    leading.replica.when_ready(lambda: ready.append(1))
    two.clock.run_for(1_000)
    assert not ready
    leading.replica.confirm(leading.replica.written, leading.replica.synced)
    two.clock.run_for(1_000)
    assert ready
    leading.alone()
    leading.driver.topic("orders", Durability.REPLICATED_FLUSHED)
    leading.confirming = False
    leading.driver.store.log.append([Message("orders", b"waits", b"", queue_id=0)], answers.append)
    two.clock.run_for(1_000)
    assert not answers
    leading.replica.depose(Failure(ErrorCode.STORE_UNAVAILABLE, "another replica leads"))
    two.clock.run_for(10)
    assert isinstance(answers[0], Failure)


def test_damage_below_what_was_promised_is_refused_at_the_start() -> None:
    two = Pair(100)
    two.ship()
    durable(two.follower, two.clock)
    two.clock.run_for(1_000)
    disk = two.disk.killed(two.clock)
    disk.flip(f"log/{0:020d}", 500)
    with pytest.raises(StoreError, match="damaged"):
        opened(disk, two.clock)


def test_a_disk_that_fails_breaks_the_log() -> None:
    two = Pair(10)
    two.disk.fail_syncs = True
    two.ship()
    done: list[int] = []
    two.follower.sync(lambda: done.append(1))
    two.clock.run_for(100)
    assert not done
    assert two.follower.broken is not None
    with pytest.raises(StoreError, match="sync"):
        two.follower.promote(2)


def test_a_log_from_before_its_node_was_a_replica_names_no_era_of_it() -> None:
    clock = VirtualClock()
    disk = MemoryDisk(clock)
    alone = Driver(CONFIG.__class__(segment_bytes=4_096), disk, clock)
    alone.topic("orders")
    alone.send("orders", b"before")
    alone.store.close()
    found = opened(disk, clock)
    assert found.foreign
    assert found.eras() == []
    leading = Leading(found, disk, clock, 1).alone()
    assert leading.driver.bodies("orders") == [b"before"]
    leading.driver.store.close()
    again = opened(disk, clock)
    assert not again.foreign
    assert next(era.epoch for era in again.eras()) == 0
    fresh = opened(MemoryDisk(clock), clock)
    assert not fresh.foreign
