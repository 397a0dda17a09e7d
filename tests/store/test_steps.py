"""Long work in steps: it pauses when a turn has cost enough, ends once, and does not go on after a stop."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from domain.turn import STORE_TASK_COST, STORE_TASK_NS
from store.steps import Turns
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
            stage.clock.now_ns += STORE_TASK_NS // 2
            yield STORE_TASK_COST // 16

    stage.turns.run(steps(), lambda: runs.append(-1), lambda _: None)
    assert runs == [0, 1]
    stage.clock.run_for(1_000)
    assert runs == [*range(8), -1]


def test_cheap_work_ends_in_its_first_turn() -> None:
    stage = Stage()
    stage.run(1, 2, STORE_TASK_COST - 4)
    assert (stage.log, stage.turns.busy) == ([1, 2, STORE_TASK_COST - 4, "done"], False)


def test_dear_work_pauses_and_goes_on_where_it_was() -> None:
    stage = Stage()
    stage.run(STORE_TASK_COST - 1, 1, 5, STORE_TASK_COST, 7)
    assert (stage.log, stage.turns.busy) == ([STORE_TASK_COST - 1, 1], True)
    stage.clock.run_for(1)
    assert stage.log[2:] == [5, STORE_TASK_COST]
    stage.clock.run_for(1)
    assert (stage.log[4:], stage.turns.busy) == ([7, "done"], False)


def test_another_task_goes_between_the_turns_of_a_long_one() -> None:
    stage = Stage()
    stage.run(*[STORE_TASK_COST] * 3)
    other = Turns(stage.clock)
    log = stage.log

    def steps() -> Iterator[int]:
        for _ in range(2):
            log.append("other")
            yield STORE_TASK_COST

    other.run(steps(), lambda: log.append("other done"), lambda _: None)
    stage.clock.run_for(10)
    assert log == [
        STORE_TASK_COST, "other", STORE_TASK_COST, "other", STORE_TASK_COST, "other done", "done",
    ]  # fmt: skip


@pytest.mark.parametrize("costs", [(), (1,), (STORE_TASK_COST,), (STORE_TASK_COST, 1)])
def test_an_error_of_the_disk_ends_the_work(costs: tuple[int, ...]) -> None:
    stage = Stage()
    stage.run(*costs, error=FAULT)
    stage.clock.run_for(1)
    assert (stage.log, stage.turns.busy) == ([*costs, str(FAULT)], False)


def test_after_a_stop_the_work_does_not_go_on() -> None:
    stage = Stage()
    stage.run(STORE_TASK_COST, 1)
    stage.turns.stop()
    stage.clock.run_for(10)
    assert stage.log == [STORE_TASK_COST]
    stage.run(2)
    assert stage.log == [STORE_TASK_COST]


def test_other_work_follows() -> None:
    stage = Stage()
    stage.run(STORE_TASK_COST)
    stage.clock.run_for(1)
    stage.run(3)
    assert stage.log == [STORE_TASK_COST, "done", 3, "done"]
