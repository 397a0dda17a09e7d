"""The fence of a leader's reads: what opens it, for how long, and what becomes of reads that wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from domain.controller.group import SetMember
from domain.errors import ErrorCode, Failure
from domain.replication.message import LogBytes, LogHeld
from store.replication.fence import FENCE_NS, HOLD_NS, TURN_READS, WAIT_NS, WAITING_MAX, FenceCounts, ReadFence
from tests.simulation.kit.clock import VirtualClock
from tests.store.replication.test_leading import EPOCH, FakeConnection, Stage

MS = 1_000_000
TWO, THREE = SetMember(2, "22"), SetMember(3, "33")


class Fenced:
    """A fence, and what it asks for."""

    def __init__(self, members: tuple[SetMember, ...] = (TWO, THREE), others: tuple[int, ...] = (2, 3)) -> None:
        self.clock = VirtualClock()
        self.asked = self.asked_controllers = 0
        self.counts = FenceCounts()
        self.fence = ReadFence(self.clock, others, self._ask, self._ask_controllers, self.counts)
        self.fence.members(members)
        self.read: list[str] = []

    def _ask(self) -> None:
        self.asked += 1
        self.fence.question()

    def _ask_controllers(self) -> None:
        self.asked_controllers += 1

    def accept(self) -> None:
        """All others accept the epoch: the hold of the new leader ends."""
        for each in (2, 3):
            self.fence.accepted(each)

    def answer(self, number: int, *members: SetMember) -> None:
        for each in members or (TWO, THREE):
            self.fence.answered(each, number)

    def wait(self, name: str = "read") -> None:
        def refused(failure: Failure) -> None:
            assert failure.code is ErrorCode.STORE_UNAVAILABLE
            self.read.append(f"{name} refused")

        self.fence.wait(lambda: self.read.append(name), refused)


def test_answers_of_all_members_open_it_for_its_time_since_the_question() -> None:
    one = Fenced()
    one.accept()
    assert not one.fence.passes()
    number = one.fence.question()
    one.clock.run_for(200)
    one.answer(number, TWO)
    assert not one.fence.passes(), "a majority of the members proves nothing"
    one.answer(number, THREE)
    assert one.fence.passes()
    one.clock.run_for(FENCE_NS // MS - 200 - 1)
    assert one.fence.passes()
    one.clock.run_for(2)
    assert not one.fence.passes()


def test_the_oldest_answer_counts_and_an_answer_that_was_not_asked_for_does_not() -> None:
    one = Fenced()
    one.accept()
    first = one.fence.question()
    one.clock.run_for(300)
    second = one.fence.question()
    one.answer(second, TWO)
    one.answer(first, THREE)
    one.clock.run_for(199)
    assert one.fence.passes()
    one.clock.run_for(2)
    assert not one.fence.passes()
    one.answer(one.fence.number + 1_000, THREE)
    assert not one.fence.passes()
    one.answer(second, THREE)
    assert one.fence.passes()


def test_a_majority_of_the_controllers_opens_it_for_its_time_since_they_were_asked() -> None:
    one = Fenced()
    one.accept()
    asked = one.clock.monotonic_ns()
    one.clock.run_for(400)
    one.fence.confirmed(asked)
    assert one.fence.passes()
    one.clock.run_for(101)
    assert not one.fence.passes()


def test_a_new_leader_answers_when_all_others_have_accepted_its_epoch_or_after_its_hold() -> None:
    for accepts in (False, True):
        one = Fenced()
        one.answer(one.fence.question())
        one.fence.accepted(2)
        assert not one.fence.passes()
        if accepts:
            one.fence.accepted(3)
            assert one.fence.passes()
        one.clock.run_for(HOLD_NS // MS - 1)
        one.answer(one.fence.question())
        assert one.fence.passes() == accepts
        one.clock.run_for(2)
        assert one.fence.passes()


def test_a_leader_alone_in_its_set_needs_nobody_until_it_asks_for_another_member() -> None:
    one = Fenced(members=(), others=())
    assert one.fence.passes()
    one.clock.run_for(60_000)
    assert one.fence.passes()
    one.fence.members([TWO])
    assert one.fence.passes()
    one.clock.run_for(FENCE_NS // MS + 1)
    assert not one.fence.passes()
    one.answer(one.fence.question(), TWO)
    assert one.fence.passes()


def test_a_leader_that_is_left_alone_in_its_set_waits_for_the_fences_before_it() -> None:
    one = Fenced(members=())
    one.clock.run_for(HOLD_NS // MS - 1)
    assert not one.fence.passes(), "who led before may be paused, and answer yet"
    one.clock.run_for(2)
    assert one.fence.passes()


def test_a_read_asks_again_before_it_closes_and_the_controllers_when_members_are_silent() -> None:
    one = Fenced()
    one.accept()
    one.answer(one.fence.question())
    one.clock.run_for(290)
    assert one.fence.passes()
    assert one.asked == 0
    one.clock.run_for(20)
    assert one.fence.passes()
    assert one.fence.passes()
    assert (one.asked, one.asked_controllers) == (1, 0), "one question for reads of the same time"
    one.clock.run_for(110)
    assert one.fence.passes()
    assert (one.asked, one.asked_controllers) == (2, 1)


def test_reads_wait_for_an_answer_and_are_refused_without_one() -> None:
    one = Fenced()
    one.accept()
    one.wait("first")
    one.clock.run_for(500)
    assert one.read == []
    assert one.asked > 0
    assert one.asked_controllers > 0
    one.answer(one.fence.number)
    one.clock.run_for(1)
    assert one.read == ["first"]
    one.clock.run_for(1_000)
    one.wait("second")
    one.clock.run_for(WAIT_NS // MS - 1)
    assert one.read == ["first"]
    one.clock.run_for(101)
    assert one.read == ["first", "second refused"]
    assert (one.counts.waited, one.counts.refused) == (2, 1)


def test_reads_that_wait_are_bounded_and_refused_at_the_end_of_the_leadership() -> None:
    one = Fenced()
    for _ in range(WAITING_MAX + 1):
        one.wait()
    assert one.read == ["read refused"]
    one.fence.close()
    assert one.read == ["read refused"] * (WAITING_MAX + 1)
    one.wait("late")
    assert one.read[-1] == "late refused"
    one.answer(one.fence.question())
    one.fence.confirmed(one.clock.monotonic_ns())
    assert not one.fence.passes()


def test_many_reads_that_waited_take_more_than_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Fenced()
    one.accept()
    for _ in range(3 * TURN_READS + 1):
        one.wait()
    turns: list[int] = []
    soon = one.clock.call_soon

    def noted(callback: Callable[[], None]) -> object:
        turns.append(len(one.read))
        return soon(callback)

    monkeypatch.setattr(one.clock, "call_soon", noted)
    one.answer(one.fence.question())
    one.clock.run_for(10)
    assert turns == [0, TURN_READS, 2 * TURN_READS, 3 * TURN_READS]
    assert len(one.read) == 3 * TURN_READS + 1


# A leadership


def questions(connection: FakeConnection) -> list[int]:
    return [each.question for each in connection.events if isinstance(each, LogBytes) and each.question]


def answer(stage: Stage, connection: FakeConnection, position: int = 1_000) -> None:
    """A follower answers the newest question."""
    stage.leading.held(connection, LogHeld(EPOCH, position, position, True, questions(connection)[-1]))


def test_the_signs_of_a_leader_keep_it_open() -> None:
    stage = Stage()
    both = [stage.follow(2, 1_000), stage.follow(3, 1_000)]
    for _ in range(100):
        stage.clock.run_for(50)
        for each in both:
            if questions(each):
                answer(stage, each)
    assert stage.leading.fence.passes()
    assert stage.looks == 0, "the controllers are not asked while all members answer"
    asked = len(questions(both[0]))
    assert 20 <= asked <= 50, "a question with each sign, no more"
    stage.clock.run_for(FENCE_NS // MS + 1)
    assert not stage.leading.fence.passes()


def test_a_follower_of_a_version_that_answers_none_leaves_it_to_the_controllers() -> None:
    stage = Stage()
    new, old = stage.follow(2, 1_000), stage.follow(3, 1_000)
    for _ in range(20):
        stage.clock.run_for(50)
        stage.held(old, 1_000)
        if questions(new):
            answer(stage, new)
    assert not stage.leading.fence.passes()
    assert stage.looks == 1
    stage.leading.fence.confirmed(stage.clock.monotonic_ns())
    assert stage.leading.fence.passes()


def test_the_end_of_the_leadership_closes_it() -> None:
    stage = Stage()
    for each in (2, 3):
        stage.follow(each, 1_000)
    stage.leading.fence.confirmed(stage.clock.monotonic_ns())
    assert stage.leading.fence.passes()
    other = replace(stage.group, leader=2, leader_epoch=EPOCH + 1)
    stage.leading.group_heard(other)
    assert not stage.leading.fence.passes(), "the leadership has ended"
