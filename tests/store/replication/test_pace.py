"""What a follower that is behind costs its leader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from domain.controller.answer import GroupAnswer
from domain.controller.change import AlterSet
from domain.controller.group import SetMember, StoreGroup, StoreReplica
from domain.replication.message import Era, Follow, FollowAccepted, FollowRefused, LogBytes, LogHeld
from domain.replication.ports import BatchMark
from store.replication.fence import FenceCounts
from store.replication.leading import DISK_PART_BYTES, PART_BYTES, Leading
from store.replication.pace import SOCKET_NS, UNKNOWN, ProcessorTime
from tests.simulation.kit.clock import VirtualClock
from tests.store.replication.test_leading import FakeLog

MIB = 1024 * 1024
READ_NS = 300_000
RECENT = 16 * MIB
TENTH = 100 * MIB
"""Bytes a second for which a fast disk takes a tenth of its leader's time."""
GROUP = StoreGroup(
    "main", "broker-a", 4, tuple(StoreReplica(number, f"n{number}", f"h:{number}", str(number)) for number in (1, 2, 3)), 1, 1,
    (SetMember(1, "1"),), 1,
)  # fmt: skip


@cache
def zeros(size: int) -> bytes:
    return bytes(size)


class SlowLog(FakeLog):
    """A log of `size` bytes, whose disk takes its time.

    read_ns   what a read of the disk takes
    disk      bytes that were read from it; `spent_ns` is their time
    """

    def __init__(self, clock: VirtualClock, size: int = 300 * MIB) -> None:
        super().__init__(size)
        self.incarnation = self.epoch = 1
        self.begin = 0
        self.read_ns = READ_NS
        self.disk = 0
        self.spent_ns = 0
        self.proven: list[tuple[int, bool]] = []
        self._clock = clock

    @property
    def recent(self) -> int:
        return self.written - RECENT

    def batch_before(self, position: int) -> BatchMark | None:
        return None

    def eras(self) -> list[Era]:
        return [Era(1, 0)]

    def read(self, position: int, size: int, proven: bool = True) -> bytes:
        data = zeros(min(size, self.written - position))
        if position < self.recent:
            self.spent_ns += self.read_ns
            self.disk += len(data)
            self._clock.stall(self.read_ns / 1_000_000)
            self.proven.append((position, proven))
        return data


class Nobody:
    """`SetKeeper` that never answers."""

    def alter(self, change: AlterSet, done: Callable[[GroupAnswer | None], None]) -> None:
        pass

    def poll(self) -> None:
        pass


class Reader:
    """`FollowerConnection` of a follower that takes everything at once; or, when `takes` is False, nothing.

    bytes   how many it was sent
    """

    def __init__(self, leading: Leading, number: int, begin: int = 0) -> None:
        self.parts: list[LogBytes] = []
        self.accepted = 0
        self.bytes = 0
        self.takes = True
        self._leading = leading
        leading.follow(self, Follow(None, "broker-a", number, number, 1, (Era(1, 0),), 0, begin))

    def send(self, event: FollowAccepted | FollowRefused | LogBytes) -> None:
        if isinstance(event, LogBytes):
            self.parts.append(event)
            self.bytes += len(event.data)
            end = event.position + len(event.data)
            if self.takes:
                self._leading.held(self, LogHeld(1, end, end))
        elif isinstance(event, FollowAccepted):
            self.accepted += 1

    def close(self, reason: str, rest_ms: int = 0) -> None:
        raise AssertionError(reason)


