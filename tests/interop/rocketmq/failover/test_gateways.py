"""Gateways before a cluster in controller mode are killed and added under load: no lease is broken early, nothing is lost."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Final

import pytest

from tests.interop.node import Node, Ports
from tests.interop.rocketmq.controllers import ControllerCluster
from tests.interop.rocketmq.failover.leases import broken, given_twice
from tests.interop.rocketmq.failover.workload import at_gateways
from tests.interop.rocketmq.gateway import gateway_before
from tests.store.faults.soak import SOAK

KILLS: Final = int(os.environ.get("SOAK_KILLS", "10"))
LIMIT_S: Final = 600 + 120 * KILLS
pytestmark = [
    pytest.mark.interop, pytest.mark.skipif(not SOAK, reason="seven of Apache's servers: make soak runs it"),
    pytest.mark.timeout(LIMIT_S),
]  # fmt: skip


def test_no_lease_is_broken_while_gateways_are_killed_and_one_is_added(
    apache: ControllerCluster, gateways: list[Node], tmp_path: Path
) -> None:
    apache.make_topic("leased")
    for group in ("workers-by-grpc", "workers-by-http"):
        apache.make_group(group, retryMaxTimes=10_000)
    chance, places = random.Random(3), list[Ports](gateways)
    with at_gateways(places, "leased") as work:
        for kill in range(KILLS):
            work.go_on()
            victim = chance.choice(gateways)
            victim.kill()
            if kill == 1:
                # While the other one is away: clients of both go to it, and it acknowledges what they delivered.
                gateways.append(gateway_before(apache.addresses, tmp_path / "added").start())
                work.add(gateways[-1])
            victim.start()
        work.go_on()
        work.finish()
        print(f"\n{KILLS} kills of gateways, one added; {len(work.senders.bodies())} acknowledged messages\n{work.notified()}")
        assert broken(work.handouts()) == []
        assert given_twice(work.handouts()) == []
        assert sum(each.settled_at[len(places) - 1] for each in work.consumers) > 0, "the added gateway acknowledges for others"
