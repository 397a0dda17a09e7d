"""How soon a leader that should not lead asks again for the election of another replica."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import ElectLeader, GroupChange
from domain.controller.group import StoreGroup
from domain.replication.ports import LeaderLog
from gateway.cluster.replica.controllers import GroupControllers
from gateway.cluster.replica.handover import AGAIN_MS, LOST_MS, Handover
from store.replication.leading import Leading
from tests.simulation.kit.clock import VirtualClock

GROUP = StoreGroup("c", "g", leader=1, leader_epoch=4)
REFUSED = GroupAnswer(GroupRefusal.ELECTION_FAILED, GROUP)


class Asking:
    """A leader that wants replica 2 to lead every 100 ms; `answer` is what the controllers say, after `late_ms`."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.answer: GroupAnswer | None = None
        self.late_ms = 0
        self.asked_ms: list[int] = []
        self.changes: list[GroupChange] = []
        self.handover = Handover(
            cast(Leading, SimpleNamespace(group=GROUP)), cast(LeaderLog, SimpleNamespace(full=None)),
            cast(GroupControllers, SimpleNamespace(change=self._change)), self.clock,
        )  # fmt: skip
        self._began_ns = self.clock.monotonic_ns()

    def _change(self, change: GroupChange, done: Callable[[GroupAnswer | None], None]) -> None:
        now = self.clock.monotonic_ns()
        self.asked_ms.append((now - self._began_ns) // 1_000_000)
        self.changes.append(change)
        answer = self.answer
        self.clock.call_at(now + self.late_ms * 1_000_000, lambda: done(answer))

    def run_for(self, milliseconds: int) -> None:
        for _ in range(milliseconds // 100):
            self.handover.ask(2, "cannot confirm")
            self.clock.run_for(100)


@pytest.fixture
def leader() -> Asking:
    return Asking()


def test_a_request_of_unknown_outcome_is_made_again_soon(leader: Asking) -> None:
    leader.late_ms = 2_000
    leader.run_for(10_000)
    pauses = [later - before - leader.late_ms for before, later in zip(leader.asked_ms, leader.asked_ms[1:], strict=False)]
    assert len(pauses) >= 2
    assert all(LOST_MS <= each <= LOST_MS + 100 for each in pauses), pauses
    assert set(leader.changes) == {ElectLeader("g", designated=2, leader_epoch=4)}, "one that was made is not made twice"


def test_a_refused_request_is_made_again_after_a_pause_that_doubles(leader: Asking) -> None:
    leader.answer = REFUSED
    leader.run_for(16_000)
    assert leader.asked_ms == [0, AGAIN_MS[0], 3 * AGAIN_MS[0]]


def test_a_lost_answer_does_not_lengthen_the_pause_after_a_refusal(leader: Asking) -> None:
    leader.run_for(400)
    leader.answer = REFUSED
    leader.run_for(6_000)
    assert leader.asked_ms == [0, LOST_MS, LOST_MS + AGAIN_MS[0]]


def test_while_answers_are_lost_the_log_has_a_line_every_ten_seconds_with_their_number(
    leader: Asking, caplog: pytest.LogCaptureFixture
) -> None:
    leader.run_for(10_100)
    asked = "store group g: this leader cannot confirm: replica 2 should lead"
    again = "store group g: the election is asked for again later: nobody knows whether it was made"
    lines = [each.getMessage() for each in caplog.records if each.name == "headgate.replica"]
    assert lines == [asked, again, f"{asked} (20 times in 10 s)", f"{again} (20 times in 10 s)"]
    leader.answer = GroupAnswer(None, GROUP)
    leader.run_for(5_500)
    caplog.clear()
    leader.run_for(AGAIN_MS[1])
    assert caplog.records[0].getMessage() == asked, "what comes after an election is new"
