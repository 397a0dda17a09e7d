"""Seeds: a group under faults does nothing wrong, and works again when they end."""

from __future__ import annotations

import pytest

from tests.controller.raft.run import run
from tests.controller.raft.world import Fate
from tests.store.faults.soak import SOAK

SEEDS = 2000 if SOAK else 20
PART = 20
"""Seeds of one test."""


@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_a_group_survives_its_faults(first: int) -> None:
    courses = [run(seed) for seed in range(first, first + PART)]
    # The seeds have to have seen something: elections, changes, and clients that were served.
    assert sum(course.terms for course in courses) > 3 * PART
    assert min(course.writes for course in courses) > 10
    assert min(course.reads for course in courses) > 5


@pytest.mark.parametrize("fate", [each for each in Fate if each is not Fate.ANY])
@pytest.mark.parametrize("first", range(0, SEEDS // 4, PART // 4))
def test_a_group_survives_the_fate_of_its_leaders(first: int, fate: Fate) -> None:
    courses = [run(seed, fate=fate) for seed in range(first, first + PART // 4)]
    assert sum(course.terms for course in courses) > 3 * len(courses)


def test_a_seed_is_the_same_again() -> None:
    lines: list[list[str]] = [[], []]
    for each in lines:
        run(3, each.append)
    assert lines[0] == lines[1]
    assert len(lines[0]) > 1000
