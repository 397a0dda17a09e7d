"""The inbox of a datagram socket: who sends much waits, who sends little does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.runtime.datagrams.inbox import DATAGRAMS_MAX, NEWCOMERS_MAX, OF_ADDRESS_MAX, Inbox


def test_hosts_take_turns_and_so_do_their_ports() -> None:
    inbox = Inbox()
    for number in range(100):
        for port in range(1, 4):
            inbox.add(b"flood %d" % number, ("10.0.0.1", port))
    for number in range(3):
        inbox.add(b"%d" % number, ("10.0.0.2", 1))
    order = [inbox.take() for _ in range(8)]
    assert [data for data, address in order if address[0] == "10.0.0.2"] == [b"0", b"1", b"2"]
    assert [address[1] for _, address in order if address[0] == "10.0.0.1"] == [1, 2, 3, 1, 2]
    rest = [inbox.take() for _ in range(inbox.count)]
    assert [data for data, address in rest if address[1] == 3] == [b"flood %d" % number for number in range(1, 100)]
    assert (inbox.count, inbox.bytes) == (0, 0)


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 4)), max_size=40), st.lists(st.integers(0, 9), max_size=8))
def test_many_are_taken_in_the_order_in_which_single_ones_are(senders: list[tuple[int, int]], numbers: list[int]) -> None:
    one, many = Inbox(), Inbox()
    for number, (host, port) in enumerate(senders):
        for inbox in (one, many):
            inbox.add(b"%d" % number, (f"10.0.0.{host}", port))
    for most in [*numbers, len(senders)]:
        assert many.take_some(most) == [one.take() for _ in range(min(most, one.count))]
        assert (many.count, many.bytes) == (one.count, one.bytes)
    assert not many.count


def test_what_waits_is_bounded_for_each_address_and_in_all() -> None:
    inbox = Inbox()
    taken = sum(inbox.add(b"x", ("10.0.0.1", 1)) for _ in range(1_000))
    assert taken == OF_ADDRESS_MAX
    for port in range(1_000):
        for _ in range(20):
            inbox.add(b"x", ("10.0.0.1", port))
    assert inbox.count == DATAGRAMS_MAX
    newcomers = [inbox.add(b"x", (f"10.1.{number >> 8}.{number & 255}", 1)) for number in range(10_000)]
    assert sum(newcomers) == NEWCOMERS_MAX
    assert not inbox.add(b"x", ("10.1.0.1", 1)), "it has a datagram that waits"


def test_bytes_are_bounded() -> None:
    inbox = Inbox()
    large = b"x" * 65_000
    for port in range(10_000):
        inbox.add(large, ("10.0.0.1", port))
    assert inbox.bytes <= 17 * 1024 * 1024
    assert inbox.add(large, ("10.0.0.2", 1))


def test_the_addresses_of_one_ipv6_network_are_one_host() -> None:
    inbox = Inbox()
    for number in range(100):
        inbox.add(b"flood", (f"2001:db8::{number}", 1))
    for number in range(3):
        inbox.add(b"%d" % number, ("2001:db8:0:1::1", 1))
    assert [inbox.take()[0] for _ in range(6)] == [b"flood", b"0", b"flood", b"1", b"flood", b"2"]
