"""Long work in steps: it pauses when a turn has cost enough, ends once, and does not go on after a stop."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from store.steps import COST_MAX, SLICE_NS, Turns
from tests.simulation.kit.clock import VirtualClock

FAULT = OSError(errno.EIO, "Input/output error")


class Stage:
    """A virtual clock, its turns, and what has happened: costs of the steps run, `done`, or the text of an error."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.turns = Turns(self.clock)
        self.log: list[int | str] = []

    def run(self, *costs: int, error: OSError | None = None) -> None:
        """Run steps of these costs, the last of which raises `error`."""

        def steps() -> Iterator[int]:
            for cost in costs:
                self.log.append(cost)
                yield cost
            if error is not None:
                raise error

        self.turns.run(steps(), lambda: self.log.append("done"), lambda failed: self.log.append(str(failed)))


def test_work_that_takes_longer_than_it_costs_pauses_too() -> None:
    stage = Stage()
    runs: list[int] = []

    def steps() -> Iterator[int]:
        for number in range(8):
            runs.append(number)
            stage.clock.now_ns += SLICE_NS // 2
            yield COST_MAX // 16

    stage.turns.run(steps(), lambda: runs.append(-1), lambda _: None)
    assert runs == [0, 1]
    stage.clock.run_for(1_000)
    assert runs == [*range(8), -1]


def test_cheap_work_ends_in_its_first_turn() -> None:
    stage = Stage()
    stage.run(1, 2, COST_MAX - 4)
    assert (stage.log, stage.turns.busy) == ([1, 2, COST_MAX - 4, "done"], False)


def test_dear_work_pauses_and_goes_on_where_it_was() -> None:
    stage = Stage()
    stage.run(COST_MAX - 1, 1, 5, COST_MAX, 7)
    assert (stage.log, stage.turns.busy) == ([COST_MAX - 1, 1], True)
    stage.clock.run_for(1)
    assert stage.log[2:] == [5, COST_MAX]
    stage.clock.run_for(1)
    assert (stage.log[4:], stage.turns.busy) == ([7, "done"], False)


@pytest.mark.parametrize("costs", [(), (1,), (COST_MAX,), (COST_MAX, 1)])
def test_an_error_of_the_disk_ends_the_work(costs: tuple[int, ...]) -> None:
    stage = Stage()
    stage.run(*costs, error=FAULT)
    stage.clock.run_for(1)
    assert (stage.log, stage.turns.busy) == ([*costs, str(FAULT)], False)


def test_after_a_stop_the_work_does_not_go_on() -> None:
    stage = Stage()
    stage.run(COST_MAX, 1)
    stage.turns.stop()
    stage.clock.run_for(10)
    assert stage.log == [COST_MAX]
    stage.run(2)
    assert stage.log == [COST_MAX]


def test_other_work_follows() -> None:
    stage = Stage()
    stage.run(COST_MAX)
    stage.clock.run_for(1)
    stage.run(3)
    assert stage.log == [COST_MAX, "done", 3, "done"]
