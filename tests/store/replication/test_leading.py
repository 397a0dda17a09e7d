"""The leader of a store group, with followers and controllers that the test plays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import AlterSet
from domain.controller.group import SetMember, StoreGroup, StoreReplica
from domain.errors import ErrorCode, Failure, StoreError
from domain.replication.message import Era, Follow, FollowAccepted, FollowRefused, LogBytes, LogHeld
from domain.replication.ports import BatchMark, LogWork, MendableLog
from store.replication.fence import FenceCounts
from store.replication.leading import TICK_NS, Leading
from store.replication.pace import UNKNOWN
from store.replication.set_review import LOST_NS, STUCK_NS
from tests.simulation.kit.clock import VirtualClock

GROUP = "broker-a"
EPOCH = 4


class FakeLog:
    """`domain.replication.ports.LeaderLog` of so many bytes, all of them written and synced here."""

    full = None

    def __init__(self, written: int) -> None:
        self.first = 0
        self.written = self.synced = self.begin = written
        self.epoch = EPOCH
        self.incarnation = 11
        self.broken: Failure | None = None
        self.damaged = False
        self.confirmed = (0, 0)
        self.counted = (0, 0)
        self.notified: Callable[[], None] = lambda: None

    @property
    def recent(self) -> int:
        return 0

    @property
    def work(self) -> LogWork:
        raise AssertionError

    @property
    def parts(self) -> MendableLog:
        raise AssertionError

    def batch_before(self, position: int) -> BatchMark | None:
        return None

    def eras(self) -> list[Era]:
        return [Era(EPOCH - 1, 0), Era(EPOCH, self.begin)]

    def read(self, position: int, size: int, proven: bool = True) -> bytes:
        if self.damaged:
            raise StoreError("the log is damaged", "log/0")
        return bytes(min(size, self.written - position))

    def follow_progress(self, told: Callable[[], None]) -> None:
        self.notified = told

    def confirm(self, written: int, synced: int) -> None:
        self.confirmed = (written, synced)

    def members(self, count: int, least: int) -> None:
        self.counted = (count, least)

    def note_epoch(self) -> None:
        self.write(100)

    def when_ready(self, done: Callable[[], None]) -> None:
        """Nobody asks."""

    def depose(self, failure: Failure) -> None:
        """Nothing waits here."""

    def write(self, size: int) -> None:
        self.written += size
        self.synced = self.written
        self.notified()


class FakeConnection:
    """`store.replication.ports.FollowerConnection`: what was said is in `events`; `ended` is why it ended."""

    def __init__(self) -> None:
        self.events: list[FollowAccepted | FollowRefused | LogBytes] = []
        self.ended = ""

    def send(self, event: FollowAccepted | FollowRefused | LogBytes) -> None:
        self.events.append(event)

    def close(self, reason: str) -> None:
        self.ended = reason


class Stage:
    """A leader 1 with the members 2 and 3, and controllers that do what they are asked."""

    def __init__(self, written: int = 1_000, least: int = 0, acks: int = 0) -> None:
        self.clock = VirtualClock()
        self.log = FakeLog(written)
        self.stepped_down: list[str] = []
        self.looks = 0
        self.altered: list[AlterSet] = []
        self.answers = True
        self.late: Callable[[Callable[[GroupAnswer | None], None]], None] = lambda done: None
        replicas = tuple(StoreReplica(each, f"node {each}", f"10.0.0.{each}:10912", f"{each}{each}") for each in (1, 2, 3))
        members = tuple(each.member for each in replicas)
        self.group = StoreGroup(
            "cluster", GROUP, 4, replicas, 1, EPOCH, members, 7, least, acks=acks, wanted_acks=acks
        )  # fmt: skip
        self.leading = Leading(
            self.log, self.group, 1, self, self.clock, self.stepped_down.append, lambda: UNKNOWN, FenceCounts()
        )
        self.leading.start()

    def alter(self, change: AlterSet, done: Callable[[GroupAnswer | None], None]) -> None:
        self.altered.append(change)
        self.late(done)
        if self.answers:
            epoch = self.group.set_epoch + 1
            self.group = replace(self.group, members=change.members, acks=change.acks, set_epoch=epoch)
            self.clock.call_soon(lambda: done(GroupAnswer(None, self.group)))

    def poll(self) -> None:
        self.looks += 1

    def follow(self, replica: int, end: int, connection: FakeConnection | None = None, gates: str = "") -> FakeConnection:
        """A follower connects whose log ends at `end`."""
        found = connection or FakeConnection()
        eras = tuple(self.log.eras()) if end > self.log.begin else (Era(EPOCH - 1, 0),)
        self.leading.follow(found, Follow(None, GROUP, replica, replica * 11, EPOCH, eras, 0, end, gates=gates))
        return found

    def held(self, connection: FakeConnection, position: int) -> None:
        """A follower says that it has everything up to `position`."""
        self.leading.held(connection, LogHeld(EPOCH, position, position))

    @property
    def members(self) -> list[int]:
        return [each.id for each in self.group.members]


def keep_up(stage: Stage, connection: FakeConnection, milliseconds: int) -> None:
    for _ in range(milliseconds // 50):
        stage.clock.run_for(50)
        stage.held(connection, stage.leading.followers[2].sent)


def test_a_member_that_connects_again_and_again_and_takes_nothing_is_left_out() -> None:
    stage = Stage()
    good = stage.follow(2, 1_000)
    stage.held(good, 1_000)
    stage.held(stage.follow(3, 1_000), 1_000)
    stage.clock.run_for(500)
    stage.log.write(100)
    for _ in range(40):
        flapping = stage.follow(3, 1_000)
        keep_up(stage, good, 50)
        stage.leading.lost(flapping)
        keep_up(stage, good, 100)
    assert stage.members == [1, 2]
    assert stage.log.confirmed == (1_100, 1_100)


def test_a_member_that_was_away_for_long_may_catch_up() -> None:
    stage = Stage()
    stage.answers = False
    good = stage.follow(2, 1_000)
    stage.held(good, 1_000)
    back = stage.follow(3, 1_000)
    stage.held(back, 1_000)
    stage.clock.run_for(500)
    stage.log.write(50_000)
    stage.leading.lost(back)
    keep_up(stage, good, 5_000)
    back = stage.follow(3, 1_000)
    for position in range(2_000, 42_000, 2_000):
        keep_up(stage, good, 100)
        stage.held(back, position)
    stage.clock.run_for(10)
    assert {tuple(each.id for each in change.members) for change in stage.altered} == {(1, 2)}
    assert stage.log.confirmed == (40_000, 40_000)


def test_a_member_that_the_leader_cannot_serve_is_left_out() -> None:
    stage = Stage()
    good = stage.follow(2, 1_000)
    stage.held(good, 1_000)
    stage.log.damaged = True
    for _ in range(40):
        stage.follow(3, 500)
        keep_up(stage, good, 100)
    assert stage.members == [1, 2]


def test_a_member_that_stands_still_is_left_out_though_it_has_all_that_is_confirmed() -> None:
    stage = Stage()
    good, still = stage.follow(2, 1_000), stage.follow(3, 1_000)
    for each in (good, still):
        stage.held(each, 1_000)
    stage.clock.run_for(500)
    assert stage.log.confirmed == (1_000, 1_000)
    assert not stage.altered
    stage.log.write(1_000)
    keep_up(stage, good, STUCK_NS // 1_000_000 - 300)
    assert stage.log.confirmed == (1_000, 1_000), "it is a member, and lacks the rest"
    keep_up(stage, good, 1_000)
    assert stage.members == [1, 2]
    assert stage.log.confirmed == (2_000, 2_000)
    keep_up(stage, good, 5_000)
    assert len(stage.altered) == 1, "it lacks what is confirmed by now"
    stage.held(still, 2_000)
    keep_up(stage, good, 500)
    assert stage.members == [1, 2, 3]


def test_a_leader_whose_disk_has_failed_leads_no_more() -> None:
    stage = Stage()
    connection = stage.follow(2, 1_000)
    stage.log.broken = Failure(ErrorCode.STORE_UNAVAILABLE, "a sync of the log failed")
    stage.clock.run_for(200)
    assert stage.stepped_down == ["a sync of the log failed"]
    assert connection.ended
    stage.clock.run_for(5_000)
    assert len(stage.stepped_down) == 1
    assert not stage.altered


def test_members_are_named_with_their_logs() -> None:
    stage = Stage(least=1)
    stage.clock.run_for(2_000)
    assert stage.members == [1]
    assert stage.group.members == (SetMember(1, "11"),)


def both_follow(stage: Stage) -> tuple[FakeConnection, FakeConnection]:
    found = stage.follow(2, 1_000), stage.follow(3, 1_000)
    for each in found:
        stage.held(each, 1_000)
    stage.clock.run_for(500)
    assert stage.log.confirmed == (1_000, 1_000)
    return found


def test_the_set_keeps_as_many_members_as_min_in_sync_asks_for_and_confirms_nothing_without_them() -> None:
    stage = Stage()
    both = both_follow(stage)
    for each in both:
        stage.leading.lost(each)
    stage.log.write(500)
    stage.clock.run_for(5_000)
    assert (stage.members, stage.log.confirmed) == ([1, 2, 3], (1_000, 1_000))
    assert stage.log.counted == (1, 2), "appends above flushed are refused with these figures"
    back = stage.follow(2, 1_000)
    stage.clock.run_for(100)
    stage.held(back, 1_500)
    stage.clock.run_for(500)
    assert (stage.members, stage.log.confirmed, stage.log.counted) == ([1, 2], (1_500, 1_500), (2, 2))


def test_one_after_the_other_is_lost_and_the_last_two_stay_members() -> None:
    stage = Stage()
    two, three = both_follow(stage)
    stage.leading.lost(three)
    keep_up(stage, two, 1_000)
    assert stage.members == [1, 2]
    stage.leading.lost(two)
    stage.clock.run_for(5_000)
    assert (stage.members, stage.log.counted) == ([1, 2], (1, 2))
    stage.held(stage.follow(3, 1_000), 1_000)
    stage.clock.run_for(500)
    assert stage.members == [1, 3], "who follows takes the place of who does not"


def test_a_group_that_one_member_is_enough_for_goes_on_with_one() -> None:
    stage = Stage(least=1)
    for each in both_follow(stage):
        stage.leading.lost(each)
    stage.log.write(500)
    stage.clock.run_for(1_000)
    assert (stage.members, stage.log.confirmed, stage.log.counted) == ([1], (1_500, 1_500), (1, 1))


def test_a_member_that_gives_signs_and_falls_silent_does_not_follow() -> None:
    """Its connection is there, and there is nothing that it could lack: nobody else would notice that it is cut off."""
    stage = Stage()
    two, three = both_follow(stage)
    for _ in range(10):
        stage.clock.run_for(200)
        stage.held(two, 1_000)
        stage.held(three, 1_000)
    for _ in range(10):
        stage.clock.run_for(200)
        stage.held(two, 1_000)
    assert stage.members == [1, 2]
    stage.held(three, 1_000)
    stage.clock.run_for(200)
    assert stage.members == [1, 2, 3]


def test_a_member_that_falls_silent_before_its_first_sign_does_not_follow_either() -> None:
    """A replica that takes gateways is of a version that gives signs: its silence means something from its first report on."""
    stage = Stage()
    two, three = both_follow(stage)
    for each in (two, three):
        stage.held(each, 1_000)
    stage.clock.run_for(200)
    assert stage.leading.group.in_sync == (1, 2, 3)
    four = stage.follow(3, 1_000, gates="10.0.0.3:10911")
    stage.held(four, 1_000)
    for _ in range(10):
        stage.clock.run_for(200)
        stage.held(two, 1_000)
    assert stage.members == [1, 2]


def test_a_member_of_a_version_without_signs_may_be_silent_while_there_is_nothing_to_say() -> None:
    stage = Stage()
    both_follow(stage)
    stage.clock.run_for(10_000)
    assert not stage.altered


def test_since_when_nothing_can_be_confirmed_is_known() -> None:
    stage = Stage()
    both = both_follow(stage)
    assert stage.leading.review.stalled_ns == 0
    for each in both:
        stage.leading.lost(each)
    stage.clock.run_for(2_000)
    since = stage.leading.review.stalled_ns
    assert 0 <= since - (stage.clock.monotonic_ns() - 2_000_000_000) - LOST_NS <= 2 * TICK_NS
    for number in (2, 3):
        stage.held(stage.follow(number, 1_000), 1_000)
    stage.clock.run_for(200)
    assert stage.leading.review.stalled_ns == 0


def test_a_late_answer_does_not_set_min_in_sync_back() -> None:
    """Its state has the same `set_epoch`: only its `order` says that it is older."""
    stage = Stage()
    both_follow(stage)
    before = replace(stage.group, order=20)
    stage.leading.group_heard(replace(before, least=3, order=21))
    assert stage.log.counted == (3, 3)
    stage.leading.group_heard(before)
    assert stage.log.counted == (3, 3)
    stage.leading.group_heard(replace(before, least=1, order=22))
    assert stage.log.counted == (3, 1)


def test_a_refusal_that_is_late_does_not_set_min_in_sync_back() -> None:
    stage = Stage()
    two, three = both_follow(stage)
    stage.answers = False
    answers: list[Callable[[GroupAnswer | None], None]] = []
    stage.late = answers.append
    stage.leading.lost(three)
    keep_up(stage, two, 1_000)
    stage.leading.group_heard(replace(stage.group, least=3, order=21))
    answers[0](GroupAnswer(GroupRefusal.NOT_ALIVE, replace(stage.group, order=20)))
    assert stage.log.counted[1] == 3


def test_controllers_of_the_version_before_report_no_order() -> None:
    stage = Stage()
    both_follow(stage)
    stage.leading.group_heard(replace(stage.group, least=3))
    stage.leading.group_heard(stage.group)
    assert stage.log.counted == (3, 2)


def with_acks(count: int = 2) -> tuple[Stage, FakeConnection, FakeConnection]:
    """Replica 1 leads 2 and 3, of which `count` confirm."""
    stage = Stage(acks=count)
    both = stage.follow(2, 1_000), stage.follow(3, 1_000)
    stage.clock.run_for(10)
    return stage, *both


def test_two_of_three_confirm_though_the_third_is_slow() -> None:
    stage, quick, slow = with_acks()
    assert stage.log.written == 1_100, "a record of this epoch was written"
    stage.held(slow, 1_000)
    stage.held(quick, 1_100)
    stage.clock.run_for(10)
    assert stage.log.confirmed == (1_100, 1_100)
    stage.log.write(50)
    stage.clock.run_for(10)
    stage.held(slow, 1_150)
    stage.clock.run_for(10)
    assert stage.log.confirmed == (1_150, 1_150), "the first of the others is enough, whichever it is"


def test_a_record_of_an_older_epoch_is_confirmed_by_all_or_with_one_of_this_epoch() -> None:
    stage, quick, slow = with_acks()
    stage.held(quick, 1_000)
    stage.held(slow, 1_000)
    stage.clock.run_for(10)
    assert stage.log.confirmed == (1_000, 1_000), "all three hold it"
    other = Stage(acks=2)
    other.held(other.follow(2, 1_000), 1_000)
    other.clock.run_for(10)
    assert other.log.confirmed == (0, 0), "two hold it, and a member with a record of an older leader may win without it"


def test_a_member_that_is_lost_stays_until_the_others_hold_what_is_confirmed() -> None:
    stage, quick, slow = with_acks()
    stage.held(quick, 1_100)
    stage.held(slow, 1_000)
    stage.clock.run_for(10)
    assert stage.log.confirmed == (1_100, 1_100)
    stage.leading.lost(quick)
    stage.clock.run_for(600)
    assert stage.members == [1, 2, 3], "replica 3 lacks what 1 and 2 have confirmed"
    stage.held(slow, 1_100)
    stage.clock.run_for(200)
    assert stage.members == [1, 3]
    assert stage.group.acks == 2


def test_more_acks_are_told_once_so_many_hold_what_was_confirmed() -> None:
    stage, quick, slow = with_acks()
    stage.held(quick, 1_100)
    stage.held(slow, 1_000)
    stage.clock.run_for(10)
    stage.group = replace(stage.group, wanted_acks=3, set_epoch=stage.group.set_epoch + 1)
    stage.leading.group_heard(stage.group)
    stage.clock.run_for(300)
    assert not stage.altered
    stage.held(slow, 1_100)
    stage.clock.run_for(300)
    assert [(each.acks, len(each.members)) for each in stage.altered] == [(3, 3)]


def test_fewer_acks_hold_when_the_controllers_have_them() -> None:
    stage = Stage()
    quick = stage.follow(2, 1_000)
    stage.held(stage.follow(3, 1_000), 1_000)
    stage.answers = False
    stage.group = replace(stage.group, wanted_acks=2)
    stage.leading.group_heard(stage.group)
    stage.log.write(100)
    stage.clock.run_for(10)
    stage.held(quick, 1_100)
    stage.clock.run_for(250)
    assert stage.altered[0].acks == 2
    assert stage.log.confirmed == (1_000, 1_000), "an election may still need one member alone"
    stage.group = replace(stage.group, acks=2, set_epoch=stage.group.set_epoch + 1)
    stage.leading.group_heard(stage.group)
    stage.clock.run_for(10)
    assert stage.log.confirmed == (1_100, 1_100)


def test_acks_are_never_fewer_than_min_in_sync() -> None:
    stage = Stage()
    stage.group = replace(stage.group, wanted_acks=2, least=3)
    stage.follow(2, 1_000)
    stage.follow(3, 1_000)
    stage.leading.group_heard(stage.group)
    stage.clock.run_for(300)
    assert [each.acks for each in stage.altered] == [3]
