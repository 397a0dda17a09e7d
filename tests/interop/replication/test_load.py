"""Leaders are killed one after the other under senders of all protocols, at a gateway and straight at the replicas.

Nothing acknowledged is lost, no lease is broken, nothing is given again that was acknowledged; a table shows how long senders
waited. There are two kills, and one under leases; with SOAK in the environment (`make soak`) 100, or SOAK_KILLS, and ten.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.interop.node import Ports
from tests.interop.replication.group import StoreGroupNodes, read_all
from tests.interop.replication.kill_times import first_again_s, percentile, table
from tests.interop.replication.paho_sender import PahoSender
from tests.interop.rocketmq.failover.leases import broken
from tests.interop.rocketmq.failover.recovery import Acknowledged
from tests.interop.rocketmq.failover.senders import Senders
from tests.interop.rocketmq.failover.workload import at_gateways
from tests.patience import until
from tests.store.faults.soak import SOAK

KILLS: Final = int(os.environ.get("SOAK_KILLS", "100")) if SOAK else 2
LEASE_KILLS: Final = min(KILLS, 10) if SOAK else 1
PAUSE_S: Final = 0.05
SETTLED: Final = 3
"""Messages of each sender between a kill and the restart of the killed replica."""
DIRECT: Final = ("MQTT QoS 1", "HTTP", "CoAP", "gRPC", "remoting")
"""Senders that have the addresses of all replicas, and try another one when one does not answer."""
WAIT_S: Final = 120.0
pytestmark = [pytest.mark.interop, pytest.mark.timeout(300 + 60 * KILLS)]


def test_nothing_acknowledged_is_lost_when_leaders_are_killed(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2, controllers=3) as group:
        group.await_members(1, 2)
        gateway = group.gateway(tmp_path / "gateway")
        at_gateway = Senders([gateway], "by-gateway", PAUSE_S)
        direct = Senders(list[Ports](group.nodes), "direct", PAUSE_S, DIRECT)
        paho = PahoSender(gateway, "by-paho", PAUSE_S)
        kills: list[float] = []
        everybody = (at_gateway, paho, direct)

        def go_on(since_s: float) -> None:
            until(
                lambda: all(each.each_has_sent_since(since_s, SETTLED) for each in everybody), WAIT_S,
                lambda: f"{at_gateway.counts()} {at_gateway.refusals()}; {direct.counts()} {direct.refusals()}",
            )  # fmt: skip

        for each in everybody:
            each.start()
        try:
            go_on(0)
            for number in range(KILLS):
                old = group.leader()
                group.kill(old)
                kills.append(time.monotonic())
                go_on(kills[-1])
                waits = [f"{first_again_s(sent, kills[-1]):.2f}" for each in everybody for sent in each.sent.values()]
                print(f"kill {number + 1}: {' '.join(waits)} s", flush=True)
                group.start(old)
                group.await_members(1, 2)
        finally:
            for each in everybody:
                each.end()
        for each in everybody:
            each.stop()
        leader = group.leader()
        sent, lost = dict[str, Sequence[Acknowledged]](), dict[str, int]()
        for topic, where, by in (
            ("by-gateway", "at a gateway", at_gateway.sent),
            ("by-paho", "at a gateway", paho.sent),
            ("direct", "at the replicas", direct.sent),
        ):
            stored = set(read_all(leader, topic))
            for name, acknowledged in by.items():
                sent[f"{name}, {where}"] = acknowledged
                lost[f"{name}, {where}"] = sum(each.body not in stored for each in acknowledged)
        print(f"\n{KILLS} kills of leaders; not acknowledged at the gateway: {at_gateway.refusals()}")
        print(table(sent, kills, lost), flush=True)
        assert not any(lost.values()), lost
        limit_s = 3.0 if SOAK else 30.0
        for found in sent.values():
            assert percentile([first_again_s(found, kill) for kill in kills], 0.99) < limit_s


def test_no_lease_is_broken_when_leaders_are_killed(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2) as group:
        group.await_members(1, 2)
        gateways = [group.gateway(tmp_path / f"gateway-{number}") for number in range(2)]
        with at_gateways(list[Ports](gateways), "leased") as work:
            for _ in range(LEASE_KILLS):
                work.go_on()
                old = group.leader()
                group.kill(old)
                group.leader()
                group.start(old)
                group.await_members(1, 2)
            work.go_on()
            work.finish()
            print(f"\n{LEASE_KILLS} kills of leaders, {len(work.senders.bodies())} acknowledged messages\n{work.notified()}")
            assert broken(work.handouts()) == []
