"""What a leader does that cannot confirm, by who answers it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from domain.controller.group import ReplicaReport, StoreGroup, StoreReplica
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import ReplicaHeard
from gateway.cluster.replica.controllers import GroupControllers, GroupWord
from gateway.cluster.replica.cut_off import BEGUN_NS, PATIENCE_NS, UNHEARD_NS, CutOff
from store.replication.leading import Leading
from tests.simulation.kit.clock import VirtualClock

SECOND_MS = 1_000


class Watched:
    """Leader 1 of a group of so many replicas, all in sync; `alive` is what the controllers say, `hear` whether they do."""

    def __init__(self, replicas: int = 3, least: int = 0) -> None:
        self.clock = VirtualClock()
        found = tuple(StoreReplica(each, f"node {each}", "", f"log {each}") for each in range(1, replicas + 1))
        group = StoreGroup("c", "g", replicas + 1, found, 1, 4, tuple(each.member for each in found), 7, least)
        self.review = SimpleNamespace(stalled_ns=0, absent=0, has_confirmed=False)
        self.alive = {each.id: 100 for each in found}
        self.hears = True
        self.elected: list[int] = []
        self.ended: list[str] = []
        leading = cast(Leading, SimpleNamespace(group=group, own_id=1, review=self.review))
        self.controllers: Any = SimpleNamespace(newest=GroupWord(0, ()))
        self.watch = CutOff(
            leading, cast(GroupControllers, self.controllers), self.clock, lambda number, why: self.elected.append(number),
            self._end,
        )  # fmt: skip
        self.watch.watch()

    def _end(self, why: str) -> None:
        self.ended.append(why)
        self.watch.stop()

    def run_for(self, milliseconds: int) -> None:
        for _ in range(milliseconds // 100):
            if self.hears:
                words = [
                    ReplicaHeard(ReplicaWord(ReplicaReport(at, f"log {at}", 4, end)), 0, True) for at, end in self.alive.items()
                ]
                self.controllers.newest = GroupWord(self.clock.monotonic_ns(), tuple(words))
            self.clock.run_for(100)

    def stall(self) -> None:
        self.review.stalled_ns, self.review.absent = self.clock.monotonic_ns(), 2


@pytest.fixture
def group() -> Watched:
    found = Watched()
    found.run_for(BEGUN_NS // 1_000_000)
    return found


def test_a_leader_that_hears_nobody_leads_no_more_within_three_seconds(group: Watched) -> None:
    group.hears = False
    group.stall()
    group.run_for((UNHEARD_NS - 300_000_000) // 1_000_000)
    assert not group.ended
    group.run_for(600)
    assert len(group.ended) == 1
    assert not group.elected


def test_a_leader_that_hears_its_members_goes_on_without_controllers(group: Watched) -> None:
    group.hears = False
    group.run_for(60 * SECOND_MS)
    assert not group.ended


def test_the_member_with_the_longest_log_should_lead_when_the_controllers_hear_enough_others(group: Watched) -> None:
    group.alive = {1: 300, 2: 100, 3: 200}
    group.stall()
    group.run_for((PATIENCE_NS - 300_000_000) // 1_000_000)
    assert not group.elected
    group.run_for(600)
    assert set(group.elected) == {3}
    assert not group.ended


def test_nobody_is_elected_who_could_confirm_nothing_either(group: Watched) -> None:
    group.alive = {1: 300, 2: 100}
    group.stall()
    group.run_for(10 * SECOND_MS)
    assert (group.elected, group.ended) == ([], [])


def test_members_that_all_have_to_confirm_are_not_fewer_elsewhere() -> None:
    group = Watched(least=3)
    group.run_for(BEGUN_NS // 1_000_000)
    group.stall()
    group.run_for(10 * SECOND_MS)
    assert not group.elected, "without this replica there are two, and three are wanted"


def test_a_leadership_that_has_just_begun_is_not_handed_over() -> None:
    group = Watched()
    group.run_for(100)
    group.stall()
    group.run_for(BEGUN_NS // 1_000_000 - 400)
    assert not group.elected
    group.run_for(600)
    assert group.elected


def test_a_leadership_that_has_confirmed_something_is_handed_over_at_once() -> None:
    group = Watched()
    group.review.has_confirmed = True
    group.run_for(100)
    group.stall()
    group.run_for(PATIENCE_NS // 1_000_000 + 300)
    assert set(group.elected) == {2}, "its members were reached: it is not one that is passed round"


def test_a_set_that_the_controllers_can_change_is_waited_for(group: Watched) -> None:
    group.stall()
    group.review.absent = 0
    group.run_for(10 * SECOND_MS)
    assert (group.elected, group.ended) == ([], [])
