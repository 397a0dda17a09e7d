"""A replica for which no file descriptor is left goes on when there is one, and takes no whole bytes for damaged ones."""

from __future__ import annotations

import pytest

from domain.errors import StoreError
from domain.replication.ports import DamagedPart, ReplicaDataError
from store.log.segment import OPEN_FILES_MAX
from tests.simulation.kit.disk import MemoryDisk
from tests.store.driver import wait
from tests.store.replication.replica_log.pair import Pair, durable, log_bytes, opened


class Two(Pair):
    def __init__(self, count: int) -> None:
        super().__init__(count, size=1_000)

    def catch_up(self) -> None:
        super().catch_up()
        assert self.follower.applied == self.follower.behind


def test_a_follower_that_gets_no_descriptor_for_its_next_file_says_so_and_goes_on() -> None:
    two = Two(3)
    two.ship()
    two.send(20)
    two.disk.descriptors = 0
    with pytest.raises(ReplicaDataError, match="file descriptor"):
        two.ship()
    assert two.follower.broken is None
    assert two.follower.full is not None
    two.clock.run_for(5_000)
    two.disk.descriptors = -1
    two.clock.run_for(1_100)
    assert two.follower.full is None
    two.catch_up()
    end = two.leader.replica.written
    assert log_bytes(two.disk, 0, end) == log_bytes(two.leader_disk, 0, end)


def test_a_follower_that_gets_no_descriptor_to_read_what_it_applies_applies_it_later() -> None:
    two = Two(4 * (OPEN_FILES_MAX + 26))
    two.ship()
    durable(two.follower, two.clock)
    two.follower.confirm(two.follower.written // 8)
    two.clock.run_for(2_000)
    again = opened(two.disk.killed(two.clock), two.clock)
    disk = again._disk  # what was just read for the start is not applied
    assert isinstance(disk, MemoryDisk)
    before = again.applied
    again._log.files.segments.close()
    disk.descriptors = 0
    again.confirm(again.written)
    two.clock.run_for(500)
    assert again.broken is None
    assert before <= again.applied < again.behind
    disk.descriptors = -1
    two.clock.run_for(2_000)
    assert again.applied == again.behind


def test_a_follower_without_a_descriptor_for_its_log_does_not_lead_and_nothing_is_damaged() -> None:
    two = Two(40)
    two.ship()
    durable(two.follower, two.clock)
    again = opened(two.disk.killed(two.clock), two.clock)
    disk = again._disk
    assert isinstance(disk, MemoryDisk)
    again._log.files.segments.close()
    disk.descriptors = 0
    with pytest.raises(StoreError, match="descriptor"):
        again.promote(2)


def test_a_cut_that_gets_no_descriptor_is_made_when_there_is_one() -> None:
    two = Two(3)
    two.catch_up()
    common = two.follower.written
    two.send(20)
    two.ship()
    durable(two.follower, two.clock)
    two.clock.run_for(1_000)
    cut: list[int] = []
    real = two.disk.rename

    def rename(old: str, new: str) -> None:
        two.disk.descriptors = 0 if not cut else -1
        real(old, new)

    two.disk.rename = rename  # type: ignore[method-assign]
    two.follower.cut(common, lambda: cut.append(2))
    two.clock.run_for(3_000)
    assert cut == []
    assert two.follower.broken is None
    two.disk.rename = real  # type: ignore[method-assign]
    two.disk.descriptors = -1
    two.clock.run_until(lambda: bool(cut))
    assert two.follower.written == common
    assert log_bytes(two.disk, 0, 1 << 40) == log_bytes(two.leader_disk, 0, common)
    two.catch_up()


def test_a_mending_that_gets_no_descriptor_to_copy_with_writes_no_zeros_over_good_bytes() -> None:
    two = Two(40)
    two.catch_up()
    segments = two.follower._log.files.segments
    first = segments.all[0]
    begin = next(header.position + header.size for header, _ in segments.walk(first.base, False))
    good = log_bytes(two.disk, 0, two.follower.written)
    mending = two.follower.parts.mend(DamagedPart(begin, begin + 100))
    assert mending is not None
    real = two.disk.open

    def open_file(name: str) -> object:
        made = real(name)
        two.disk.descriptors = 0  # for all that follows
        segments._close(first)
        return made

    two.disk.open = open_file  # type: ignore[assignment]
    said: list[object] = []
    mending.start(said.append)
    two.clock.run_until(lambda: bool(said))
    assert said[0] is not None, "it has failed, and another attempt follows"
    mending.abandon()
    two.disk.open = real  # type: ignore[method-assign]
    two.disk.descriptors = -1
    assert log_bytes(two.disk, 0, two.follower.written) == good


def test_a_replica_rolls_to_no_other_file_while_there_is_no_descriptor_for_one() -> None:
    two = Two(2)
    two.catch_up()
    active = two.follower._log.files.segments.active
    two.disk.descriptors = 0
    two.follower._raw.roll()
    assert two.follower.broken is None
    assert two.follower._log.files.segments.active is active
    two.disk.descriptors = -1
    two.follower._raw.roll()
    assert two.follower._log.files.segments.active is not active


def test_waiting_for_a_cut_ends_with_the_log() -> None:
    two = Two(3)
    two.catch_up()
    two.send(20)
    two.ship()
    durable(two.follower, two.clock)
    wait(two.clock, two.follower.sync)
    two.disk.descriptors = 0
    two.follower.cut(two.follower.applied, lambda: None)
    two.clock.run_for(3_000)
    two.follower.close()
    two.disk.descriptors = -1
    before = log_bytes(two.disk, 0, 1 << 40)
    two.clock.run_for(3_000)
    assert log_bytes(two.disk, 0, 1 << 40) == before, "another life of the replica may have it"
