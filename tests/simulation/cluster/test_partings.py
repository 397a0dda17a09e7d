"""A leader that is parted from others, and that clients reach, does not hold up the group."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.partings import run, run_before, run_joined, run_jolted, run_last, run_moved


@pytest.mark.parametrize("seed", range(8))
def test_the_group_serves_within_ten_seconds(seed: int) -> None:
    partings = run(seed)
    assert partings.cluster.checkers.serving > 1, "another replica has led"


@pytest.mark.parametrize("seed", range(4))
def test_gateways_leave_a_leader_of_the_version_before_that_keeps_them(seed: int) -> None:
    assert run_before(seed).cluster.checkers.serving > 1, "another replica has led"


@pytest.mark.parametrize("seed", range(4))
def test_a_parted_leader_that_stands_still_again_and_again_is_replaced(seed: int) -> None:
    assert run_jolted(seed).cluster.checkers.serving > 1, "another replica has led"


@pytest.mark.parametrize("seed", range(4))
def test_two_of_three_serve_though_the_third_was_the_last_to_lead(seed: int) -> None:
    assert run_last(seed).cluster.checkers.serving > 1


@pytest.mark.parametrize("seed", range(4))
def test_an_operator_can_move_the_leadership_away_from_a_parted_leader(seed: int) -> None:
    assert run_moved(seed).cluster.checkers.serving > 1


@pytest.mark.parametrize("seed", range(6))
def test_an_operator_has_a_replica_lead_in_one_step_that_is_not_in_sync(seed: int) -> None:
    assert run_joined(seed).cluster.checkers.serving > 3, "three replicas were made to lead"
