"""The proxy passes bytes on, holds them while its ends are parted, delays them, breaks connections, and goes on after that."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from tests.interop.node import free_ports
from tests.interop.replication.chaos.proxy import FROM, TO, LoopbackProxy


@pytest.fixture
def ends() -> Iterator[tuple[LoopbackProxy, socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = LoopbackProxy(free_ports()["replication"], server.getsockname()[1])
        try:
            client, other = connected(proxy, server)
            with client, other:
                yield proxy, client, other
        finally:
            proxy.close()
            assert proxy.fault is None


def connected(proxy: LoopbackProxy, server: socket.socket) -> tuple[socket.socket, socket.socket]:
    server.settimeout(10)
    client = socket.create_connection(("127.0.0.1", proxy.port), 10)
    other, _ = server.accept()
    for each in (client, other):
        each.settimeout(10)
    return client, other


def receive(end: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = end.recv(size - len(found))
        assert part
        found += part
    return found


def silent(end: socket.socket) -> bool:
    end.settimeout(0.3)
    try:
        end.recv(1)
    except TimeoutError:
        return True
    finally:
        end.settimeout(10)
    return False


Ends = tuple[LoopbackProxy, socket.socket, socket.socket]


def test_bytes_pass_both_ways(ends: Ends) -> None:
    _, client, other = ends
    data = bytes(range(256)) * 8_000
    client.settimeout(30)
    other.setblocking(True)
    for source, target in ((client, other), (other, client)):
        sent = 0
        got = b""
        while len(got) < len(data):
            if sent < len(data):
                sent += source.send(data[sent : sent + 65_536])
            got += target.recv(65_536)
        assert got == data


@pytest.mark.parametrize("way", [TO, FROM])
def test_one_way_is_held_and_comes_later(ends: Ends, way: int) -> None:
    proxy, client, other = ends
    proxy.blocked = {way}
    client.sendall(b"there")
    other.sendall(b"back!")
    held, passed = (other, client) if way == TO else (client, other)
    assert receive(passed, 5) in (b"there", b"back!")
    assert silent(held)
    proxy.heal()
    assert receive(held, 5) in (b"there", b"back!")


def test_bytes_are_delayed(ends: Ends) -> None:
    proxy, client, other = ends
    proxy.delay_s = 0.4
    begun = time.monotonic()
    client.sendall(b"late")
    assert receive(other, 4) == b"late"
    assert time.monotonic() - begun >= 0.4


def test_connections_break_and_new_ones_are_made(ends: Ends) -> None:
    proxy, client, other = ends
    client.sendall(b"x")
    assert receive(other, 1) == b"x"
    for _ in range(3):
        proxy.reset()
        for each in (client, other):
            try:
                assert each.recv(1) == b""
            except ConnectionError:
                continue
    assert proxy.fault is None
    proxy.heal()
    client.close()


def test_what_was_sent_before_the_end_arrives(ends: Ends) -> None:
    _, client, other = ends
    client.sendall(b"goodbye")
    client.shutdown(socket.SHUT_WR)
    assert receive(other, 7) == b"goodbye"
    assert other.recv(1) == b""
