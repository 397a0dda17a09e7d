"""Three controllers under seeds, and bugs of a driver that they find."""

from __future__ import annotations

import pytest

from tests.controller.member.bugs import BUGS
from tests.controller.member.storm import storm
from tests.store.faults.soak import SOAK


@pytest.mark.parametrize("block", range(40 if SOAK else 1))
def test_what_was_answered_is_never_lost_and_an_epoch_has_one_leader(block: int) -> None:
    runs = [storm(seed) for seed in range(block * 8, block * 8 + 8)]
    assert sum(len(each.promised) for each in runs) > 100
    assert sum(each.reads for each in runs) > 50
    assert sum(each.failovers for each in runs) > 8
    assert sum(each.restarts for each in runs) > 4


@pytest.mark.parametrize("name", BUGS)
def test_a_known_bug_of_a_driver_is_found(name: str) -> None:
    BUGS[name].find()
