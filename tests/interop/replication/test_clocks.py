"""A replica whose wall clock is off by more than `clock_skew_max_ms` does not lead while another one can, as processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from domain.controller.health import Fitness
from tests.interop.controller.controllers import until
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.replication.preloaded import preloaded
from tests.interop.replication.test_slow_replica import group_of

pytestmark = pytest.mark.interop

AHEAD_MS = 2_500
PROGRAM = "import time; print(time.time_ns(), time.monotonic_ns())"


def environment(folder: Path) -> dict[str, str]:
    """Of a process whose clock is ahead."""
    library = preloaded(folder, Path(__file__).with_name("other_clock.c"))
    return {"LD_PRELOAD": str(library), "CLOCK_AHEAD_MS": str(AHEAD_MS)}


def test_leadership_leaves_a_replica_whose_clock_is_off_and_does_not_come_back(tmp_path: Path) -> None:
    group = StoreGroupNodes(tmp_path, 3, controllers=1)
    off, *others = group.nodes
    off.environment.update(environment(tmp_path))
    with group:
        group.await_members(1, 2, 3)

        (own,) = [each.id for each in group_of(group)[0].replicas if each.address.endswith(f":{off.port('replication')}")]

        def standing() -> Fitness:
            return next(each.standing.fitness for each in group_of(group)[1] if each.report.id == own)

        until(lambda: standing() is Fitness.CLOCK_OFF, "the controller says that the clock is off")
        until(lambda: group.leader() in others, "somebody else leads")
        leader = group.leader()
        assert group.send("orders", "acknowledged") < 60
        text = "".join(node.text() for node in group.controllers.nodes)
        assert "clock_ms" in text
        group.kill(leader)
        (last,) = [each for each in others if each is not leader]
        until(last.serves, "the one whose clock is right leads")
        assert not off.serves()
        assert "clock_ms 2," in text, text[-2_000:]
        assert group.bodies("orders") == ["acknowledged"]


def test_the_library_changes_the_wall_clock_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM]

    def clocks(more: dict[str, str]) -> tuple[int, int]:
        wall, monotonic = subprocess.run(command, env=more, capture_output=True, check=True, text=True).stdout.split()
        return int(wall) // 1_000_000, int(monotonic) // 1_000_000

    before, far, behind = clocks({}), clocks(environment(tmp_path)), clocks({})
    assert before[0] + AHEAD_MS <= far[0] <= behind[0] + AHEAD_MS
    assert before[1] <= far[1] <= behind[1]
