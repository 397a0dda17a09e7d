"""Runs of the model under seeds, and known bugs that it finds."""

from __future__ import annotations

import pytest

from tests.controller.groups.bugs import BUGS, with_acks
from tests.controller.groups.model import run
from tests.store.faults.soak import SOAK


@pytest.mark.parametrize("block", range(40 if SOAK else 1))
def test_no_acknowledged_record_is_lost_by_the_controller(block: int) -> None:
    runs = [run(seed) for seed in range(block * 500, block * 500 + 500)]
    assert sum(each.elections for each in runs) > 500
    assert sum(len(each.acknowledged) for each in runs) > 5_000


def test_only_an_operator_gives_records_up_and_only_when_no_member_is_there() -> None:
    runs = [run(seed, recovers=True) for seed in range(200)]
    assert sum(each.recoveries for each in runs) > 50


def test_no_acknowledged_record_is_lost_though_not_all_members_confirm() -> None:
    runs = [with_acks(seed) for seed in range(150)]
    assert sum(each.partial for each in runs) > 50, "elections in two steps"
    assert sum(len(each.acknowledged) for each in runs) > 5_000


@pytest.mark.parametrize("name", BUGS)
def test_a_known_bug_is_found(name: str) -> None:
    BUGS[name].find()
