"""Two logs whose epochs have equal numbers and whose records differ: the follower is refused, and nothing of its log goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from domain.controller.answer import GroupAnswer
from domain.controller.change import AlterSet
from domain.controller.group import StoreGroup, StoreReplica
from domain.ports import Disk
from domain.replication.message import Follow, FollowAccepted, FollowRefusal, FollowRefused, LogBytes, LogHeld
from domain.replication.ports import BatchMark, LeaderLog
from store.log import batch
from store.replication.fence import FenceCounts
from store.replication.following import STRANGE_MS, FollowerPlace, Following
from store.replication.leading import Leading
from store.replication.pace import UNKNOWN
from store.replication.replica_log.batch_before import WINDOWS, batch_before
from store.replication.replica_log.follower_log import Follower
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.replication.replica_log.pair import CONFIG, Pair, durable, log_bytes, ship

GROUP = "broker-a"


class Line:
    """A connection between a leader and a follower: `FollowerConnection`, `LeaderConnection` and `SetKeeper` in one.

    is_old   True: the leader is of a version that names no batch
    """

    is_old = False

    def __init__(self, log: LeaderLog, follower: Follower, clock: VirtualClock, identity: str = "", theirs: str = "") -> None:
        self.said: list[FollowAccepted | FollowRefused | LogBytes] = []
        self.ended: list[tuple[str, int]] = []
        self.anew: list[tuple[int, bool]] = []
        self.asked: Follow | None = None
        replicas = (
            StoreReplica(1, "n1", "h:1", str(log.incarnation)), StoreReplica(2, "n2", "h:2", str(follower.incarnation)),
        )  # fmt: skip
        group = StoreGroup("c", GROUP, 3, replicas, 1, log.epoch, (replicas[0].member,), 1, identity=identity)
        self.leading = Leading(log, group, 1, self, clock, pytest.fail, lambda: UNKNOWN, FenceCounts())
        self.leading.start()
        self.following = Following(
            follower, 2, GROUP, log.epoch, clock, lambda first, behind: self.anew.append((first, behind)),
            FollowerPlace(identity=theirs),
        )  # fmt: skip
        self._clock = clock
        self.following.connected(self)
        clock.run_for(50)

    def send(self, event: object) -> None:
        if isinstance(event, Follow):
            self.asked = event
            self.leading.follow(self, event)
        elif isinstance(event, LogHeld):
            self.leading.held(self, event)
        elif isinstance(event, FollowAccepted):
            self.said.append(event)
            if self.is_old:
                event = FollowAccepted(None, event.epoch, event.cut, event.first)
            self.following.accepted(event)
        elif isinstance(event, FollowRefused):
            self.said.append(event)
            self.following.refused(event)
        elif isinstance(event, LogBytes):
            self.following.bytes(event)

    def close(self, reason: str, rest_ms: int = 0) -> None:
        self.ended.append((reason, rest_ms))

    def alter(self, change: AlterSet, done: Callable[[GroupAnswer | None], None]) -> None:
        done(None)

    def poll(self) -> None:
        """Nothing is new."""


class Old(Line):
    is_old = True


def logs(disk: MemoryDisk) -> dict[str, bytes]:
    """The files of a log, and what was set aside."""
    return {name: bytes(each.data) for name, each in disk.files.items() if name.startswith(("log/", "set-aside/"))}


def refused_and_unchanged(line: Line, disk: MemoryDisk, before: dict[str, bytes], reason: FollowRefusal) -> None:
    assert not line.following.follows
    assert line.following.strange == reason.value
    assert line.ended == [(reason.value, STRANGE_MS)]
    assert not line.anew
    assert logs(disk) == before
    follower = line.leading.followers.get(2)
    assert follower is None or (follower.written, follower.synced) == (0, 0), "it counts for nothing"


def test_a_log_of_another_cluster_is_refused_although_its_epochs_have_the_same_numbers() -> None:
    """Neither is longer in every case: where the numbers part would be at either end."""
    for ours, theirs in ((10, 60), (60, 10)):
        one, other = Pair(ours), Pair(theirs, replace(CONFIG, fresh_incarnation=99))
        assert one.leader.replica.incarnation != other.leader.replica.incarnation
        other.catch_up()
        before = logs(other.disk)
        line = Line(one.leader.replica, other.follower, one.clock)
        refused_and_unchanged(line, other.disk, before, FollowRefusal.OTHER_HISTORY)


def without_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs say of no era who wrote it, as one whose writers are the same in both."""
    monkeypatch.setattr("store.replication.leading.parted_epoch", lambda ours, theirs: 0)
    monkeypatch.setattr("store.replication.replica_log.eras.parted_epoch", lambda ours, theirs: 0)


