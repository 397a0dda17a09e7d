"""Groups of a cluster that are known here, in pages."""

from __future__ import annotations

import pytest

from domain.topic.topic import Group
from gateway.runtime.compiled import in_use
from tests.gateway.apache.topics.test_await_metadata import World
from tests.instructions import instructions


def know(world: World, *names: str) -> None:
    for name in names:
        world.metadata.put_group(Group(name), lambda failure: None)
    world.clock.run_for(100)


def test_groups_are_known_by_name_and_one_that_no_broker_has_any_more_is_not() -> None:
    world = World()
    know(world, "b", "d", "a", "c", "b")
    assert [each.name for each in world.metadata.groups()] == ["a", "b", "c", "d"]
    assert [each.name for each in world.metadata.groups_after("a", 2)] == ["b", "c"]
    world.metadata.known_groups._grouped("c", None)
    assert [each.name for each in world.metadata.groups_after("", 9)] == ["a", "b", "d"]
    know(world, "c")
    assert [each.name for each in world.metadata.groups_after("b", 9)] == ["c", "d"]


@pytest.mark.skipif(bool(in_use()), reason="instructions of compiled modules are not seen")
def test_a_page_costs_the_same_however_many_are_known() -> None:
    world = World()
    costs: list[int] = []
    for count in (50, 500):
        know(world, *(f"g{number:04}" for number in range(count)))
        costs.append(instructions(lambda: world.metadata.groups_after("g0020", 8)))
    assert costs[1] < costs[0] * 1.2, costs
