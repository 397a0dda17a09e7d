"""A small run of a store, with a failure at each operation of its disk in turn: nothing that was promised is lost.

`./test` takes a part of the operations, another one with each seed; `make soak` takes them all.
"""

from __future__ import annotations

import errno
from functools import cache
from itertools import count

import pytest

from tests.simulation.kit.clock import VirtualClock
from tests.store.faults.checker import check_after
from tests.store.faults.promises import Promises
from tests.store.faults.run import Moment, check_failed, check_moment, failing, moments
from tests.store.faults.soak import SOAK
from tests.store.faults.work import script

STEP = 1 if SOAK else 12
SEEDS = range(8 if SOAK else 2)
SURVIVORS = 4 if SOAK else 1
"""Power failures at each operation, each with other pages and names that survive."""


@cache
def found(seed: int) -> list[Moment]:
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


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("seed", SEEDS)
def test_an_error_of_each_operation(seed: int, code: int) -> None:
    """All calls are answered; a kill, more work and a power failure then lose nothing."""
    for at in count(seed % STEP, STEP):
        run, failed, work = failing(seed, script, at, code)
        if failed is None:
            assert at > 150, "the run is shorter than it was"
            return
        try:
            check_failed(run, work)
        except AssertionError as error:
            raise AssertionError(f"operation {at}, {failed}: {error}") from error


def test_deleted_segments_that_a_power_failure_brings_back_are_deleted_again() -> None:
    """Whichever of them come back: the log has no hole where others are missing."""
    history = moments(1, script, lambda _: True)
    last = history[-1]
    seen = {name: content for moment in history for name, content in moment.disk.files.items() if name.startswith("log/")}
    gone = sorted(name for name in seen if name not in last.disk.files)
    assert len(gone) > 2
    for some in range(1, 1 << len(gone)):
        clock = VirtualClock(last.now_ms)
        disk = last.disk.killed(clock)
        for at, name in enumerate(gone):
            if some >> at & 1:
                disk.files[name] = seen[name].copy()
        check_after(disk, clock, Promises(last.events[: last.notified]), False, some)
