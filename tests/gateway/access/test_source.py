"""Ranges of source addresses: every way of writing one holds the addresses that it names and no other."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.access.source import SourceAddresses, address

ADDRESSES = st.integers(0, (1 << 32) - 1).map(IPv4Address)
NEAR = st.integers(-2, 2)


def neighbour(base: IPv4Address, step: int) -> IPv4Address:
    return IPv4Address((int(base) + step) % (1 << 32))


@given(ADDRESSES, NEAR)
def test_one_address_holds_itself_alone(base: IPv4Address, step: int) -> None:
    assert SourceAddresses(str(base)).holds(str(neighbour(base, step))) == (step == 0)


@given(ADDRESSES, ADDRESSES, NEAR, st.booleans())
def test_a_range_holds_both_ends_and_what_is_between(one: IPv4Address, other: IPv4Address, step: int, upper: bool) -> None:
    first, last = min(one, other), max(one, other)
    asked = neighbour(last if upper else first, step)
    assert SourceAddresses(f" {first}-{last} ").holds(str(asked)) == (first <= asked <= last)


@given(ADDRESSES, st.integers(0, 32), ADDRESSES)
def test_a_network_holds_what_python_s_network_holds(base: IPv4Address, bits: int, asked: IPv4Address) -> None:
    network = ip_network(f"{base}/{bits}", strict=False)
    found = SourceAddresses(f"{base}/{bits}")
    for each in (asked, base, network[0], network[-1]):
        assert found.holds(str(each)) == (each in network)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("10.0.*.*", ("10.0.0.0", "10.0.255.255"), ("10.1.0.0", "9.255.255.255")),
        ("*.*.*.*", ("0.0.0.0", "255.255.255.255"), ("::1",)),
        ("10.0.0.3-9", ("10.0.0.3", "10.0.0.9"), ("10.0.0.2", "10.0.0.10")),
        ("fe80::/10", ("fe80::1", "fe80::1%eth0"), ("ff80::1", "10.0.0.1")),
        ("::1-::9", ("::1", "::9"), ("::a", "0.0.0.1")),
        ("10.0.0.1", ("::ffff:10.0.0.1",), ("", "localhost", "10.0.0.1.", "10.0.0")),
    ],
)
def test_the_other_ways_of_writing_a_range(text: str, inside: tuple[str, ...], outside: tuple[str, ...]) -> None:
    found = SourceAddresses(text)
    assert [host for host in inside if not found.holds(host)] == []
    assert [host for host in outside if found.holds(host)] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.0.0",
        "10.0.0.256",
        "10.*.0.*",
        "10.*",
        "*.0.0.0",
        "10.0.0.9-3",
        "10.0.0.1-::1",
        "10.0.0.0/33",
        "10.0.0.1-",
        "host",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        SourceAddresses(text)


def test_a_mapped_address_is_the_ipv4_address() -> None:
    assert str(address("::ffff:10.0.0.1")) == "10.0.0.1"
    assert address("no address") is None
