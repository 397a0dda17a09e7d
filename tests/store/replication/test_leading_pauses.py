"""A leader that itself stands still, and a leadership that has confirmed something."""

from __future__ import annotations

from store.replication.set_review import LOST_NS, STUCK_NS
from tests.store.replication.test_leading import Stage, both_follow


def test_a_leader_that_stands_still_again_and_again_leaves_silent_members_out() -> None:
    stage = Stage(least=1)
    both_follow(stage)
    stage.log.write(500)
    for _ in range(10):
        stage.clock.stall(2 * LOST_NS // 1_000_000)
        stage.clock.run_for(500)
    assert stage.members == [1], "its own pauses do not count, and what lies between them does"


def test_what_a_leader_waits_for_while_it_stands_still_does_not_count() -> None:
    stage = Stage(least=1)
    both_follow(stage)
    stage.log.write(500)
    stage.clock.run_for(STUCK_NS // 1_000_000 - 500)
    stage.clock.stall(60_000)
    stage.clock.run_for(300)
    assert stage.members == [1, 2, 3]
    stage.clock.run_for(500)
    assert stage.members == [1]


def test_members_that_answer_between_its_pauses_stay() -> None:
    stage = Stage(least=1)
    both = both_follow(stage)
    for _ in range(20):
        stage.log.write(500)
        stage.clock.stall(10 * LOST_NS // 1_000_000)
        stage.clock.run_for(50)
        for each in both:
            stage.held(each, stage.log.written)
    assert not stage.altered


def test_a_leadership_has_confirmed_something_when_members_hold_a_record_of_it() -> None:
    stage = Stage()
    good, other = both_follow(stage)
    assert not stage.leading.review.has_confirmed, "the log at its begin is of other leaders"
    stage.log.write(100)
    stage.clock.run_for(10)
    stage.held(good, 1_100)
    stage.clock.run_for(200)
    assert not stage.leading.review.has_confirmed
    stage.held(other, 1_100)
    stage.clock.run_for(200)
    assert stage.leading.review.has_confirmed
