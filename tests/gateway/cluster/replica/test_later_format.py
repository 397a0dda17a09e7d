"""A leader of a later version writes what an older follower cannot read: that one says so and waits, and the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from store.log import batch
from tests.gateway.cluster.replica.test_disks import led, sends
from tests.store.later_format import later


def test_a_follower_that_cannot_read_a_later_format_waits_for_its_upgrade(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "headgate.replica")
    world, leader, others = led()
    old, other = others
    life, follower = old.life, old.follower
    assert sends(world) == 20
    append, end = follower.append, follower.written
    tried: list[int] = []

    def append_later(position: int, data: bytes) -> None:
        tried.append(world.clock.monotonic_ns())
        append(position, data if batch.is_filler(data) else later(data, position))

    follower.append = append_later  # type: ignore[method-assign]
    assert sends(world) == 20, "the others go on"
    world.clock.run_for(120_000)
    group = world.service.group()
    assert group is not None
    assert set(group.in_sync) == {leader.life.own, other.life.own}
    assert (old.life, follower.written, follower.broken) == (life, end, None), "its life goes on, and its log is as it was"
    assert 3 <= len(tried) <= 9, "it asks again once in half a minute or so"
    assert 1 <= sum("upgrade this replica" in each for each in caplog.messages) <= len(tried), (
        "a line for each time that it asks"
    )
    doing: Any = life.doing()
    assert doing.startswith("this replica tries to follow replica")
    assert "format version 3" in doing
    assert doing.endswith("upgrade this replica; until then the others go on without it")

    old.end()  # it is upgraded
    old.revive(False)
    world.clock.run_for(5_000)
    group = world.service.group()
    assert group is not None
    assert old.life.own in group.in_sync
    assert sends(world) == 20
    world.heal()
