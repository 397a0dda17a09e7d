"""What a replica's log loses to its leader's is set aside, with its records, and is told: nothing whole is deleted."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest

from domain.store.store_event import StoreEvent, StoreEventKind, unheard
from store.log.segment import Segments
from store.replication.replica_log.aside import BEHIND
from store.replication.replica_log.follower_log import Follower, open_follower
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import Crash, MemoryDisk
from tests.store.driver import Failing, wait
from tests.store.faults.soak import SOAK
from tests.store.replication.replica_log.pair import CONFIG, anew, apply_all, log_bytes, opened
from tests.store.replication.replica_log.test_crashes import Life, dies_at


class Loser(Life):
    """A follower that is told to lose records; `confirmed` of its log is applied, and the rest is not known to be confirmed.

    cut      where its log is cut: a batch ends there
    whole    the bytes of its log
    told     events of its store
    """

    def __init__(self) -> None:
        super().__init__(30)
        self.cut = self.follower.written
        self.send(60)
        self.ship()
        wait(self.clock, self.follower.sync)
        self.whole = log_bytes(self.disk, 0, self.follower.written)
        self.notified: list[StoreEvent] = []
        self.follower._events._report = self.notified.append

    def told_of(self, kind: StoreEventKind) -> list[StoreEvent]:
        return [each for each in self.notified if each.kind is kind]


def aside(disk: MemoryDisk, folder: str) -> bytes:
    return b"".join(disk.read_all(f"{folder}/log/{name}") or b"" for name in disk.names(f"{folder}/log") if name.isdigit())


def records(disk: MemoryDisk, folder: str, begin: int) -> int:
    segments = Segments(disk, f"{folder}/log")
    return sum(header.count for header, _ in segments.walk(begin, True))


def test_what_is_cut_off_is_set_aside_with_its_records() -> None:
    """A member that was given up by an operator comes back; so does the leader before the last one, with a tail of its own."""
    life = Loser()
    assert len(life.disk.names("log")) > 3, "the cut reaches over files"
    end = len(life.whole)
    wait(life.clock, lambda done: life.follower.cut(life.cut, done))
    folder = f"set-aside/log-{life.cut}"
    assert life.follower.written == life.cut
    assert log_bytes(life.disk, 0, end) == life.whole[: life.cut]
    assert aside(life.disk, folder) == life.whole[life.cut :]
    (event,) = life.told_of(StoreEventKind.SET_ASIDE)
    count = records(life.disk, folder, life.cut)
    assert count >= 60
    assert event.file == folder
    assert f"{count} records of the log, from {life.cut} to {end}" in event.cause
    assert "delete the folder when nobody needs it" in event.remedy
    life.ship()
    assert log_bytes(life.disk, 0, end) == life.whole, "it has the leader's log from there on"


def test_each_cut_has_a_folder_of_its_own() -> None:
    life = Loser()
    for number in range(3):
        wait(life.clock, lambda done: life.follower.cut(life.cut, done))
        life.ship()
        wait(life.clock, life.follower.sync)
        name = f"set-aside/log-{life.cut}" + (f"-{number + 1}" if number else "")
        assert aside(life.disk, name) == life.whole[life.cut :]
    assert len({each.file for each in life.told_of(StoreEventKind.SET_ASIDE)}) == 3


def test_a_filler_alone_is_no_record_and_is_cut_off() -> None:
    life = Loser()
    at = next(each for each in life.disk.names("log")[1:] if int(each) > life.cut)
    wait(life.clock, lambda done: life.follower.cut(int(at) - 8, done))  # behind the last batch of a file
    life.notified.clear()
    life.follower.append(life.follower.written, life.leader.replica.read(life.follower.written, 8))
    behind = life.follower.behind
    assert behind < life.follower.written
    wait(life.clock, lambda done: life.follower.cut(behind, done))
    assert not life.told_of(StoreEventKind.SET_ASIDE)


def test_the_whole_log_is_set_aside_when_it_begins_anew() -> None:
    """Controllers that have forgotten, or those of another cluster, name a leader whose log has nothing of this one."""
    life = Loser()
    anew(life.follower, 0, 99)
    assert (life.follower.first, life.follower.written, life.follower.incarnation) == (0, 0, 99)
    assert aside(life.disk, "set-aside/log-0") == life.whole
    (event,) = life.told_of(StoreEventKind.SET_ASIDE)
    assert f"{records(life.disk, 'set-aside/log-0', 0)} records of the log, from 0 to {len(life.whole)}" in event.cause
    life.ship()
    wait(life.clock, life.follower.sync)
    anew(life.follower, 0, 101)
    assert aside(life.disk, "set-aside/log-0") == life.whole, "what was set aside before stays"
    assert aside(life.disk, "set-aside/log-0-2") == life.whole


def test_a_log_that_its_leader_has_deleted_by_retention_is_kept_while_there_is_room() -> None:
    """A replica that was away for longer than messages are kept: its log is a part of the group's that is gone everywhere."""
    life = Loser()
    anew(life.follower, 8_192, 99, behind=True)
    assert aside(life.disk, BEHIND) == life.whole
    assert "by retention" in life.told_of(StoreEventKind.SET_ASIDE)[0].cause
    life.clock.run_for(3_000)
    assert aside(life.disk, BEHIND) == life.whole
    life.disk.free = CONFIG.pressure_ratio - 0.01
    life.clock.run_for(3_000)
    assert aside(life.disk, BEHIND) == b""
    (event,) = life.told_of(StoreEventKind.PRESSED)
    assert event.file == BEHIND