class Busy:
    """A leader whose clients are written for at `rate` bytes a second and keep it busy for `share` of its time.

    turn_ms   how long a turn of its loop takes
    starved   share of its busy time in which it has no processor
    """

    def __init__(self, rate: int, share: float = 1.0, turn_ms: int = 2, size: int = 300 * MIB) -> None:
        self.rate = rate
        self.share = share
        self.clock = VirtualClock()
        self.log = SlowLog(self.clock, size)
        self.leading = Leading(self.log, GROUP, 1, Nobody(), self.clock, pytest.fail, self.busy, FenceCounts())
        self.leading.start()
        self.starved = 0.0
        self._own_ns = 0.0
        self._turn_ms = turn_ms

    def busy(self) -> ProcessorTime:
        """As the operating system counts it: reads of the disk wait for that, and are not counted."""
        both = int(self._own_ns) + self.log.disk * SOCKET_NS // MIB
        return ProcessorTime(int(both * (1 - self.starved)), int(both * self.starved))

    def run_for(self, milliseconds: int) -> None:
        clock = self.clock
        end = clock.monotonic_ns() + milliseconds * 1_000_000
        while (before := clock.monotonic_ns()) < end:
            clock.stall(self._turn_ms)
            clock.run_for(0)
            passed = clock.monotonic_ns() - before
            self._own_ns += passed * self.share
            self.log.written += passed * self.rate // 1_000_000_000
            self.log.synced = self.log.written
            self.log.notified()
            clock.run_turn()

    def cost(self, milliseconds: int) -> float:
        began, disk, spent = self.clock.monotonic_ns(), self.log.disk, self.log.spent_ns
        self.run_for(milliseconds)
        took = self.log.spent_ns - spent + (self.log.disk - disk) * SOCKET_NS // MIB
        return took / (self.clock.monotonic_ns() - began)


def led(clock: VirtualClock) -> tuple[Leading, SlowLog]:
    log = SlowLog(clock)
    leading = Leading(log, GROUP, 1, Nobody(), clock, pytest.fail, lambda: UNKNOWN, FenceCounts())
    leading.start()
    return leading, log


@pytest.mark.parametrize("followers", [1, 2])
@pytest.mark.parametrize("read_us", [30, 300, 10_000])
def test_followers_that_are_behind_cost_a_leader_that_is_busy_less_than_a_tenth_of_its_time(
    followers: int, read_us: int
) -> None:
    leader = Busy(rate=0)
    leader.log.read_ns = read_us * 1_000
    readers = [Reader(leader.leading, number) for number in range(2, 2 + followers)]
    leader.run_for(500)
    assert 0.03 < leader.cost(2_000) < 0.1
    for reader in readers:
        assert max(len(part.data) for part in reader.parts) == DISK_PART_BYTES, "a read from the disk has this size"


def test_a_leader_that_gets_half_a_processor_gives_half_as_much() -> None:
    leader = Busy(rate=0)
    leader.starved = 0.5
    Reader(leader.leading, 2)
    leader.run_for(500)
    assert 0.015 < leader.cost(2_000) < 0.04


def test_a_leader_of_which_it_is_not_known_how_busy_it_is_is_taken_for_busy() -> None:
    leader = Busy(rate=0, share=0)
    leader.leading.close()
    leader.leading = Leading(leader.log, GROUP, 1, Nobody(), leader.clock, pytest.fail, lambda: UNKNOWN, FenceCounts())
    leader.leading.start()
    Reader(leader.leading, 2)
    leader.run_for(500)
    assert 0.03 < leader.cost(2_000) < 0.1


