"""The checker finds known bugs of raft: each is put back, and found within its seeds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.controller.raft.bugs import BUGS, found
from tests.store.faults.soak import SOAK

ROW = re.compile(r"^\| `([\w-]+)` \| ([^|]+) \| (\d+) \|$", re.MULTILINE)


QUICK = 20
"""Bugs that are found within so many seeds are tried each time."""


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if SOAK or bug.seeds <= QUICK])
def test_a_bug_that_is_put_back_is_found(name: str) -> None:
    seed, said = found(name, BUGS[name].seeds)
    assert seed >= 0, f"not found within {BUGS[name].seeds} seeds"
    assert said


def test_the_page_lists_the_bugs() -> None:
    rows = ROW.findall((Path(__file__).parent / "README.md").read_text("utf-8"))
    assert [(name, what, int(seeds)) for name, what, seeds in rows] == [
        (name, bug.what, bug.seeds) for name, bug in BUGS.items()
    ]
