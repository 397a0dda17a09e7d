"""Gateways are killed one after the other under load: nothing acknowledged is lost, and no lease is broken.

There are 50 kills when SOAK is in the environment (`make soak`).
"""

from __future__ import annotations

import random
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from tests.interop.cluster.cluster import Cluster
from tests.interop.cluster.load import INVISIBLE_MS, Load
from tests.patience import until
from tests.store.faults.soak import SOAK

pytestmark = pytest.mark.interop
KILLS: Final = 50 if SOAK else 2
BETWEEN: Final = 60
"""Acknowledged messages between two kills."""
WAIT_S: Final = 120.0


def test_gateways_are_killed_under_load(tmp_path: Path) -> None:
    chance = random.Random(12)
    with Cluster(tmp_path, 3, "--durability", "page") as cluster:
        load = Load(cluster.gateways)
        load.start()
        for _ in range(KILLS):
            goal = len(load.settled) + BETWEEN
            until(partial(load.progressed, goal), WAIT_S)
            victim = chance.choice(cluster.gateways)
            victim.kill()
            victim.start()
        load.producing = False
        until(lambda: load.sent <= load.settled or bool(load.faults), WAIT_S, lambda: f"{load.missing()}")
        load.consuming = False
        load.join()
    assert load.faults == []
    assert load.missing() == set()
    for place, deliveries in load.deliveries.items():
        deliveries.sort()
        for before, after in pairwise(deliveries):
            assert after.popped_ms - before.popped_ms >= INVISIBLE_MS, f"the lease of {place} was broken: {deliveries}"
            assert not before.settled, f"{place} came again after its acknowledgement: {deliveries}"
