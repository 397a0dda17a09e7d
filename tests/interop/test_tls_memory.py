"""TLS handshakes that are begun and not ended hold little memory of a real node: by one host, whatever their number."""

from __future__ import annotations

import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from benchmarks.process import memory_kib
from tests.interop.node import Node
from tests.interop.test_guard import figure
from tests.patience import until

pytestmark = pytest.mark.interop
SILENT, COMPLETE = 4_000, 1_500
GROWN_MAX_KIB = 64 * 1024
"""What one peer may make the process grow by (docs/neighbours.md)."""


def hello() -> bytes:
    """A ClientHello."""
    outgoing = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def opened(node: Node) -> int:
    """Connections that the node has taken at the port; 0 when it has no time to tell."""
    with suppress(OSError, HTTPException):
        return figure(node, 'headgate_connections_opened_total{protocol="mqtts"}')
    return 0


@contextmanager
def sent(node: Node, data: bytes, count: int) -> Iterator[None]:
    """`count` connections that have sent `data` each, at once."""
    before = opened(node)
    with ExitStack() as stack:
        for _ in range(count):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", node.port("mqtts")), 30))
            one.sendall(data)
        until(lambda: opened(node) >= before + count, 60)
        yield


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    try:
        with Node(tmp_path / "node", "--durability", "page") as made:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(socket.create_connection(("127.0.0.1", made.port("mqtts")), 30)):
                yield made
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 15_000, reason="a process may not open enough files")
def test_six_bytes_of_a_hello_hold_nothing_of_openssl(node: Node) -> None:
    before = memory_kib(node.pid, "RssAnon")
    with sent(node, hello()[:6], SILENT):
        grown = memory_kib(node.pid, "RssAnon") - before
    print(f"{SILENT} connections with 6 bytes: {grown:,} KiB")
    assert grown < GROWN_MAX_KIB


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 15_000, reason="a process may not open enough files")
def test_whole_hellos_of_one_host_are_bounded(node: Node) -> None:
    before = memory_kib(node.pid, "RssAnon")
    with sent(node, hello(), COMPLETE):
        grown = memory_kib(node.pid, "RssAnon") - before
    print(f"{COMPLETE} connections with a whole ClientHello: {grown:,} KiB")
    assert grown < GROWN_MAX_KIB
