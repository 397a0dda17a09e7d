"""A member that stands still while its connection lives is left out, and comes back when it has caught up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from domain.controller.answer import GroupAnswer
from domain.controller.change import AlterSet
from domain.controller.group import SetMember, StoreGroup, StoreReplica
from domain.event import Event
from domain.replication.message import Era, Follow, LogHeld
from store.replication.leading import Leading
from store.replication.pace import UNKNOWN
from store.replication.set_review import STUCK_NS
from tests.simulation.kit.clock import VirtualClock

GROUP = StoreGroup(
    "c1", "g", 3, (StoreReplica(1, "n1", "h1:1", "11"), StoreReplica(2, "n2", "h2:1", "22")), 1, 1,
    (SetMember(1, "11"), SetMember(2, "22")), 1,
)  # fmt: skip


class Log:
    """The log of the leader: as many bytes as it is said to have, all of them durable."""

    broken = None

    first = begin = recent = 0
    epoch = 1
    incarnation = 11

    def __init__(self) -> None:
        self.written = self.synced = 1_000
        self.confirmed = (0, 0)
        self.notified: Callable[[], None] = lambda: None

    def eras(self) -> list[Era]:
        return [Era(1, 0)]

    def read(self, position: int, size: int, proven: bool = True) -> bytes:
        return b"x" * min(size, self.written - position)

    def follow_progress(self, told: Callable[[], None]) -> None:
        self.notified = told

    def confirm(self, written: int, synced: int) -> None:
        self.confirmed = (written, synced)

    def members(self, count: int, least: int) -> None:
        """Nothing waits here."""


class Keeper:
    """Controllers that grant every set."""

    def __init__(self) -> None:
        self.group = GROUP
        self.asked: list[list[int]] = []

    def alter(self, change: AlterSet, done: Callable[[GroupAnswer | None], None]) -> None:
        self.asked.append([each.id for each in change.members])
        self.group = replace(self.group, members=change.members, set_epoch=self.group.set_epoch + 1)
        done(GroupAnswer(None, self.group))

    def poll(self) -> None:
        """Nothing else is known."""


class Follower:
    """A connection that takes everything."""

    def send(self, event: Event) -> None:
        """Nothing: the test says what the follower has."""

    def close(self, reason: str) -> None:
        raise AssertionError(reason)


def test_a_member_that_stands_still_is_left_out_though_it_has_all_that_is_confirmed() -> None:
    clock, log, keeper, follower = VirtualClock(), Log(), Keeper(), Follower()
    leading = Leading(log, GROUP, 1, keeper, clock, lambda reason: None, lambda: UNKNOWN)  # type: ignore[arg-type]
    leading.start()
    leading.follow(follower, Follow(None, "g", 2, 22, 1, (Era(1, 0),), 0, 1_000))
    leading.held(follower, LogHeld(1, 1_000, 1_000))
    clock.run_for(500)
    assert log.confirmed == (1_000, 1_000)
    assert keeper.asked == []
    log.written = log.synced = 2_000
    log.notified()
    clock.run_for(STUCK_NS / 1_000_000 - 300)
    assert log.confirmed == (1_000, 1_000), "it is a member, and lacks the rest"
    clock.run_for(1_000)
    assert keeper.asked == [[1]]
    assert log.confirmed == (2_000, 2_000)
    clock.run_for(5_000)
    assert keeper.asked == [[1]], "it lacks what is confirmed by now"
    leading.held(follower, LogHeld(1, 2_000, 2_000))
    clock.run_for(500)
    assert keeper.asked == [[1], [1, 2]]
