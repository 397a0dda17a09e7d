"""Leases of messages of a cluster in controller mode, while gateways or Apache's masters are killed.

No lease is broken when gateways are killed and added. When a master is killed, its successor does not know the latest
positions of groups: leases that are broken then have to be of what the killed one had given. The same run straight at Apache's
proxies shows that no gateway has to do with it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Final

import pytest

from tests.interop.node import Node, Ports
from tests.interop.rocketmq.controllers import GROUPS, ControllerCluster
from tests.interop.rocketmq.failover.consumers import MessageKey, broker_group
from tests.interop.rocketmq.failover.forgotten import unexplained
from tests.interop.rocketmq.failover.leases import BrokenLease, broken, given_twice
from tests.interop.rocketmq.failover.masters import kill_and_restart
from tests.interop.rocketmq.failover.recovery import Kill
from tests.interop.rocketmq.failover.workload import Workload, at_gateways, at_proxies
from tests.interop.rocketmq.proxy import ApacheProxy
from tests.store.faults.soak import SOAK

KILLS: Final = int(os.environ.get("SOAK_KILLS", "10"))
APACHE_S: Final = 90.0
LIMIT_S: Final = 600 + 120 * KILLS
pytestmark = [
    pytest.mark.interop, pytest.mark.skipif(not SOAK, reason="seven of Apache's servers: make soak runs it"),
    pytest.mark.timeout(LIMIT_S),
]  # fmt: skip


def kill_masters(apache: ControllerCluster, work: Workload) -> list[Kill]:
    """Kill masters in turn, each when the one before is in sync again."""
    kills = []
    for number in range(KILLS):
        work.go_on()
        kills.append(kill_and_restart(apache, GROUPS[number % len(GROUPS)], work.go_on))
    work.go_on()
    return kills


def message_of(lease: BrokenLease) -> MessageKey:
    """Whose lease it is."""
    assert isinstance(lease.one.message, MessageKey)
    return lease.one.message


def check(work: Workload, kills: Sequence[Kill]) -> list[BrokenLease]:
    """Print what became of the leases. Fails when one was broken that no kill explains. Returns the broken ones."""
    handouts = work.handouts()
    found = broken(handouts)
    print(f"\n{len(kills)} kills of masters; {len(work.senders.bodies())} acknowledged messages\n{work.notified()}")
    for at, kill in enumerate(kills):
        until_s = min((each.killed_s for each in kills[at + 1 :] if each.group == kill.group), default=inf)
        mine = [
            each for each in found
            if kill.killed_s <= each.other.answered_s < until_s and broker_group(each.one.message) == kill.group
        ]  # fmt: skip
        late_s = max((each.other.answered_s - kill.killed_s for each in mine), default=0)
        messages, settled = Counter(map(message_of, mine)), {message_of(each) for each in mine if each.was_settled()}
        again = Counter(message.group for message in messages), Counter(message.group for message in settled)
        print(
            f"kill of {kill.group}: messages given again too early {dict(again[0])}, of which after their acknowledgement "
            f"{dict(again[1])}; the last one {late_s:.0f} s after the kill"
        )
    assert unexplained(found, handouts, broker_group, kills) == []
    assert given_twice(handouts) == []
    return found


def test_no_lease_is_broken_by_a_gateway_while_masters_are_killed(apache: ControllerCluster, gateways: list[Node]) -> None:
    apache.make_topic("leased-over-masters")
    for group in ("workers-by-grpc", "workers-by-http"):
        apache.make_group(group, retryMaxTimes=10_000)
    with at_gateways(list[Ports](gateways), "leased-over-masters") as work:
        kills = kill_masters(apache, work)
        work.finish()
    check(work, kills)


def test_the_same_leases_are_broken_straight_at_apaches_proxies(apache: ControllerCluster, tmp_path: Path) -> None:
    """Nothing of this gateway's takes part; when nothing is broken here, what is broken there was not Apache's doing.

    What Apache does not give again at all is printed, and no failure: this is no test of Apache's servers.
    """
    apache.make_topic("leased-at-proxies")
    apache.make_group("workers-by-grpc", retryMaxTimes=10_000)
    with (
        ApacheProxy(tmp_path / "first", apache.addresses) as first,
        ApacheProxy(tmp_path / "second", apache.addresses) as second,
        at_proxies([first, second], "leased-at-proxies") as work,
    ):
        kills = kill_masters(apache, work)
        missing = work.wind_up(APACHE_S)
    found = check(work, kills)
    print(f"not settled {APACHE_S:g} s after the last message: { {group: len(bodies) for group, bodies in missing.items()} }")
    assert found != [], "Apache's new masters know all positions: docs/rocketmq-cluster.md says otherwise"
