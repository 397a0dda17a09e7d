"""A small run of a store, with a failure at each operation of its disk in turn: nothing that was promised is lost.

`./test` takes a part of the operations, another one with each seed; `make soak` takes them all.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.store.faults.run import Moment, check_moment, moments
from tests.store.faults.soak import SOAK
from tests.store.faults.work import script

STEP = 1 if SOAK else 12
SEEDS = range(8 if SOAK else 2)
SURVIVORS = 4 if SOAK else 1
"""Power failures at each operation, each with other pages and names that survive."""


@cache
def found(seed: int) -> list[Moment]:
    """The moments of one run: every STEPth operation, and the end."""
    return moments(seed, script, lambda number: number % STEP == seed % STEP)


def test_the_run_has_every_kind_of_operation_in_every_folder() -> None:
    seen = {(moment.operation.kind, moment.operation.name.split("/")[0]) for moment in moments(0, script, lambda _: True)}
    for folder in ("log", "index", "keys", "snapshot", "checkpoint"):
        assert {("create", folder), ("append", folder), ("sync", folder), ("folder", folder)} <= seen, folder
    assert {("remove", "log"), ("remove", "checkpoint")} <= seen


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kill_at_each_operation(seed: int) -> None:
    for moment in found(seed):
        check_moment(moment, power=False, survivors=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_failure_at_each_operation(seed: int) -> None:
    for moment in found(seed):
        for survivors in range(SURVIVORS):
            check_moment(moment, power=True, survivors=seed * 100 + survivors)
