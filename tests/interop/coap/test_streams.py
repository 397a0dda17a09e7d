"""CoAP over TCP, TLS and WebSockets (RFC 8323) with aiocoap and libcoap against a real node."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import aiocoap
import aiocoap.credentials
import pytest

from tests.interop import certificates
from tests.interop.coap.test_aiocoap import Client
from tests.interop.node import Node

pytestmark = pytest.mark.interop
LIBCOAP = shutil.which("coap-client-openssl") or ""
libcoap = pytest.mark.skipif(not LIBCOAP, reason="coap-client-openssl is not installed (Debian: libcoap3-bin)")
CARRIERS = {"coap+tcp": "coap-tcp", "coaps+tcp": "coaps-tcp", "coap+ws": "http"}
"""Scheme -> listener."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificates.write(tmp_path_factory.mktemp("pair"), 7)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, pair: tuple[Path, Path]) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("streams"), "--certificate", str(pair[0]), "--key", str(pair[1])) as running:
        yield running


@pytest.mark.parametrize("scheme", CARRIERS)
def test_aiocoap_speaks_every_carrier(node: Node, pair: tuple[Path, Path], scheme: str) -> None:
    body = os.urandom(100_000)
    path = f"/mq/field/{scheme.replace('+', '-')}"

    async def play() -> None:
        context = await aiocoap.Context.create_client_context(transports=["tcpclient", "tlsclient", "ws"])
        base = f"{scheme}://localhost:{node.port(CARRIERS[scheme])}"
        if scheme == "coaps+tcp":
            context.client_credentials[base + "/*"] = aiocoap.credentials.TLSCert(str(pair[0]))
        client = Client(context, base)
        try:
            assert (await client.request(aiocoap.PUT, path, b"21.5", content_format=0)).code == aiocoap.CREATED
            value = await client.request(aiocoap.GET, path)
            assert (value.code, value.payload, int(value.opt.content_format)) == (aiocoap.CONTENT, b"21.5", 0)
            assert (await client.request(aiocoap.POST, path, b"x")).code == aiocoap.CREATED
            assert (await client.request(aiocoap.PUT, path, body)).code == aiocoap.CHANGED
            assert (await client.request(aiocoap.GET, path)).payload == body

            asked = context.request(client.message(aiocoap.GET, path, observe=0))
            await asyncio.wait_for(asked.response, 10)
            heard: list[bytes] = []

            async def listen() -> None:
                assert asked.observation is not None
                async for each in asked.observation:
                    heard.append(each.payload)
                    if len(heard) == 20:
                        return

            listening = asyncio.create_task(listen())
            for number in range(20):
                await client.request(aiocoap.POST, path, b"%d" % number)
            await asyncio.wait_for(listening, 10)
            assert heard == [b"%d" % number for number in range(20)]
        finally:
            await context.shutdown()

    asyncio.run(asyncio.wait_for(play(), 60))


def coap(node: Node, scheme: str, method: str, path: str, *options: str) -> tuple[bytes, str]:
    url = f"{scheme}://127.0.0.1:{node.port(CARRIERS[scheme])}{path}"
    done = subprocess.run([LIBCOAP, "-B", "10", *options, "-m", method, url], capture_output=True, timeout=30, check=False)
    return done.stdout, done.stderr.decode()


@libcoap
@pytest.mark.parametrize("scheme", ["coap+tcp", "coaps+tcp"])
def test_libcoap_over_tcp_and_tls(node: Node, pair: tuple[Path, Path], tmp_path: Path, scheme: str) -> None:
    trust = ("-C", str(pair[0])) if scheme == "coaps+tcp" else ()
    path = f"/mq/field/lib-{scheme.replace('+', '-')}"
    assert coap(node, scheme, "put", path, "-e", "21.5", *trust) == (b"", "")
    assert coap(node, scheme, "get", path, *trust) == (b"21.5\n", "")
    body = os.urandom(20_000)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(body)
    assert coap(node, scheme, "put", path, "-f", str(source), *trust) == (b"", "")
    coap(node, scheme, "get", path, "-o", str(target), *trust)
    assert target.read_bytes() == body
    url = f"{scheme}://127.0.0.1:{node.port(CARRIERS[scheme])}{path}-live"
    listening = subprocess.Popen([LIBCOAP, "-s", "4", "-w", *trust, "-m", "get", url], stdout=subprocess.PIPE)
    time.sleep(1.5)
    for number in range(5):
        coap(node, scheme, "post", f"{path}-live", "-e", f"n{number}", *trust)
    heard, _ = listening.communicate(timeout=30)
    assert [line for line in heard.split() if line] == [b"n%d" % number for number in range(5)]


def test_alpn_coap_is_chosen_and_the_port_takes_no_plaintext(node: Node, pair: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(cafile=str(pair[0]))
    context.set_alpn_protocols(["coap"])
    with (
        socket.create_connection(("127.0.0.1", node.port("coaps-tcp")), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        assert secure.selected_alpn_protocol() == "coap"
        secure.sendall(b"\x00\xe1")
        assert 0xE1 in secure.recv(100)[1:3]
    with socket.create_connection(("127.0.0.1", node.port("coaps-tcp")), timeout=10) as plain:
        plain.sendall(b"\x00\xe1")
        assert plain.recv(100) == b""


def test_stopping_node_sends_release(tmp_path: Path) -> None:
    node = Node(tmp_path).start()
    try:
        with socket.create_connection(("127.0.0.1", node.port("coap-tcp")), timeout=30) as peer:
            peer.sendall(b"\x00\xe1")
            node.stop()
            heard = b""
            while part := peer.recv(4096):
                heard += part
        assert 0xE1 in heard[1:3]
        assert heard.endswith(b"\x00\xe4")
    finally:
        node.stop()


def test_counts_tell_why_connections_end(node: Node) -> None:
    def refused() -> int:
        text = node.admin("/metrics")
        lines = [line for line in text.splitlines() if 'reason="protocol-error"' in line and "coap" in line]
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines)

    before = refused()
    with socket.create_connection(("127.0.0.1", node.port("coap-tcp")), timeout=10) as peer:
        peer.sendall(b"\x00\x01")
        heard = b""
        while part := peer.recv(4096):
            heard += part
    assert b"the first message is not a CSM" in heard
    assert refused() > before
