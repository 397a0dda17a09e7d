"""The shares of hosts in a bound of bytes that peers make the node hold."""

from __future__ import annotations

import pytest

from protocols.host_shares import HostShare, HostShares


def test_a_host_gets_half_of_what_is_free_and_there_is_room_for_another() -> None:
    shares = HostShares(1_000)
    first, second = HostShare(shares, "10.0.0.1"), HostShare(shares, "10.0.0.2")
    assert first.take(500)
    assert not first.take(1)
    assert second.take(250)


def test_the_addresses_of_one_ipv6_network_have_one_share() -> None:
    shares = HostShares(1_000)
    within = [HostShare(shares, f"2001:db8::{number}") for number in range(20)]
    assert [share.take(250) for share in within[:3]] == [True, True, False]
    assert HostShare(shares, "2001:db8:0:1::1").take(250)


def test_bytes_that_exist_are_counted_without_room_and_name_the_heaviest_host() -> None:
    shares = HostShares(1_000)
    light, heavy = HostShare(shares, "10.0.0.1"), HostShare(shares, "10.0.0.2")
    light.hold(300)
    assert not shares.over
    heavy.hold(900)
    assert (shares.bytes_held, shares.over, shares.heaviest()) == (1_200, True, "10.0.0.2")
    heavy.hold(100)
    assert (shares.bytes_held, shares.over, shares.heaviest()) == (400, False, "10.0.0.1")
    del light, heavy
    assert (shares.bytes_held, shares.heaviest()) == (0, "")


def test_one_host_leaves_room_for_another() -> None:
    shares = HostShares(100)
    assert shares.take("a", 50)
    assert not shares.take("a", 1)
    assert shares.take("b", 25)
    assert not shares.take("b", 1)
    assert shares.refused == 2
    shares.give("a", 50)
    assert shares.take("b", 12)


def test_a_share_that_is_freed_gives_its_bytes_back() -> None:
    shares = HostShares(100)
    share = HostShare(shares, "a")
    assert share.take(30)
    share.give(10)
    assert shares.bytes_held == 20
    del share
    assert shares.bytes_held == 0


@pytest.mark.parametrize("size", [0, 1])
def test_a_host_without_bytes_is_forgotten(size: int) -> None:
    shares = HostShares(100)
    shares.take("a", 5)
    shares.give("a", 5 - size)
    assert ("a" in shares._hosts) is bool(size)
