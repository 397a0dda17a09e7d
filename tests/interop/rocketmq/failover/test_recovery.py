"""The times of a run are what they are called."""

from __future__ import annotations

import pytest

from tests.interop.rocketmq.failover.recovery import Acknowledged, Kill, first_again_s, longest_gap_s, table


def answers(*times: float) -> list[Acknowledged]:
    return [Acknowledged(f"m{at}", at - 0.1, at) for at in times]


@pytest.mark.parametrize(
    ("times", "gap"),
    [
        ((9.0, 11.0, 12.0, 21.0), 9.0),
        ((9.5, 15.0, 19.5, 20.5), 5.5),
        ((1.0, 10.5, 11.0, 30.0), 19.0),
        ((), 10.0),
        ((4.0,), 16.0),
    ],
)
def test_a_gap_counts_whole_when_the_kill_is_within(times: tuple[float, ...], gap: float) -> None:
    assert longest_gap_s(answers(*times), 10.0, 20.0) == pytest.approx(gap)


def test_the_first_message_is_one_that_was_sent_after_the_kill_and_is_at_the_killed_group_alone() -> None:
    kill = Kill("broker-a", 10.0, 12.0, 20.0)
    sent = [
        Acknowledged("before", 9.9, 10.5),
        Acknowledged("elsewhere", 10.1, 10.6),
        Acknowledged("both", 10.2, 10.7),
        Acknowledged("here", 10.3, 13.0),
    ]
    groups = {"before": {"broker-a"}, "elsewhere": {"broker-b"}, "both": {"broker-a", "broker-b"}, "here": {"broker-a"}}
    assert first_again_s(sent, groups, kill) == pytest.approx(3.0)
    assert first_again_s(sent[:3], groups, kill) is None


def test_the_table_has_the_middle_and_the_worst() -> None:
    kills = [Kill("broker-a", 10.0, 12.0, 20.0), Kill("broker-b", 30.0, 34.0, 40.0)]
    sent = [Acknowledged(f"m{at}", at - 0.1, at) for at in (9.0, 11.0, 20.0, 29.0, 33.0, 40.0)]
    groups = {each.body: {"broker-a"} for each in sent}
    rows = table({"http": sent}, groups, kills).splitlines()
    assert "| http | 6 | 8.0 / 9.0 s | 1.0 / 1.0 s; 1 times none |" in rows
    assert "| Apache's controller names another master | | | 3.0 / 4.0 s |" in rows