@pytest.mark.parametrize("more", [(40, 3), (3, 40), (7, 7)])
def test_a_copy_that_wrote_on_in_the_same_epoch_is_refused(more: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A copied directory: epoch and writer are the same, only the last common batch tells. Its end is inside a batch of the
    other log, or at the same place with other bytes."""
    without_writers(monkeypatch)
    one, other = Pair(30), Pair(30, size=100)
    one.send(more[0])
    for number in range(more[1]):
        other.leader.driver.send("orders", b"another %d" % number)
    other.catch_up()
    before = logs(other.disk)
    refused_and_unchanged(Line(one.leader.replica, other.follower, one.clock), other.disk, before, FollowRefusal.OTHER_HISTORY)


def test_a_follower_that_is_behind_or_has_an_unconfirmed_tail_follows_as_before() -> None:
    one = Pair(40)
    ship(one.leader.replica, one.follower, one.leader.replica.written // 2)
    durable(one.follower, one.clock)
    line = Line(one.leader.replica, one.follower, one.clock)
    assert line.following.follows
    (accepted,) = line.said
    assert isinstance(accepted, FollowAccepted)
    assert 0 <= accepted.last < accepted.cut
    one.clock.run_for(200)
    assert log_bytes(one.disk, 0, 1 << 40) == log_bytes(one.leader_disk, 0, 1 << 40)
    follower = line.leading.followers[2]
    assert follower.written == one.leader.replica.written, "it counts from its first report on"


def test_a_log_of_another_group_does_not_follow_and_one_without_identity_does() -> None:
    one = Pair(20)
    one.catch_up()
    before = logs(one.disk)
    line = Line(one.leader.replica, one.follower, one.clock, "ours", "theirs")
    refused_and_unchanged(line, one.disk, before, FollowRefusal.OTHER_GROUP)
    for ours, theirs in (("ours", "ours"), ("ours", ""), ("", "theirs")):
        assert Line(one.leader.replica, one.follower, one.clock, ours, theirs).following.follows


def test_a_leader_of_the_version_before_names_no_batch_and_is_followed() -> None:
    one = Pair(20)
    one.catch_up()
    assert Old(one.leader.replica, one.follower, one.clock).following.follows


def test_damage_of_the_last_common_batch_is_not_taken_for_another_history() -> None:
    """It is found and repaired from others as any damage."""
    one = Pair(40)
    one.catch_up()
    follower = one.follower
    last = follower.batch_before(follower.behind)
    assert last is not None
    name = max(each for each in one.disk.files if each.startswith("log/") and int(each[4:]) <= last.begin)
    one.disk.flip(name, last.begin - int(name[4:]) + 13, 3)
    assert follower.batch_before(follower.behind) != last
    assert Line(one.leader.replica, follower, one.clock).following.follows


def test_the_batch_before_any_position_is_the_one_that_a_walk_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.replication.replica_log.batch_before.WINDOWS", (256, 512, WINDOWS[-1]))
    one = Pair(60, size=150)
    one.catch_up()
    segments = one.follower._log.files.segments
    walked = [BatchMark(each.position, each.position + each.size, each.crc) for each, _ in segments.walk(0, False)]
    assert len(walked) > 40
    assert len(segments.all) > 2
    for before, after in zip([None, *walked], walked, strict=False):
        base = next(each.base for each in reversed(segments.all) if each.base <= after.begin)
        for position in (after.begin + 1, after.begin + 5, after.begin + batch.HEADER_BYTES, after.end):
            assert batch_before(segments, position) == after
        if after.begin > base:
            assert batch_before(segments, after.begin) == before
    assert batch_before(segments, 0) is None
    assert batch_before(segments, segments.end + 1) is None


def test_magic_bytes_in_a_message_are_no_batch() -> None:
    one = Pair(3)
    header = log_bytes(one.leader_disk, 0, batch.HEADER_BYTES)
    one.leader.driver.send("orders", header + batch.MAGIC_BYTES * 30)
    one.catch_up()
    segments = one.follower._log.files.segments
    last = list(segments.walk(0, False))[-1][0]
    assert batch_before(segments, segments.end) == BatchMark(last.position, last.position + last.size, last.crc)


@pytest.mark.parametrize("beyond", [-20, 0, 1_000])
def test_a_header_that_a_client_has_written_into_a_message_is_no_batch(beyond: int) -> None:
    """It is told where its messages are in the log, so that its header may have the right position and CRC. A follower must not
    be refused for it as one of another history. `beyond`: where the forged batch ends, from the end of the true one."""
    one = Pair(3)
    one.leader.driver.send("orders", b"#" * 400)
    one.catch_up()
    segments = one.follower._log.files.segments
    batches = [log_bytes(one.leader_disk, each.position, each.position + each.size) for each, _ in segments.walk(0, False)]
    probe = next(each for each in reversed(batches) if b"#" * 400 in each)
    inside = probe.index(b"#" * 400)
    at = segments.end + inside
    rest = len(probe) - inside - batch.HEADER_BYTES + beyond
    forged = batch.encode([b"#" * rest], at, 1, 0, batch.Writer(1, 7), 0)[: batch.HEADER_BYTES]
    one.leader.driver.send("orders", forged + b"#" * (400 - len(forged)))
    one.catch_up()
    assert segments.end >= at - inside + len(probe)
    assert batch.header(log_bytes(one.leader_disk, at, at + batch.HEADER_BYTES), at) is not None, "it is as good as a true one"
    line = Line(one.leader.replica, one.follower, one.clock)
    assert line.following.follows
    assert line.following.strange == ""
    accepted = line.said[0]
    assert isinstance(accepted, FollowAccepted)
    assert 0 <= accepted.last < accepted.cut, "what a client writes does not keep histories from being compared either"


def test_a_disk_that_does_not_give_the_batch_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Pair(5)
    one.catch_up()
    segments = one.follower._log.files.segments

    def read(_position: int, _size: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(cast(Disk, segments.active.file), "read", read, raising=False)
    assert batch_before(segments, segments.end) is None
