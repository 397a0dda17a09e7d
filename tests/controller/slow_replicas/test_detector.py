"""The detector moves leadership away from a replica that is slow, and from no other."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from controller.slow_replicas.detector import BETWEEN_MS, GreyDetector
from controller.slow_replicas.ejections import FIRST_MS, LONGEST_MS, PROBES
from controller.slow_replicas.history import CLOCKS
from controller.slow_replicas.ports import ClockOff, Held, Move, PassedOver, Returned
from domain.controller.health import Fitness, Standing
from tests.controller.slow_replicas.group import ENOUGH, SECOND_MS, ToldGroup


@pytest.fixture
def told() -> ToldGroup:
    return ToldGroup()


@pytest.mark.parametrize(
    ("figure", "value"), [("sync_us", 400_000), ("ack_us", 900_000), ("turn_us", 3_000_000), ("errors", 3)]
)
def test_leadership_leaves_a_leader_whose_figure_is_out_of_the_ordinary(told: ToldGroup, figure: str, value: int) -> None:
    assert told.run(ENOUGH) == []
    told.slow(1, **{figure: value})
    decided = told.run(30)
    assert isinstance(decided[0], Move)
    assert (decided[0].source, decided[0].target in (2, 3)) == (1, True)
    assert [each.name for each in decided[0].excesses] == [figure]
    assert decided[0].excesses[0].level > decided[0].excesses[0].bound


def test_nobody_is_moved_for_a_slow_moment(told: ToldGroup) -> None:
    told.run(ENOUGH)
    for _ in range(10):
        told.slow(1, sync_us=2_000_000)
        told.run(3)
        told.slow(1, sync_us=3_000)
        told.run(20)
    assert told.verdicts == []


def test_a_cause_that_all_share_moves_nobody(told: ToldGroup) -> None:
    told.run(ENOUGH)
    for replica in (1, 2, 3):
        told.slow(replica, sync_us=800_000)
    assert told.run(120) == []
    for replica in (1, 2, 3):
        told.slow(replica, turn_us=5_000_000)
    assert not [each for each in told.run(60) if isinstance(each, Move)]


def test_the_target_is_the_member_with_the_best_figures() -> None:
    told = ToldGroup(replicas=4)
    told.slow(2, sync_us=40_000)
    told.run(ENOUGH)
    told.slow(1, sync_us=900_000)
    told.group = replace(told.group, members=told.group.members[:3])
    decided = told.run(30)
    assert isinstance(decided[0], Move)
    assert decided[0].target == 3


def test_a_member_that_is_dead_or_slow_itself_is_no_target(told: ToldGroup) -> None:
    told.run(ENOUGH)
    told.alive.discard(("broker-a", 2))
    told.slow(3, errors=5)
    told.slow(1, sync_us=900_000)
    decided = told.run(30)
    assert decided
    assert all(isinstance(each, Held) for each in decided)
    assert "no other member" in str(decided[0])


def test_a_group_is_moved_once_in_a_minute_at_most() -> None:
    told = ToldGroup(replicas=9)
    told.run(ENOUGH)
    moves: list[int] = []
    for _ in range(300):
        told.slow(told.group.leader, sync_us=900_000)
        moves += [told.now_ms for each in told.run(1) if isinstance(each, Move)]
    assert len(moves) >= 2
    assert all(later - sooner >= BETWEEN_MS for sooner, later in pairwise(moves))


def test_at_most_a_third_of_the_replicas_is_out() -> None:
    detector = GreyDetector()
    told = ToldGroup(detector, replicas=6)
    told.run(ENOUGH)
    most = 0
    for _ in range(600):
        told.slow(told.group.leader, sync_us=900_000)
        told.run(1)
        most = max(most, detector.out())
    assert most == 2


def test_who_was_moved_away_from_returns_after_its_time_and_probes_and_stays_longer_the_next_time() -> None:
    detector = GreyDetector()
    told = ToldGroup(detector)
    told.run(ENOUGH)
    told.slow(1, sync_us=900_000)
    (move,) = [each for each in told.run(30) if isinstance(each, Move)]
    assert move.out_ms == FIRST_MS
    standing = detector.standing("broker-a", 1)
    assert standing.fitness is Fitness.SLOW
    assert "sync_us" in standing.why
    assert not [each for each in told.run(300) if isinstance(each, Returned)], "it is still slow"
    told.slow(1, sync_us=3_000)
    assert [each for each in told.run(PROBES + 10) if isinstance(each, Returned)] == [Returned("broker-a", 1)]
    assert detector.standing("broker-a", 1) == Standing()
    told.lead(1)
    told.run(ENOUGH)
    told.slow(1, sync_us=900_000)
    (again,) = [each for each in told.run(60) if isinstance(each, Move)]
    assert again.out_ms == 2 * FIRST_MS <= LONGEST_MS


def test_figures_of_nobody_and_of_groups_that_are_gone_are_forgotten() -> None:
    detector = GreyDetector()
    for number in range(1_000):
        detector.heard(f"made-up {number}", 1, True, ToldGroup().figures[1], SECOND_MS)
    told = ToldGroup(detector)
    told.run(1)
    assert len(detector._histories) == 3


def test_figures_that_are_old_say_nothing(told: ToldGroup) -> None:
    told.run(ENOUGH)
    told.slow(1, sync_us=900_000)
    told.run(3)
    alive, told.alive = told.alive, set()
    assert told.run(60) == []
    told.alive = alive
    assert [each for each in told.run(30) if isinstance(each, Move)]


def test_a_follower_that_is_slow_is_passed_over_and_returns() -> None:
    detector = GreyDetector()
    told = ToldGroup(detector)
    told.run(ENOUGH)
    told.slow(2, sync_us=400_000)
    (over,) = told.run(30)
    assert isinstance(over, PassedOver)
    assert (over.replica, over.out_ms) == (2, FIRST_MS)
    assert detector.standing("broker-a", 2).fitness is Fitness.SLOW
    told.slow(2, sync_us=3_000)
    assert told.run(FIRST_MS // SECOND_MS + PROBES + 10) == [Returned("broker-a", 2)]
    assert detector.standing("broker-a", 2) == Standing()


def test_a_follower_to_which_the_path_is_slow_is_passed_over_and_returns() -> None:
    detector = GreyDetector()
    told = ToldGroup(detector)
    assert told.run(ENOUGH) == []
    told.paths[3] = 600_000
    (over,) = told.run(30)
    assert isinstance(over, PassedOver)
    assert (over.replica, over.out_ms, [each.name for each in over.excesses]) == (3, FIRST_MS, ["path_us"])
    assert over.excesses[0].level > over.excesses[0].bound
    assert "path_us" in detector.standing("broker-a", 3).why
    told.group = replace(told.group, members=told.group.members[:2])
    assert told.run(120) == [], "its path is its probe"
    told.paths[3] = 4_000
    assert told.run(PROBES + 10) == [Returned("broker-a", 3)]


def test_paths_that_are_all_slow_and_the_path_to_the_only_follower_move_nobody(told: ToldGroup) -> None:
    told.run(ENOUGH)
    told.paths = dict.fromkeys(told.paths, 600_000)
    assert told.run(60) == []
    two = ToldGroup(replicas=2)
    two.run(ENOUGH)
    two.paths[2] = 600_000
    assert two.run(60) == []


def test_a_path_that_nobody_measures_any_more_says_nothing(told: ToldGroup) -> None:
    told.run(ENOUGH)
    told.paths[3] = 600_000
    told.run(3)
    del told.paths[3]
    assert told.run(60) == []


def test_only_the_leader_says_how_its_paths_are(told: ToldGroup) -> None:
    told.run(ENOUGH)
    said = told.figures[2]._replace(paths=((3, 900_000),))
    for _ in range(30):
        told.judge.heard("broker-a", 2, False, said, told.now_ms)
        assert told.run(1) == []


def test_a_follower_outside_the_sync_state_set_is_not_judged(told: ToldGroup) -> None:
    told.group = replace(told.group, members=told.group.members[:2])
    told.run(ENOUGH)
    told.slow(3, sync_us=900_000)
    assert told.run(60) == []


def test_leadership_leaves_a_leader_whose_clock_is_off_and_it_does_not_lead_until_it_is_right() -> None:
    detector = GreyDetector()
    told = ToldGroup(detector)
    assert told.run(ENOUGH) == []
    told.clocks[1] = 900
    off, move = told.run(15)
    assert isinstance(off, ClockOff)
    assert off.replica == 1
    assert off.excesses[0].level == pytest.approx(900, abs=1)
    assert isinstance(move, Move)
    assert (move.source, [each.name for each in move.excesses]) == (1, ["clock_ms"])
    assert detector.standing("broker-a", 1).fitness is Fitness.CLOCK_OFF
    told.clocks[1] = -300
    assert told.run(CLOCKS + 1) == [ClockOff("broker-a", 1, ())]
    assert detector.standing("broker-a", 1).fitness is Fitness.SLOW, "it is passed over for its time"


@pytest.mark.parametrize("off_ms", [-480, 480])
def test_clocks_within_the_bound_change_nothing(told: ToldGroup, off_ms: int) -> None:
    told.clocks[1] = off_ms
    assert told.run(120) == []


def test_a_clock_that_a_follower_has_wrong_moves_nobody_and_the_follower_is_no_target() -> None:
    detector = GreyDetector()
    told = ToldGroup(detector)
    told.clocks[2] = -3_000
    told.run(ENOUGH)
    assert [type(each) for each in told.verdicts] == [ClockOff]
    told.slow(1, sync_us=900_000)
    (move,) = told.run(20)
    assert isinstance(move, Move)
    assert move.target == 3


def test_two_clocks_do_not_tell_which_one_is_off() -> None:
    told = ToldGroup(replicas=1)
    told.clocks[1] = 60_000
    assert told.run(60) == []


def test_heartbeats_that_are_late_make_no_clock_seem_off(told: ToldGroup) -> None:
    told.delays = (0, 700, 900, 1_200)
    assert not [each for each in told.run(120) if isinstance(each, ClockOff)]


def test_many_seeds_of_ordinary_figures_decide_nothing() -> None:
    for seed in range(30):
        assert ToldGroup(seed=seed).run(200) == [], seed
