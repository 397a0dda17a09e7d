"""A leader leads on when connections to controllers break: those of the controller that leads, or its own."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.breaks import run_controller, run_leader


@pytest.mark.parametrize("seed", range(3))
def test_no_other_replica_is_elected_when_the_controller_loses_all(seed: int) -> None:
    run_controller(seed)


@pytest.mark.parametrize("seed", range(3))
def test_no_other_replica_is_elected_when_the_leader_loses_the_controllers(seed: int) -> None:
    run_leader(seed)
