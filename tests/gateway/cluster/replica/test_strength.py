"""A replica that comes and goes: a pair of lines about the strength of its group, not one for each time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.cluster.replica.leading_state import LeadingState
from tests.gateway.cluster.replica.world import World


def test_a_replica_that_comes_and_goes_has_no_line_each_time(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    world.clock.run_for(70_000)
    group = world.service.group()
    assert group is not None
    leader = next(each for each in world.replicas.values() if each.life.own == group.leader)
    state = leader.life._state
    assert isinstance(state, LeadingState)
    assert len(group.members) == 3
    caplog.set_level("INFO")
    caplog.clear()
    first, second, third = sorted(group.members, key=lambda member: member.id != group.leader)
    for _ in range(50):
        for members in ((first, second), (first, second, third)):
            state.heard(replace(group, members=members))
    state.heard(replace(group, members=(first, third)))
    state.heard(replace(group, members=(first, second)))
    lines = [line for line in caplog.messages if "full strength" in line]
    assert [line.split(":")[0].split(" is ")[1] for line in lines] == [
        "below its full strength", "at its full strength", "below its full strength", "below its full strength"
    ], "another replica is named once"  # fmt: skip
    assert f"not in sync are replicas {third.id};" in lines[2]
    assert f"not in sync are replicas {second.id};" in lines[3]
