"""A killed master explains broken leases of what it has given, and no others."""

from __future__ import annotations

import pytest

from tests.interop.rocketmq.failover.forgotten import CLEARED_S, unexplained
from tests.interop.rocketmq.failover.leases import Handout, broken
from tests.interop.rocketmq.failover.recovery import Kill

KILL = Kill("broker-a", 100.0, 101.0, 120.0)


@pytest.mark.parametrize(
    ("given_s", "again_s", "group", "is_explained"),
    [
        (95.0, 102.0, "broker-a", True),
        (101.0 + CLEARED_S - 1, 108.0, "broker-a", True),
        (101.0 + CLEARED_S + 0.1, 108.0, "broker-a", False),
        (92.0, 99.0, "broker-a", False),
        (95.0, 102.0, "broker-b", False),
    ],
)
def test_a_broken_lease(given_s: float, again_s: float, group: str, is_explained: bool) -> None:
    handouts = [Handout("m", at, at + 0.01, 10.0) for at in (given_s, again_s)]
    leases = broken(handouts)
    assert len(leases) == 1
    assert (unexplained(leases, handouts, lambda _: group, [KILL]) == []) is is_explained
