"""Runs work that is too long for one turn of the loop in steps, with pauses for everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, final

from domain.ports import Clock, Timer
from domain.turn import STORE_TASK_COST, STORE_TASK_NS

_PAUSE_NS: Final = 1_000_000
_LOOK_COST: Final = 256
"""Cost between two reads of the clock."""


@final
class Turns:
    """Runs one piece of work at a time; the first turn begins within `run`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: Timer | None = None
        self._stopped = False
        self.busy = False

    def run(self, steps: Iterator[int], done: Callable[[], None], failed: Callable[[OSError], None]) -> None:
        """Run `steps`, each of which yields its cost, to the end; then call `done`, or `failed` after an OSError."""
        if self._stopped:
            return
        self._timer = None
        self.busy = True
        cost, looked = 0, 0
        end_ns = self._clock.monotonic_ns() + STORE_TASK_NS
        try:
            for each in steps:
                cost += each
                late = False
                if cost - looked >= _LOOK_COST:
                    looked = cost
                    late = self._clock.monotonic_ns() >= end_ns
                if late or cost >= STORE_TASK_COST:
                    again = self._clock.monotonic_ns() + _PAUSE_NS
                    self._timer = self._clock.call_at(again, lambda: self.run(steps, done, failed))
                    return
        except OSError as error:
            self.busy = False
            failed(error)
            return
        self.busy = False
        done()

    def run_unwatched(self, steps: Iterator[int]) -> None:
        """Run `steps` without a waiter; an OSError ends them, and the next run begins from the start."""
        self.run(steps, _ended, _failed)

    def stop(self) -> None:
        """Abandon the work under way: neither `done` nor `failed` is called."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _ended() -> None:
    return


def _failed(_error: OSError) -> None:
    return
