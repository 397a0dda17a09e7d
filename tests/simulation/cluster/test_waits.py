"""After a fault every gateway that the fault leaves whole serves within a bounded time."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.waits import Waits

KILLED_MS = 1_200
FULL_MS = 5_000
PARTED_MS = 12_000
"""Time for which the network is parted: longer than a gateway holds what clients send."""
MEANWHILE_MS = 6_000
HEALED_MS = 2_000


@pytest.mark.parametrize("seed", range(8))
def test_the_leader_and_the_controller_that_leads_die_together(seed: int) -> None:
    assert Waits(seed).kill_leader_and_controller() <= KILLED_MS


@pytest.mark.parametrize("seed", range(8))
def test_the_disk_of_the_leader_is_full(seed: int) -> None:
    assert Waits(seed).fill_disk_of_leader() <= FULL_MS


@pytest.mark.parametrize("seed", range(8))
def test_the_network_is_parted_into_halves_and_whole_again(seed: int) -> None:
    meanwhile_ms, afterwards_ms = Waits(seed).part_halves(PARTED_MS)
    assert meanwhile_ms <= MEANWHILE_MS
    assert afterwards_ms <= HEALED_MS
