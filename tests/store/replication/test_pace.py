"""What a follower that is behind costs its leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from domain.controller.answer import GroupAnswer
from domain.controller.change import AlterSet
from domain.controller.group import SetMember, StoreGroup, StoreReplica
from domain.errors import Failure
from domain.replication.message import Era, Follow, FollowAccepted, FollowRefused, LogBytes, LogHeld
from domain.replication.ports import LogWork, MendableLog
from store.replication.leading import DISK_PART_BYTES, PART_BYTES, Leading
from tests.store.clock import VirtualClock

MIB = 1024 * 1024
READ_NS = 300_000
RECENT = 16 * MIB
GROUP = StoreGroup(
    "main", "broker-a", 4, tuple(StoreReplica(number, f"n{number}", f"h:{number}", str(number)) for number in (1, 2, 3)), 1, 1,
    (SetMember(1, "1"),), 1,
)  # fmt: skip


class SlowLog:
    """`LeaderLog` of 100 MiB, whose disk takes its time."""

    incarnation, epoch, begin, first = 1, 1, 0, 0
    broken = None

    def __init__(self, clock: VirtualClock) -> None:
        self.written = self.synced = 100 * MIB
        self.spent_ns = 0
        self.proven: list[tuple[int, bool]] = []
        self.told: Callable[[], None] = lambda: None
        self._clock = clock

    @property
    def recent(self) -> int:
        return self.written - RECENT

    @property
    def work(self) -> LogWork:
        raise AssertionError

    @property
    def parts(self) -> MendableLog:
        raise AssertionError

    def eras(self) -> Sequence[Era]:
        return [Era(1, 0)]

    def read(self, position: int, size: int, proven: bool = True) -> bytes:
        if position < self.recent:
            self.spent_ns += READ_NS
            self._clock._now_ns += READ_NS
            self.proven.append((position, proven))
        return bytes(min(size, self.written - position))

    def follow_progress(self, told: Callable[[], None]) -> None:
        self.told = told

    def confirm(self, written: int, synced: int) -> None:
        pass

    def members(self, count: int, least: int) -> None:
        pass

    def when_ready(self, done: Callable[[], None]) -> None:
        pass

    def depose(self, failure: Failure) -> None:
        pass


class Nobody:
    """`SetKeeper` that never answers."""

    def alter(self, change: AlterSet, done: Callable[[GroupAnswer | None], None]) -> None:
        pass

    def look(self) -> None:
        pass


class Reader:
    """`FollowerConnection` of a follower that takes everything at once."""

    def __init__(self, leading: Leading, number: int) -> None:
        self.parts: list[LogBytes] = []
        self.accepted = 0
        self._leading = leading
        leading.follow(self, Follow(None, "broker-a", number, number, 1, (Era(1, 0),), 0, 0))

    def send(self, event: FollowAccepted | FollowRefused | LogBytes) -> None:
        if isinstance(event, LogBytes):
            self.parts.append(event)
            end = event.position + len(event.data)
            self._leading.held(self, LogHeld(1, end, end))
        elif isinstance(event, FollowAccepted):
            self.accepted += 1

    def close(self, reason: str) -> None:
        raise AssertionError(reason)


def led(clock: VirtualClock) -> tuple[Leading, SlowLog]:
    log = SlowLog(clock)
    leading = Leading(log, GROUP, 1, Nobody(), clock, pytest.fail)
    leading.start()
    return leading, log


@pytest.mark.parametrize("followers", [1, 2])
def test_followers_that_are_behind_cost_their_leader_less_than_a_tenth_of_its_time(followers: int) -> None:
    clock = VirtualClock()
    leading, log = led(clock)
    readers = [Reader(leading, number) for number in range(2, 2 + followers)]
    began = clock.monotonic_ns()
    while clock.monotonic_ns() - began < 200_000_000:
        clock.run_for(1)
    took = clock.monotonic_ns() - began
    assert log.spent_ns <= 0.08 * took
    for reader in readers:
        assert max(len(part.data) for part in reader.parts) == DISK_PART_BYTES, "a read from the disk has this size"
        assert sum(len(part.data) for part in reader.parts) > 5 * MIB / followers


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
    clock.run_for(100)
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
    log.told()
    clock.run_turn()
    assert [(part.position, part.confirmed) for part in reader.parts[before:]] == [(1_000, 2_000)], "one part tells both"
    leading.group_heard(replace(GROUP, members=(SetMember(1, "1"), SetMember(2, "2")), set_epoch=2))
    log.written = log.synced = 3_000
    log.told()
    clock.run_turn()
    assert [(part.position, part.confirmed) for part in reader.parts[before + 1 :]] == [(2_000, 2_000)]
    clock.run_for(5)
    assert [(part.position, part.confirmed) for part in reader.parts[before + 2 :]] == [(3_000, 3_000)]
