"""Thousands of clients of one node, or of a gateway that is killed, join, are answered and go, on the loop of a real process.

`make soak` takes 50,000 and 15,000, and prints the longest turns: what they are is in docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import crowd
from benchmarks.inside import table
from tests.store.faults.soak import SOAK


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("work", "count"), [(crowd.joined, 50_000 if SOAK else 500), (crowd.lost, 15_000 if SOAK else 500)])
def test_all_are_answered_and_all_that_go_are_ended(work: Callable[..., Any], count: int) -> None:
    """TimeoutError: somebody was not."""
    table(crowd.measured(work, count).rows)
