"""A datagram port with several sockets: a host that floods loses its own datagrams."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from domain.address import network_of_host
from domain.errors import ConfigError
from gateway.runtime.address import bind
from gateway.runtime.datagrams.group import SOCKETS, let_in, share_by_host, shut_out

FLOOD = 40_000
"""More datagrams than one receive buffer takes."""
FLOODER, NEIGHBOUR = "127.0.0.66", "127.0.0.1"


@pytest.fixture
def group() -> Iterator[list[socket.socket]]:
    found = share_by_host(bind("coap", "127.0.0.1", 0, datagrams=True))
    yield found
    for each in found:
        each.close()


def send(host: str, address: tuple[str, int], count: int, data: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind((host, 0))
        for _ in range(count):
            peer.sendto(data, address)


def arrived(each: socket.socket) -> list[tuple[bytes, str]]:
    found: list[tuple[bytes, str]] = []
    while True:
        try:
            data, address = each.recvfrom(100)
        except BlockingIOError:
            return found
        found.append((data, address[0]))


def test_the_datagrams_of_a_host_come_to_one_socket(group: list[socket.socket]) -> None:
    assert len(group) == SOCKETS
    for last in range(1, 65):
        for _ in range(3):  # each from a port of its own
            send(f"127.0.0.{last}", group[0].getsockname(), 1, b"x")
    hosts = [{host for _, host in arrived(each)} for each in group]
    assert sum(map(len, hosts)) == len(set().union(*hosts)) == 64
    assert max(map(len, hosts)) < 16


def test_a_flood_leaves_room_for_the_datagrams_of_other_hosts(group: list[socket.socket]) -> None:
    send(FLOODER, group[0].getsockname(), FLOOD, b"flood")
    send(NEIGHBOUR, group[0].getsockname(), 1, b"small")
    found = [each for bound in group for each in arrived(bound)]
    assert len(found) < FLOOD
    assert (b"small", NEIGHBOUR) in found


def test_the_port_is_taken_for_other_processes(group: list[socket.socket]) -> None:
    with pytest.raises(ConfigError, match="is taken"):
        bind("coap", "127.0.0.1", group[0].getsockname()[1], datagrams=True)


def test_where_the_kernel_cannot_divide_one_socket_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.runtime.datagrams.group.SO_ATTACH_REUSEPORT_CBPF", 9_999)
    bound = bind("coap", "127.0.0.1", 0, datagrams=True)
    assert share_by_host(bound) == [bound]
    send(NEIGHBOUR, bound.getsockname(), 50, b"x")
    assert len(arrived(bound)) == 50
    bound.close()


@pytest.mark.parametrize(
    ("bound_to", "shut", "other", "network"),
    [
        ("127.0.0.1", FLOODER, NEIGHBOUR, FLOODER),
        ("::", FLOODER, NEIGHBOUR, FLOODER),
        ("::", "::1", NEIGHBOUR, "::/64"),
        ("::", "::1", None, "2001:db8::/64"),
        ("127.0.0.1", NEIGHBOUR, FLOODER, NEIGHBOUR),
    ],
)
def test_the_kernel_drops_what_one_host_sends(bound_to: str, shut: str, other: str | None, network: str) -> None:
    family = socket.AF_INET6 if ":" in bound_to else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as bound:
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((bound_to, 0))
        bound.setblocking(False)
        port = bound.getsockname()[1]

        def say(host: str, data: bytes) -> None:
            kind = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.socket(kind, socket.SOCK_DGRAM) as peer:
                peer.bind((host, 0))
                peer.sendto(data, ("::1" if ":" in host else "127.0.0.1", port))

        say(shut, b"before")
        assert shut_out(bound, network)
        say(shut, b"shut out")
        say(other or shut, b"other")
        let_in(bound)
        say(shut, b"after")
        dropped = set() if other is None else {b"shut out"}
        assert [data for data, _ in arrived(bound)] == [
            data for data in (b"before", b"shut out", b"other", b"after") if data not in dropped
        ]


def test_what_is_no_network_is_not_shut_out(group: list[socket.socket]) -> None:
    assert not shut_out(group[0], "somewhere")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_kernel_drops_what_one_port_of_a_host_sends(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.socket(family, socket.SOCK_DGRAM) as bound,
        socket.socket(family, socket.SOCK_DGRAM) as loud,
        socket.socket(family, socket.SOCK_DGRAM) as quiet,
    ):
        for each in (bound, loud, quiet):
            each.bind((host, 0))
        bound.setblocking(False)
        assert shut_out(bound, network_of_host(host), loud.getsockname()[1])
        loud.sendto(b"flood", bound.getsockname())
        quiet.sendto(b"small", bound.getsockname())
        let_in(bound)
        loud.sendto(b"later", bound.getsockname())
        assert [data for data, _ in arrived(bound)] == [b"small", b"later"]
