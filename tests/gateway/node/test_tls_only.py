"""A node that takes TLS only: what it opens, and what its clients without TLS are told."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from gateway.client.answer import TlsError
from gateway.client.client import Client
from gateway.client.security import Tls
from gateway.node.node import Node
from gateway.runtime.security import openssl
from tests.gateway.node.running import served

LONG_S = 1000.0


def test_streams_take_tls_only_and_no_datagrams_without_dtls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def scene(node: Node) -> None:
        certificate = tmp_path / "data" / "tls" / "certificate.pem"
        assert certificate.exists()
        assert "coap" not in node.ports
        assert ("coaps" in node.ports) is (openssl.library() is not None)
        assert {"nameserver", "remoting", "grpc", "http", "mqtt", "mqtts", "websocket", "websockets", "admin"} <= set(
            node.ports
        )
        assert "port coap is not opened" in caplog.text
        for name in ("http", "websocket"):
            assert b"400 Bad Request" in await exchange(node.ports[name], b"GET /mqtt HTTP/1.1\r\nHost: a\r\n\r\n", None)
        for name in ("mqtt", "mqtts"):
            connect = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a"
            assert await exchange(node.ports[name], connect, None) == b"\x20\x02\x00\x05"
        refused = {row.protocol: row.reasons["refusals"].get("plaintext", 0) for row in node.snapshot().protocols}
        assert {name: count for name, count in refused.items() if count} == dict.fromkeys(
            ("http", "websocket", "mqtt", "mqtts"), 1
        )
        for name in ("nameserver", "remoting"):
            with pytest.raises(TlsError, match=r"this port takes TLS only\. Connect with TLS \(tls=true"):
                await asyncio.to_thread(topics, node.ports[name], None)
        context = await asyncio.to_thread(trusting, node.ports["http"])
        assert b"200 OK" in await exchange(
            node.ports["http"], b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", context
        )
        assert await asyncio.to_thread(topics, node.ports["nameserver"], Tls(str(certificate)))
        await node.stop()

    served(tmp_path, scene, tls_only=True)


def test_an_admin_port_that_others_reach_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def scene(node: Node) -> None:
        assert "port admin takes no TLS" in caplog.text
        await node.stop()

    served(tmp_path, scene, tls_only=True, admin_host="0.0.0.0", insecure=True)


async def exchange(port: int, sent: bytes, context: ssl.SSLContext | None) -> bytes:
    """Everything that the server says until it closes the connection."""
    name = "localhost" if context is not None else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    writer.write(sent)
    try:
        return await reader.read()
    finally:
        writer.close()


def trusting(port: int) -> ssl.SSLContext:
    """A context that trusts the server at this port."""
    return ssl.create_default_context(cadata=ssl.get_server_certificate(("127.0.0.1", port)))


def topics(port: int, tls: Tls | None) -> list[str]:
    with Client(f"127.0.0.1:{port}", timeout_s=60, retry_s=LONG_S, tls=tls) as client:
        return client.topics()
