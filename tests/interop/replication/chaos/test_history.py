"""The checker of histories finds what is wrong with each of these, and nothing wrong with a right one."""

from __future__ import annotations

import pytest

from tests.interop.replication.chaos.history import Bounds, Sent, Stored, body_faults, faults, lease_faults
from tests.interop.rocketmq.failover.leases import Answer, Handout, LeaseChange

SENT = [
    Sent("a0", "a", 0, (0, 0), True), Sent("a1", "a", 1, None, False), Sent("a2", "a", 2, (0, 2), True),
    Sent("free", "", 0, None, True), Sent("unheard", "", 1, None, False),
]  # fmt: skip
STORED = [Stored(0, 0, "a0"), Stored(0, 1, "a1"), Stored(0, 2, "a2"), Stored(1, 5, "free")]
BOUNDS = {0: Bounds(0, 3), 1: Bounds(5, 6), 2: Bounds(0, 0)}


def test_a_right_history_has_no_fault() -> None:
    assert faults(SENT, STORED, BOUNDS) == []


WRONG: dict[str, tuple[list[Sent], list[Stored], dict[int, Bounds], str]] = {
    "lost": (SENT, STORED[:3], {**BOUNDS, 1: Bounds(5, 5)}, "'free' was acknowledged and is lost"),
    "twice": (SENT, [*STORED, Stored(2, 0, "free")], {**BOUNDS, 2: Bounds(0, 1)}, "'free' is stored 2 times"),
    "twice, unheard": (
        SENT, [*STORED, Stored(2, 0, "unheard"), Stored(2, 1, "unheard")], {**BOUNDS, 2: Bounds(0, 2)},
        "'unheard' is stored 2 times",
    ),
    "moved": (
        [SENT[0]._replace(place=(0, 9)), *SENT[1:]], STORED, BOUNDS, "'a0' was acknowledged at (0, 9) and is at",
    ),
    "two at one place": (
        [*SENT, Sent("b0", "", 0, (0, 0), True)], [*STORED, Stored(2, 0, "b0")], {**BOUNDS, 2: Bounds(0, 1)},
        "were acknowledged at one place",
    ),
    "never sent": (SENT, [*STORED, Stored(2, 0, "ghost")], {**BOUNDS, 2: Bounds(0, 1)}, "'ghost' is stored and was never sent"),
    "a changed body": (SENT, [STORED[0]._replace(body="A0"), *STORED[1:]], BOUNDS, "'a0' was acknowledged and is lost"),
    "a hole": (SENT, [STORED[0], STORED[2], STORED[3]], BOUNDS, "queue 0 reaches from 0 to 3"),
    "an offset twice": (SENT, [STORED[0], STORED[1]._replace(offset=0), *STORED[2:]], BOUNDS, "queue 0 reaches from 0 to 3"),
    "beyond the bounds": (SENT, STORED, {**BOUNDS, 1: Bounds(5, 7)}, "queue 1 reaches from 5 to 7"),
    "out of order": (
        [SENT[0]._replace(place=None), SENT[1], SENT[2]._replace(place=None), *SENT[3:]],
        [Stored(0, 0, "a2"), Stored(0, 1, "a1"), Stored(0, 2, "a0"), STORED[3]], BOUNDS, "stands behind message 2",
    ),
    "one key in two queues": (
        [*SENT[:2], SENT[2]._replace(place=None), *SENT[3:]], [*STORED[:2], Stored(1, 4, "a2"), STORED[3]],
        {0: Bounds(0, 2), 1: Bounds(4, 6), 2: Bounds(0, 0)}, "are in queues 0 and 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_has_one(name: str) -> None:
    sent, stored, bounds, text = WRONG[name]
    assert any(text in each for each in faults(sent, stored, bounds)), faults(sent, stored, bounds)


def handout(asked_s: float, *changes: LeaseChange, receipt: str = "r") -> Handout:
    return Handout("m", asked_s, asked_s + 0.1, 10.0, receipt, list(changes))


@pytest.mark.parametrize(
    ("handouts", "text"),
    [
        ([handout(0), handout(5, receipt="s")], "too early"),
        ([handout(0, LeaseChange(1, 1.1, Answer.DONE)), handout(30, receipt="s")], "after its acknowledgement"),
        ([handout(0, LeaseChange(1, 1.1, Answer.DONE, 10.0)), handout(10.5, receipt="s")], "too early"),
        ([handout(0), handout(20)], "one lease was given to two receives"),
    ],
    ids=["early", "settled", "extended", "twice"],
)
def test_a_broken_lease_is_a_fault(handouts: list[Handout], text: str) -> None:
    assert any(text in each for each in lease_faults(handouts))


@pytest.mark.parametrize(
    "handouts",
    [
        [handout(0), handout(11, receipt="s")],
        [handout(0, LeaseChange(1, 1.1, Answer.NONE)), handout(11, receipt="s")],
        [handout(0, LeaseChange(1, 1.1, Answer.REFUSED)), handout(2, receipt="s")],
    ],
    ids=["in time", "an acknowledgement that nobody answered", "a lease that had ended"],
)
def test_a_lease_that_ended_is_none(handouts: list[Handout]) -> None:
    assert lease_faults(handouts) == []


def test_what_consumers_got_was_sent_and_in_the_end_they_got_all_of_it() -> None:
    assert body_faults(SENT, {"g": ["a0", "a2", "free", "a1"]}, True) == []
    assert body_faults(SENT, {"g": ["a0"]}, False) == []
    assert body_faults(SENT, {"g": ["a0", "ghost"]}, False) == ["group g got 'ghost', which was never sent"]
    assert body_faults(SENT, {"g": ["a0", "a2"]}, True) == ["group g never got 'free', which was acknowledged"]
