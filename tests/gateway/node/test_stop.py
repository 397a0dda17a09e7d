"""A node that stops waits for the last answers to be read, and for no client longer than its limit."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from gateway.node import node as module
from gateway.node.composition import known
from gateway.node.config import load
from gateway.node.node import Node
from gateway.node.protocols import installed

VALUE = b"x" * 4_000_000
PUT = b"POST /v1/topics/t/messages HTTP/1.1\r\nhost: localhost\r\nmq-retain: true\r\ncontent-length: %d\r\n\r\n" % len(VALUE)
GET = b"GET /v1/latest/t HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def answer(client: socket.socket) -> bytes:
    return await asyncio.get_running_loop().sock_recv(client, 4_096)


def test_a_client_that_does_not_read_keeps_no_node_from_stopping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection would be closed after a minute; the stop ends it at its own limit."""
    monkeypatch.setattr(module, "LAST_ANSWERS_S", 0.2)

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        parts = known(installed())
        options = {"data": str(tmp_path / "data"), **{f"ports.{name}": 0 for name in parts.ports}}
        node = Node(load(options, {}, parts))
        await node.start()
        client = socket.create_connection(("127.0.0.1", node.ports["http"]))
        client.setblocking(False)
        await loop.sock_sendall(client, PUT + VALUE)
        assert (await answer(client)).startswith(b"HTTP/1.1 201")
        await loop.sock_sendall(client, GET * 8)
        assert (await answer(client)).startswith(b"HTTP/1.1 200")
        (pump,) = node._connection_context.pumps
        while not pump._stalled:
            await asyncio.sleep(0.01)
        await asyncio.wait_for(node.stop(), 30)
        assert not node._connection_context.pumps
        client.close()

    asyncio.run(scene())
