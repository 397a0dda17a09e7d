"""What clients of gateways send and get is in the sums of the store's node."""

from __future__ import annotations

from gateway.cluster.forwarding.traffic import LIVES_MAX, GatewaysTraffic, Traffic
from protocols.remoting.nodes.forwarding.stream import UNSIZED
from tests.far_node import NodeLink
from tests.gateway.cluster.forwarding.test_forwarder import Two
from tests.gateway.cluster.forwarding.test_forwarders import Several


def test_what_is_told_twice_counts_once() -> None:
    gateways = GatewaysTraffic()
    gateways.notified(b"a", Traffic(1, 2, 30, 40))
    gateways.notified(b"a", Traffic(1, 2, 30, 40))
    gateways.notified(b"b", Traffic(5, 5, 5, 5))
    gateways.notified(b"a", Traffic(2, 2, 35, 40))
    gateways.notified(b"a", Traffic(1, 2, 30, 40))
    assert gateways.total == Traffic(7, 7, 40, 45)
    for number in range(LIVES_MAX + 10):
        gateways.notified(b"%d" % number, Traffic(1))
    assert len(gateways._known) == LIVES_MAX


def test_gateways_report_and_what_a_dead_one_has_reported_stays() -> None:
    two = Two()
    other = NodeLink(two.parts.gate, two.clock, 2)
    two.link.counted = Traffic(1, 2, 3_000_000, 4_000_000)
    other.counted = Traffic(10, 20, 30_000_000, 40_000_000)
    two.clock.run_for(2_500)
    total = two.parts.forwarded.traffic
    assert total[:2] == (11, 22)
    assert 0 < 33_000_000 - total.bytes_in < 10_000, "frames between nodes are taken off"
    assert 0 < 44_000_000 - total.bytes_out < 10_000
    other.die()
    two.clock.run_for(20_000)
    two.link.counted = two.link.counted._replace(messages_in=5)
    two.clock.run_for(2_000)
    assert two.parts.forwarded.traffic[:2] == (15, 22)


def test_a_store_that_starts_again_counts_from_its_start() -> None:
    two = Two()
    two.link.counted = Traffic(100, 100, 100, 100)
    two.clock.run_for(2_500)
    assert two.parts.forwarded.traffic.messages_in == 100
    two.disk = two.disk.killed(two.clock)
    two.parts = two.store()
    two.link.store = two.parts.gate
    two.link.hang_up()
    two.clock.run_for(3_000)
    assert two.parts.forwarded.traffic.messages_in == 0
    two.link.counted = Traffic(107, 100, 100, 100)
    two.clock.run_for(3_000)
    assert two.parts.forwarded.traffic.messages_in == 7


def test_a_gateway_with_several_connections_reports_once() -> None:
    two = Several()
    two.counted = Traffic(7, 8, 1 << 30, 1 << 30)
    two.clock.run_for(3_000)
    assert two.parts.forwarded.traffic[:2] == (7, 8)


def test_a_gateway_of_the_version_before_reports_nothing() -> None:
    two = Two(store_knows=(UNSIZED,))
    two.link.counted = Traffic(7, 8, 9, 10)
    two.clock.run_for(3_000)
    assert two.parts.forwarded.traffic[:2] == (0, 0)
    assert two.link.broken == 0