@pytest.mark.parametrize("turn_ms", [1, 80])
@pytest.mark.parametrize("rate", [1, 57, 400])
def test_a_follower_catches_up_with_any_load_and_gets_little_more_than_is_written(rate: int, turn_ms: int) -> None:
    leader = Busy(rate * MIB, turn_ms=turn_ms)
    leader.log.read_ns = 20_000
    leader.run_for(300)
    reader = Reader(leader.leading, 2)
    leader.run_for(300)
    for _ in range(5):
        written, sent, behind = leader.log.written, reader.bytes, leader.log.written - reader.bytes
        leader.run_for(500)
        if leader.log.written - reader.bytes < 3 * RECENT:
            break
        assert leader.log.written - reader.bytes < behind - (leader.log.written - written) // 10
        passed = max(leader.log.written - written, 500 * TENTH // 1_000)
        assert reader.bytes - sent < 1.4 * passed
    assert reader.bytes > 50 * MIB


def test_a_leader_that_is_idle_sends_fast_until_it_is_not() -> None:
    leader = Busy(rate=MIB, share=0.1, size=4_000 * MIB)
    leader.log.read_ns = 20_000
    Reader(leader.leading, 2)
    leader.run_for(2_000)
    assert 0.35 < leader.cost(2_000) < 0.55, "half of its time is used, with its own work"
    leader.share = 0.45
    leader.run_for(1_000)
    assert leader.cost(2_000) < 0.18
    leader.share = 0.9
    leader.run_for(1_000)
    assert leader.cost(2_000) < 0.1


def test_much_that_is_written_at_once_is_made_up_for_in_time() -> None:
    leader = Busy(rate=0, size=400 * MIB)
    Reader(leader.leading, 2)
    leader.run_for(500)
    leader.log.written = leader.log.synced = leader.log.written + 100 * MIB
    leader.run_for(100)
    assert leader.cost(100) < 0.5
    leader.run_for(1_000)
    assert leader.cost(500) < 0.1


def test_reads_that_wait_for_a_slow_disk_are_no_idle_time() -> None:
    leader = Busy(rate=MIB, share=0.1)
    leader.log.read_ns = 20_000_000
    Reader(leader.leading, 2)
    leader.run_for(5_000)
    assert leader.cost(5_000) < 0.55


def test_the_follower_that_is_nearest_catches_up_first_and_no_other_one_waits_for_ever() -> None:
    leader = Busy(rate=100 * MIB)
    leader.log.read_ns = 20_000
    leader.run_for(300)
    far, near = Reader(leader.leading, 2), Reader(leader.leading, 3, 40 * MIB)
    leader.run_for(500)
    before = near.bytes, far.bytes
    leader.run_for(2_000)
    got = near.bytes - before[0], far.bytes - before[1]
    assert got[0] > 220 * MIB
    assert MIB < got[1] < 10 * MIB
    near.takes = False
    leader.run_for(500)
    before = near.bytes, far.bytes
    leader.run_for(2_000)
    got = near.bytes - before[0], far.bytes - before[1]
    assert got[0] == 0, "its window is full"
    assert got[1] > 220 * MIB


def test_what_is_in_memory_is_sent_without_a_pause() -> None:
    clock = VirtualClock()
    leading, log = led(clock)
    log.written = log.synced = RECENT
    reader = Reader(leading, 2)
    clock.run_for(1)
    assert sum(len(part.data) for part in reader.parts) == RECENT
    assert max(len(part.data) for part in reader.parts) == PART_BYTES
    assert log.spent_ns == 0


def test_checksums_are_computed_here_only_where_a_follower_may_have_met_damage() -> None:
    clock = VirtualClock()
    leading, log = led(clock)
    Reader(leading, 2)
    clock.run_for(300)
    assert [proven for position, proven in log.proven] == [position < 2 * PART_BYTES for position, _ in log.proven]
    assert len(log.proven) > 2 * PART_BYTES // DISK_PART_BYTES


def test_what_is_confirmed_is_told_with_the_next_part_or_soon() -> None:
    clock = VirtualClock()
    leading, log = led(clock)
    log.written = log.synced = 1_000
    reader = Reader(leading, 2)
    clock.run_for(50)
    before = len(reader.parts)
    log.written = log.synced = 2_000
    log.notified()
    clock.run_turn()
    assert [(part.position, part.confirmed) for part in reader.parts[before:]] == [(1_000, 2_000)], "one part tells both"
    leading.group_heard(replace(GROUP, members=(SetMember(1, "1"), SetMember(2, "2")), set_epoch=2))
    log.written = log.synced = 3_000
    log.notified()
    clock.run_turn()
    assert [(part.position, part.confirmed) for part in reader.parts[before + 1 :]] == [(2_000, 2_000)]
    clock.run_for(5)
    assert [(part.position, part.confirmed) for part in reader.parts[before + 2 :]] == [(3_000, 3_000)]
