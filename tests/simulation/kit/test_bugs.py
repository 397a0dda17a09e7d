"""One page lists the bugs that are put back in all simulations; tests beside each simulation put them back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

import tests.controller.groups.bugs
import tests.controller.member.bugs
import tests.controller.raft.bugs
import tests.gateway.cluster.replica.bugs
import tests.simulation.cluster.bugs
import tests.store.faults.bugs
from tests.simulation.kit.bugs import Bug, Bugs, Patch

LISTS: Final = {
    "raft": tests.controller.raft.bugs.BUGS,
    "groups": tests.controller.groups.bugs.BUGS,
    "member": tests.controller.member.bugs.BUGS,
    "replicas": tests.gateway.cluster.replica.bugs.BUGS,
    "cluster": tests.simulation.cluster.bugs.BUGS,
    "store": tests.store.faults.bugs.BUGS,
}
ROW: Final = re.compile(r"^\| (\w+) \| `([\w-]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def within(bug: Bug) -> str:
    """The seeds of a bug, as the page states them."""
    seeds = bug.seeds
    first = f" from {seeds.start} on" if seeds.start else ""
    step = f", every {seeds.step}th" if seeds.step > 1 else ""
    return f"{len(seeds)}{first}{step}"


def test_the_page_lists_the_bugs() -> None:
    rows = ROW.findall((Path(__file__).parent / "README.md").read_text("utf-8"))
    assert rows == [(suite, name, bug.about, within(bug)) for suite, bugs in LISTS.items() for name, bug in bugs.items()]


class Sum:
    """Adds two numbers, rightly."""

    def of(self, one: int, other: int) -> int:
        return one + other


def check_sum(seed: int) -> None:
    assert Sum().of(seed, 3) == seed + 3


def doubled(patch: Patch) -> None:
    """The second number counts as the first."""
    patch.setattr(Sum, "of", lambda self, one, other: 2 * one)


def test_a_bug_is_found_by_the_first_seed_that_shows_it_and_is_gone_afterwards() -> None:
    bugs = Bugs()
    bugs.found_by(check_sum, 3, first=3)(doubled)
    seed, said = bugs["doubled"].find()
    assert (seed, bugs["doubled"].about) == (4, "The second number counts as the first")
    assert said.startswith("AssertionError")
    check_sum(4)


def test_a_bug_that_no_seed_shows_fails_its_test() -> None:
    bugs = Bugs()
    bugs.found_by(check_sum, 1, first=3)(doubled)
    with pytest.raises(AssertionError, match="not found within 1 seeds: The second number counts as the first"):
        bugs["doubled"].find()
    check_sum(4)
