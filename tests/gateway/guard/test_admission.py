"""Admission of connections and flapping detection."""

from __future__ import annotations

from domain.limits import SECOND_NS
from domain.refusal import Ending
from gateway.guard.admission import Admission
from gateway.guard.flapping import FlappingDetector
from gateway.guard.settings import LimitsSettings

MINUTE = 60 * SECOND_NS


def test_address_has_so_many_connections_and_gets_one_back_when_one_ends() -> None:
    admission = Admission(LimitsSettings(connections_per_address=2), 100_000)
    assert admission.enter("10.0.0.1", 0) is None
    assert admission.enter("10.0.0.1", 0) is None
    assert admission.enter("10.0.0.1", 0) is Ending.ADDRESS_CONNECTIONS
    assert admission.enter("10.0.0.2", 0) is None
    admission.leave("10.0.0.1")
    assert admission.enter("10.0.0.1", 0) is None
    for host in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        admission.leave(host)
    assert [admission.enter("10.0.0.1", 0) for _ in range(3)] == [None, None, Ending.ADDRESS_CONNECTIONS]


def test_rate_of_one_address_leaves_the_others_alone() -> None:
    admission = Admission(LimitsSettings(address_connects_per_s=1, burst_s=2), 100_000)
    assert [admission.enter("10.0.0.1", 0) for _ in range(3)] == [None, None, Ending.CONNECT_RATE]
    assert admission.enter("10.0.0.2", 0) is None
    assert admission.enter("10.0.0.1", SECOND_NS) is None


def test_rate_of_all_counts_for_all() -> None:
    admission = Admission(LimitsSettings(connects_per_s=1, burst_s=1), 100_000)
    assert admission.enter("10.0.0.1", 0) is None
    assert admission.enter("10.0.0.2", 0) is Ending.CONNECT_RATE
    assert admission.enter("10.0.0.2", SECOND_NS) is None


def test_refused_connection_costs_the_address_nothing() -> None:
    admission = Admission(LimitsSettings(connections_per_address=1, address_connects_per_s=1, burst_s=2), 100_000)
    assert admission.enter("10.0.0.1", 0) is None
    for _ in range(100):
        assert admission.enter("10.0.0.1", 0) is Ending.ADDRESS_CONNECTIONS
    admission.leave("10.0.0.1")
    assert admission.enter("10.0.0.1", 0) is None


def test_flapping_address_is_held_off_and_let_in_again() -> None:
    admission = Admission(LimitsSettings(flapping_address_connects=3, flapping_window_s=60, flapping_hold_s=300), 100_000)
    for at in range(3):
        assert admission.enter("10.0.0.1", at) is None
        admission.leave("10.0.0.1")
    assert admission.enter("10.0.0.1", 3) is Ending.FLAPPING
    assert admission.enter("10.0.0.1", 299 * SECOND_NS) is Ending.FLAPPING
    assert admission.enter("10.0.0.1", 301 * SECOND_NS) is None


def test_window_begins_anew_for_who_comes_seldom() -> None:
    flapping: FlappingDetector[str] = FlappingDetector(2, MINUTE, 5 * MINUTE, 10)
    for at in range(20):
        assert flapping.connect("a", at * 40 * SECOND_NS) == 0


def test_attempts_while_held_off_do_not_lengthen_it() -> None:
    flapping: FlappingDetector[str] = FlappingDetector(1, MINUTE, MINUTE, 10)
    assert flapping.connect("a", 0) == 0
    assert flapping.connect("a", 1) == MINUTE
    assert flapping.connect("a", 31 * SECOND_NS) == 29 * SECOND_NS + 1
    assert flapping.held(31 * SECOND_NS) == 1
    assert flapping.connect("a", 1 + MINUTE) == 0


def test_table_of_flapping_clients_is_bounded() -> None:
    flapping: FlappingDetector[int] = FlappingDetector(1, MINUTE, MINUTE, 100)
    for key in range(10_000):
        flapping.connect(key, key)
    assert len(flapping) == 100


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    admission = Admission(LimitsSettings(connections_per_address=2), 100_000)
    assert [admission.enter(f"2001:db8::{number}", 0) for number in (1, 2, 3)] == [None, None, Ending.ADDRESS_CONNECTIONS]
    assert admission.enter("2001:db8:0:1::1", 0) is None
    admission.leave("2001:db8::2")
    assert admission.enter("2001:db8::4", 0) is None


def test_clients_that_ipv4_connects_to_a_socket_of_ipv6_count_each_for_itself() -> None:
    admission = Admission(LimitsSettings(connections_per_address=1), 100_000)
    assert [admission.enter(f"::ffff:10.0.0.{number}", 0) for number in (1, 2)] == [None, None]
    assert admission.enter("::ffff:10.0.0.2", 0) is Ending.ADDRESS_CONNECTIONS


def test_one_address_has_half_of_the_connections_of_the_node_unless_another_number_is_set() -> None:
    for setting, most in ((0, 5), (3, 3), (8, 8), (100, 100)):
        admission = Admission(LimitsSettings(connections_per_address=setting), 10)
        found = [admission.enter("10.0.0.1", 0) for _ in range(101)]
        assert found == [None] * most + [Ending.ADDRESS_CONNECTIONS] * (101 - most)
        assert admission.enter("10.0.0.2", 0) is None


def test_half_follows_the_number_of_connections_that_a_reload_brings() -> None:
    admission = Admission(LimitsSettings(), 4)
    assert [admission.enter("10.0.0.1", 0) for _ in range(3)] == [None, None, Ending.ADDRESS_CONNECTIONS]
    admission.apply(LimitsSettings(), 6)
    assert [admission.enter("10.0.0.1", 0) for _ in range(2)] == [None, Ending.ADDRESS_CONNECTIONS]


def test_a_node_that_takes_one_connection_takes_it() -> None:
    assert Admission(LimitsSettings(), 1).enter("10.0.0.1", 0) is None