def test_only_the_last_log_that_is_behind_is_kept_and_others_stay_when_room_is_short() -> None:
    life = Loser()
    wait(life.clock, lambda done: life.follower.cut(life.cut, done))
    anew(life.follower, 8_192, 99, behind=True)
    first = aside(life.disk, BEHIND)
    assert first == life.whole[: life.cut]
    anew(life.follower, 8_192, 100, behind=True)
    assert aside(life.disk, BEHIND) == b"", "an empty log was behind"
    life.disk.free = 0.01
    life.clock.run_for(3_000)
    assert aside(life.disk, f"set-aside/log-{life.cut}") == life.whole[life.cut :], "a person deletes it"


def test_on_a_full_disk_a_log_is_not_cut_before_there_is_room_for_what_goes() -> None:
    life = Loser()
    life.disk.capacity = sum(len(each.data) for each in life.disk.files.values()) + 50
    done: list[int] = []
    life.follower.cut(life.cut, lambda: done.append(1))
    life.clock.run_for(5_000)
    assert not done
    assert life.follower.full is not None
    assert life.follower.broken is None
    assert log_bytes(life.disk, 0, len(life.whole)) == life.whole
    life.disk.capacity = 0
    life.clock.run_for(3_000)
    assert done
    assert life.follower.full is None
    assert log_bytes(life.disk, 0, len(life.whole)) == life.whole[: life.cut]
    assert aside(life.disk, f"set-aside/log-{life.cut}") == life.whole[life.cut :]


def test_a_disk_that_fails_while_records_are_set_aside_breaks_the_log_and_cuts_nothing() -> None:
    life = Loser()
    Failing(life.disk, errno.EIO, ("append",), "set-aside")
    life.follower.cut(life.cut, lambda: pytest.fail("nothing is cut"))
    life.clock.run_for(1_000)
    assert life.follower.broken is not None
    assert log_bytes(life.disk, 0, len(life.whole)) == life.whole


def _cut(life: Loser) -> None:
    wait(life.clock, lambda done: life.follower.cut(life.cut, done))


def _restart_log(life: Loser) -> None:
    anew(life.follower, 0, 99)


@pytest.mark.parametrize("lose", [_cut, _restart_log])
@pytest.mark.parametrize("seed", range(20 if SOAK else 2))
def test_wherever_the_machine_dies_the_records_are_in_the_log_or_set_aside(lose: Callable[[Loser], None], seed: int) -> None:
    at = 0
    while True:
        life = Loser()
        chance = random.Random(seed * 1_000 + at)
        seen = dies_at(life.disk, at)
        try:
            lose(life)
            life.clock.run_for(100)
        except (Crash, AssertionError):
            pass
        died = seen[0] > at
        disk = life.disk.powered_off(life.clock, chance=chance) if seed % 2 else life.disk.killed(life.clock)
        again: Follower = open_follower(
            disk,
            life.clock,
            CONFIG.__class__(segment_bytes=4_096, boot="two", fresh_incarnation=4_711),
            unheard,
        )
        kept = log_bytes(disk, 0, len(life.whole))
        copies = [aside(disk, f"set-aside/log-{begin}") for begin in (0, life.cut)]
        begin = life.cut if lose is _cut else 0
        for position in range(begin, len(life.whole), 997):
            part = life.whole[position : position + 40]
            assert any(part in each for each in (kept, *copies)), f"died at {at}: {position} is nowhere"
        again.close()
        if not died:
            assert kept == life.whole[:begin]
            return
        at += 1


def test_a_new_beginning_that_a_version_before_has_begun_deletes_no_more() -> None:
    life = Loser()
    life.follower.close()
    life.disk.replace("begin-anew", b"4096 100\n")  # as 44998bdc writes it
    again = opened(life.disk, VirtualClock())
    assert (again.first, again.written, again.incarnation) == (4_096, 4_096, 100)
    assert aside(life.disk, "set-aside/log-begin-anew") == life.whole
    apply_all(again, life.clock, 0)
