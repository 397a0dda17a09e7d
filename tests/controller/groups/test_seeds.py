"""Runs of the model under seeds, and known bugs that it finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.controller.groups.bugs import BUGS, first_seed
from tests.controller.groups.model import run
from tests.store.faults.soak import SOAK

PAGE = Path(__file__).parents[3] / "controller" / "groups" / "README.md"
ROW = re.compile(r"^\| `([\w-]+)` \|[^|]+\| (\d+) \|$", re.MULTILINE)


@pytest.mark.parametrize("block", range(40 if SOAK else 1))
def test_no_acknowledged_record_is_lost_by_the_controller(block: int) -> None:
    runs = [run(seed) for seed in range(block * 500, block * 500 + 500)]
    assert sum(each.elections for each in runs) > 500
    assert sum(len(each.acknowledged) for each in runs) > 5_000


def test_only_an_operator_gives_records_up_and_only_when_no_member_is_there() -> None:
    runs = [run(seed, recovers=True) for seed in range(200)]
    assert sum(each.recoveries for each in runs) > 50


@pytest.mark.parametrize("name", BUGS)
def test_a_known_bug_is_found(name: str) -> None:
    seed, said = first_seed(name, BUGS[name].seeds)
    assert seed >= 0, f"not found within {BUGS[name].seeds} seeds"
    assert said


def test_the_page_names_the_bugs() -> None:
    assert ROW.findall(PAGE.read_text("utf-8")) == [(name, str(bug.seeds)) for name, bug in BUGS.items()]
