"""The check of leases finds what is put in by hand, and accuses nobody of what may have been in order."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.interop.rocketmq.failover.leases import Answer, Handout, LeaseChange, broken, given_twice

LEASE_S = 10.0


def handout(asked_s: float, *changes: LeaseChange, took_s: float = 0.01, message: str = "m", receipt: str = "") -> Handout:
    return Handout(message, asked_s, asked_s + took_s, LEASE_S, receipt or str(asked_s), list(changes))


def ack(asked_s: float, answer: Answer = Answer.DONE, took_s: float = 0.01) -> LeaseChange:
    return LeaseChange(asked_s, asked_s + took_s, answer)


def extension(asked_s: float, answer: Answer = Answer.DONE, invisible_s: float = LEASE_S) -> LeaseChange:
    return LeaseChange(asked_s, asked_s + 0.01, answer, invisible_s)


def test_a_message_that_comes_again_just_before_the_end_is_found() -> None:
    first, second = handout(0.0), handout(9.98)
    [found] = broken([second, first])
    assert (found.one, found.other, found.was_settled()) == (first, second, False)
    assert found.early_s == pytest.approx(0.01)


def test_one_that_may_have_come_at_the_end_is_not() -> None:
    assert broken([handout(0.0), handout(9.995)]) == []
    assert broken([handout(0.0), handout(9.0, took_s=1.0)]) == []


def test_of_two_requests_that_overlap_either_may_have_been_first() -> None:
    # The request of one second began early enough for its lease to have ended.
    assert broken([handout(11.0), handout(0.5, took_s=11.0)]) == []
    assert len(broken([handout(11.0), handout(2.0, took_s=9.5)])) == 1
    assert len(broken([handout(0.0), handout(0.0)])) == 1


@pytest.mark.parametrize("again_s", [1.0, 9.0, 11.0, 1_000.0])
def test_one_that_comes_after_its_acknowledgement_is_found(again_s: float) -> None:
    [found] = broken([handout(0.0, ack(0.5)), handout(again_s)])
    assert found.was_settled()


def test_an_acknowledgement_that_came_too_late_settles_nothing() -> None:
    assert broken([handout(0.0, ack(9.995)), handout(10.5)]) == []
    assert broken([handout(0.0, ack(12.0)), handout(10.5)]) == []


def test_an_acknowledgement_without_an_answer_does_not_end_the_lease() -> None:
    assert len(broken([handout(0.0, ack(1.0, Answer.NONE)), handout(9.0)])) == 1
    assert broken([handout(0.0, ack(1.0, Answer.NONE)), handout(10.0)]) == []


def test_after_a_refusal_nothing_is_claimed() -> None:
    assert broken([handout(0.0, ack(3.0, Answer.REFUSED)), handout(4.0)]) == []
    assert broken([handout(0.0, extension(3.0, Answer.REFUSED)), handout(4.0)]) == []
    assert len(broken([handout(0.0, ack(3.0, Answer.REFUSED)), handout(2.0)])) == 1


def test_a_changed_lease_holds_from_its_change_on() -> None:
    longer = handout(0.0, extension(6.0))
    assert len(broken([longer, handout(15.5)])) == 1
    assert broken([longer, handout(16.0)]) == []
    shorter = handout(0.0, extension(2.0, invisible_s=1.0))
    assert broken([shorter, handout(3.0)]) == []
    assert len(broken([shorter, handout(2.5)])) == 1
    assert broken([handout(0.0, extension(6.0), ack(12.0)), handout(30.0)])[0].was_settled()


def test_of_a_change_without_an_answer_the_shorter_lease_is_claimed() -> None:
    assert len(broken([handout(0.0, extension(6.0, Answer.NONE)), handout(9.5)])) == 1
    assert broken([handout(0.0, extension(6.0, Answer.NONE)), handout(10.5)]) == []
    assert broken([handout(0.0, extension(2.0, Answer.NONE, 1.0)), handout(3.5)]) == []


def test_other_messages_and_later_leases_are_none_of_its_business() -> None:
    assert broken([handout(0.0), handout(1.0, message="n"), handout(10.1), handout(20.2)]) == []
    [found] = broken([handout(0.0), handout(10.1), handout(20.0)])
    assert (found.one.asked_s, found.other.asked_s) == (10.1, 20.0)


def test_a_lease_that_two_receives_were_given_is_found() -> None:
    one, other = handout(0.0, receipt="r"), handout(20.0, receipt="r")
    assert given_twice([one, handout(10.0, receipt="s"), other, handout(0.0, receipt="r", message="n")]) == [(one, other)]


@given(
    starts=some.lists(some.floats(0, 5), min_size=1, max_size=6),
    delays=some.lists(some.tuples(some.floats(0, 3), some.floats(0, 3)), min_size=6, max_size=6),
)
def test_no_history_of_a_store_that_keeps_its_promise_is_accused(
    starts: list[float], delays: list[tuple[float, float]]
) -> None:
    """Leases follow each other by 10 s or more, and each is seen through requests and answers of any length."""
    began, history = 0.0, []
    for wait_s, (before_s, after_s) in zip(starts, delays, strict=False):
        began += LEASE_S + wait_s
        history.append(Handout("m", began - before_s, began + after_s, LEASE_S))
    assert broken(history) == []


@given(start=some.floats(0, 100), early_s=some.floats(0.021, 9.9))
def test_any_lease_that_ends_early_by_more_than_requests_last_is_found(start: float, early_s: float) -> None:
    [found] = broken([handout(start), handout(start + LEASE_S - early_s)])
    assert 0 < found.early_s < inf
