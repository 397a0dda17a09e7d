"""What a leader says of the replicas that are not in sync."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.controller.group import SetMember
from domain.controller.left_out import LeftOut, MemberLack
from store.replication.set_review import NEAR_BYTES, STUCK_NS
from tests.store.replication.test_leading import Stage, keep_up


def left_out(stage: Stage) -> tuple[LeftOut, ...]:
    """What the leader says now."""
    leading = stage.leading
    return leading.review.left_out(stage.clock.monotonic_ns(), leading.written, leading.synced)


@pytest.fixture
def stage() -> Stage:
    """Replica 2 follows, and 3 was left out."""
    found = Stage()
    good = found.follow(2, 1_000)
    keep_up(found, good, 4_000)
    assert found.members == [1, 2]
    found.log.write(500)
    found.clock.run_for(50)
    found.held(good, 1_500)
    found.clock.run_for(50)
    assert found.log.confirmed == (1_500, 1_500)
    return found


def test_a_member_lacks_nothing() -> None:
    stage = Stage()
    assert left_out(stage) == ()


def test_a_replica_without_a_connection_is_named(stage: Stage) -> None:
    assert left_out(stage) == (LeftOut(3, MemberLack.CONNECTION),)
    connection = stage.follow(3, 1_000)
    stage.leading.lost(connection)
    assert left_out(stage) == (LeftOut(3, MemberLack.CONNECTION),)


def test_one_that_follows_lacks_what_is_confirmed_then_what_is_near_the_end_then_the_consent(stage: Stage) -> None:
    connection = stage.follow(3, 1_000)
    stage.held(connection, 1_000)
    assert left_out(stage) == (LeftOut(3, MemberLack.RECORDS, 500),)
    stage.log.write(2 * NEAR_BYTES)
    stage.clock.run_for(1)
    stage.held(connection, 1_500)
    assert left_out(stage) == (LeftOut(3, MemberLack.RECORDS, 2 * NEAR_BYTES),)
    stage.answers = False
    stage.clock.run_for(20)
    stage.held(connection, stage.leading.followers[3].sent)
    assert stage.log.written - stage.leading.followers[3].written <= NEAR_BYTES
    assert left_out(stage) == (LeftOut(3, MemberLack.CONSENT),)
    stage.leading.review.slow = frozenset({3})
    assert left_out(stage) == (LeftOut(3, MemberLack.SPEED),)


def test_one_that_is_silent_makes_no_progress(stage: Stage) -> None:
    stage.answers = False
    connection = stage.follow(3, 1_000)
    stage.held(connection, 1_000)
    stage.clock.run_for(STUCK_NS // 1_000_000 + 200)
    assert left_out(stage) == (LeftOut(3, MemberLack.PROGRESS),)


def test_learners_are_not_meant_and_another_log_is_not_connected(stage: Stage) -> None:
    group = stage.group
    others = group.replicas[:2]
    learner = replace(group.replicas[2], learner=True)
    stage.leading.group_heard(replace(group, replicas=(*others, learner), order=5))
    assert left_out(stage) == ()
    stage.follow(3, 1_000)
    wiped = replace(group.replicas[2], incarnation="77")
    stage.leading.group_heard(replace(group, replicas=(*others, wiped), order=6))
    assert SetMember(3, "77") not in stage.group.members
    assert left_out(stage) == (LeftOut(3, MemberLack.CONNECTION),)
