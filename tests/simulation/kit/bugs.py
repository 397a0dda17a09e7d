"""Known bugs, put back one at a time: a simulation has to find each within the number of seeds that its list states.

    python -m tests.simulation.kit.bugs tests.controller.raft.bugs [NAME]    the first seed that finds a bug, or each, and how

Only modules that are not compiled can be patched (HEADGATE_PURE=1).
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

Patch = pytest.MonkeyPatch
PutBack = Callable[[Patch], None]
Run = Callable[[int], object]
"""A run under a seed. It raises a HistoryError, or another AssertionError, when it finds something."""


class HistoryError(AssertionError):
    """What clients or nodes have seen cannot be explained."""


class Bug(NamedTuple):
    """A bug that can be put back.

    about      what is wrong
    put_back   puts it back, until the patch is undone
    run        finds it
    seeds      those within which it is found
    """

    about: str
    put_back: PutBack
    run: Run
    seeds: range

    def find(self) -> tuple[int, str]:
        """(first seed that finds it, what the run says). AssertionError when none does."""
        with Patch.context() as patch:
            self.put_back(patch)
            for seed in self.seeds:
                try:
                    self.run(seed)
                except AssertionError as error:
                    return seed, f"{type(error).__name__}: {error}"
        raise AssertionError(f"not found within {len(self.seeds)} seeds: {self.about}")


class Bugs(dict[str, Bug]):
    """The bugs of one simulation. A bug has the name of the function that puts it back; its docstring says what is wrong."""

    def found_by(self, run: Run, seeds: int, first: int = 0, step: int = 1) -> Callable[[PutBack], PutBack]:
        """A bug that `run` finds within so many seeds, from `first` on, in steps of `step`."""

        def add(put_back: PutBack) -> PutBack:
            about = (put_back.__doc__ or "").rstrip(".")
            within = range(first, first + seeds * step, step)
            self[put_back.__name__.replace("_", "-")] = Bug(about, put_back, run, within)
            return put_back

        return add


if __name__ == "__main__":
    logging.disable()
    bugs: Bugs = importlib.import_module(sys.argv[1]).BUGS
    for name in sys.argv[2:] or bugs:
        print(name, *bugs[name].find(), flush=True)
