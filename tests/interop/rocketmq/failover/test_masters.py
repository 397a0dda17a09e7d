"""Apache's masters are killed under load of six protocols: nothing acknowledged is lost, and how long senders wait.

Seven of Apache's servers take some time to start: `make soak` runs this, and prints the table of waits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from gateway.client.client import Client
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient
from tests.interop.rocketmq.controllers import GROUPS, ControllerCluster
from tests.interop.rocketmq.failover.masters import kill_and_restart
from tests.interop.rocketmq.failover.member import java_member, until_positioned
from tests.interop.rocketmq.failover.receivers import receivers
from tests.interop.rocketmq.failover.recovery import Kill, table
from tests.interop.rocketmq.failover.senders import Senders, groups_of
from tests.patience import until
from tests.store.faults.soak import SOAK
from tests.stored_records import stored_by_broker

KILLS: Final = int(os.environ.get("SOAK_KILLS", "10"))
PAUSE_S: Final = 0.15
"""Six senders with this pause are slower than the slowest receiver, so that the test ends soon after its last kill."""
SETTLED: Final = 20
"""Messages of each protocol between a kill and the restart of the killed broker, and before the next kill."""
WAIT_S: Final = 120.0
LIMIT_S: Final = 300 + 120 * KILLS
pytestmark = [pytest.mark.interop, pytest.mark.skipif(not SOAK, reason="seven of Apache's servers: make soak runs it")]


@pytest.mark.timeout(LIMIT_S)
def test_nothing_acknowledged_is_lost_when_masters_are_killed(
    apache: ControllerCluster, gateways: list[Node], near: Client, java: JavaClient, tmp_path: Path
) -> None:
    apache.make_topic("kept")
    for group in ("out-by-events", "out-by-http", "out-by-coap", "out-by-grpc"):
        apache.make_group(group, retryMaxTimes=10_000)
    senders, kills = Senders(gateways, "kept", PAUSE_S), list[Kill]()
    relays = ";".join(f"127.0.0.1:{each.port('nameserver')}" for each in gateways)
    with (
        java_member(java, apache.addresses, "members", "kept", tmp_path / "member") as member,
        java_member(java, relays, "members-by-gateways", "kept", tmp_path / "relayed") as relayed,
        receivers(gateways, "kept") as by_protocol,
    ):

        def go_on() -> None:
            begun_s = time.monotonic()
            until(lambda: senders.each_has_sent_since(begun_s, SETTLED), WAIT_S, senders.counts)

        until_positioned([member, relayed], near, "kept")
        senders.start()
        try:
            for number in range(KILLS):
                go_on()
                kills.append(kill_and_restart(apache, GROUPS[number % len(GROUPS)], go_on))
                print(f"kill {number + 1}: {kills[-1].group}, {senders.counts()}", flush=True)
        finally:
            senders.stop()
        groups = groups_of(stored_by_broker(near, "kept"))
        sent = senders.bodies()
        print(f"\n{len(kills)} kills of masters, {len(sent)} acknowledged messages")
        print(f"not acknowledged: {senders.refusals()}")
        print(table(senders.sent, groups, kills), flush=True)
        assert sent - groups.keys() == set()

        def missing() -> dict[str, set[str]]:
            got = {name: receiver.bodies.copy() for name, receiver in by_protocol.items()}
            got |= {"Java by gateways": relayed.done(), "Java at Apache's side": member.done()}
            return {name: sent - bodies for name, bodies in got.items() if not sent <= bodies}

        until_received(missing)


def until_received(missing: Callable[[], dict[str, set[str]]]) -> None:
    """Wait until every receiver has everything. Fails when none of them got anything new for WAIT_S."""
    left, since_s = missing(), time.monotonic()
    while left:
        time.sleep(0.5)
        before, left = left, missing()
        if left != before:
            since_s = time.monotonic()
        assert time.monotonic() - since_s < WAIT_S, {name: (len(bodies), sorted(bodies)[:20]) for name, bodies in left.items()}
