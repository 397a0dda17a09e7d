"""How often a follower says what it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from domain.replication.message import Era, Follow, FollowAccepted, LogBytes, LogHeld
from domain.replication.ports import BatchMark, LeaderStore, LogWork, MendableLog, UnknownFormatError
from domain.replication.reads import FollowerReads
from store.replication.following import UNTOLD_BYTES, UPGRADE_MS, FollowerPlace, Following
from tests.simulation.kit.clock import VirtualClock

PART = UNTOLD_BYTES // 8
SYNC_NS = 100_000


class MemoryLog:
    """`FollowerLog` that is durable soon after each sync began."""

    first = applied = continues = 0
    incarnation = 2
    broken = None
    full = None
    foreign = False
    has_room = True

    def __init__(self, clock: VirtualClock) -> None:
        self.written = self.synced = 0
        self.syncs = 0
        self._clock = clock

    @property
    def behind(self) -> int:
        return self.written

    @property
    def work(self) -> LogWork:
        raise AssertionError

    @property
    def parts(self) -> MendableLog:
        raise AssertionError

    def registered(self) -> None:
        pass

    @property
    def reads(self) -> FollowerReads:
        raise AssertionError("nobody reads here")

    def batch_before(self, position: int) -> BatchMark | None:
        return None

    def eras(self) -> Sequence[Era]:
        return []

    def append(self, position: int, data: bytes) -> None:
        assert position == self.written
        self.written += len(data)

    def sync(self, done: Callable[[], None]) -> None:
        self.syncs += 1
        target = self.written

        def synced() -> None:
            self.synced = target
            done()

        self._clock.call_at(self._clock.monotonic_ns() + SYNC_NS, synced)

    def confirm(self, position: int) -> None:
        pass

    def cut(self, position: int, done: Callable[[], None]) -> None:
        done()

    def restart_log(self, first: int, incarnation: int, behind: bool, done: Callable[[Exception | None], None]) -> None:
        raise AssertionError

    def drop_before(self, first: int) -> None:
        pass

    def promote(self, epoch: int) -> LeaderStore:
        raise AssertionError

    def close(self) -> None:
        pass


class Leader:
    """`LeaderConnection` that keeps what was said."""

    def __init__(self) -> None:
        self.held: list[LogHeld] = []
        self.closed: list[tuple[str, int]] = []
        self.may_close = False

    def send(self, command: Follow | LogHeld) -> None:
        if isinstance(command, LogHeld):
            self.held.append(command)

    def close(self, reason: str, rest_ms: int = 0) -> None:
        assert self.may_close, reason
        self.closed.append((reason, rest_ms))


def follows() -> tuple[VirtualClock, MemoryLog, Leader, Following]:
    clock = VirtualClock()
    log, leader = MemoryLog(clock), Leader()
    following = Following(
        log, 2, "broker-a", 1, clock, lambda first, behind: pytest.fail(f"begins anew at {first}"), FollowerPlace()
    )
    following.connected(leader)
    following.accepted(FollowAccepted(None, 1, 0, 0))
    clock.run_for(1)
    leader.held.clear()
    return clock, log, leader, following


def give(following: Following, log: MemoryLog, confirmed: int) -> None:
    following.bytes(LogBytes(None, 1, log.written, confirmed, 0, bytes(PART)))


def test_who_is_far_behind_says_so_now_and_then_and_who_is_near_at_once() -> None:
    clock, log, leader, following = follows()
    end = 4 * UNTOLD_BYTES
    while log.written < end:
        give(following, log, end)
        clock.run_for(1)
        assert log.written - max((each.written for each in leader.held), default=0) < UNTOLD_BYTES or log.written == end
    assert 3 <= len(leader.held) <= 12
    assert leader.held[-1] == LogHeld(1, end, end), "at the end of the log everything is said, and durable"
    assert log.syncs <= 6
    for _ in range(3):
        before = len(leader.held)
        give(following, log, log.written)
        clock.run_turn()
        assert leader.held[before:] == [LogHeld(1, log.written, log.synced)]
        clock.run_for(1)
        assert leader.held[-1] == LogHeld(1, log.written, log.written)


def test_what_only_a_later_version_can_read_is_asked_for_again_after_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    _, log, leader, following = follows()
    leader.may_close = True

    def append(_position: int, _data: bytes) -> None:
        raise UnknownFormatError("format version 3: upgrade this replica")

    with monkeypatch.context() as patch:
        patch.setattr(log, "append", append)
        give(following, log, 0)
    assert leader.closed == [("format version 3: upgrade this replica", UPGRADE_MS)]
    assert not following.follows
    assert following.refuses == "format version 3: upgrade this replica"
    following.lost()
    following.connected(leader)
    following.accepted(FollowAccepted(None, 1, 0, 0))
    give(following, log, 0)
    assert (following.refuses, log.written) == ("", PART), "another leader sends what is known"


def test_a_follower_says_when_it_has_no_room_any_more_and_when_it_has_again() -> None:
    clock, log, leader, _ = follows()
    for has_room in (False, True):
        log.has_room = has_room
        clock.run_for(600)
        assert leader.held == [LogHeld(1, 0, 0, has_room)]
        leader.held.clear()


def test_a_follower_answers_each_question_of_its_leader_once_though_it_has_nothing_else_to_say() -> None:
    clock, _, leader, following = follows()
    for question in (0, 7, 7, 0, 9):
        following.bytes(LogBytes(None, 1, 0, 0, 0, b"", question))
        clock.run_for(1)
    assert leader.held == [LogHeld(1, 0, 0, True, 7), LogHeld(1, 0, 0, True, 9)]
    following.lost()
    following.connected(leader)
    following.accepted(FollowAccepted(None, 1, 0, 0))
    clock.run_for(1)
    assert leader.held[2:] == [LogHeld(1, 0, 0, True, 0)], "another connection has not asked"


def test_a_follower_far_behind_answers_questions_too() -> None:
    clock, log, leader, following = follows()
    following.bytes(LogBytes(None, 1, 0, 4 * UNTOLD_BYTES, 0, bytes(PART), 3))
    clock.run_for(1)
    assert [(each.written, each.answers) for each in leader.held] == [(log.written, 3)]
