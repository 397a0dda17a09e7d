"""The checker finds known bugs of raft: each is put back, and found within its seeds."""

from __future__ import annotations

import pytest

from tests.controller.raft.bugs import BUGS
from tests.store.faults.soak import SOAK

QUICK = 20
"""Bugs that are found within so many seeds are tried each time."""


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if SOAK or len(bug.seeds) <= QUICK])
def test_a_bug_that_is_put_back_is_found(name: str) -> None:
    BUGS[name].find()
