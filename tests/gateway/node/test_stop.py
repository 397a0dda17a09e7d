"""A node that stops answers the calls that wait, and waits for no client longer than its limit."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from gateway.node import client_ports as module
from gateway.node.node import Node
from protocols.remoting import codes
from protocols.remoting.wire import frame
from tests.gateway.node.running import served

VALUE = b"x" * 4_000_000
PUT = b"POST /v1/topics/t/messages HTTP/1.1\r\nhost: localhost\r\nmq-retain: true\r\ncontent-length: %d\r\n\r\n" % len(VALUE)
GET = b"GET /v1/latest/t HTTP/1.1\r\nhost: localhost\r\n\r\n"
PULL = {
    "consumerGroup": "g", "topic": "t", "queueId": "0", "queueOffset": "1", "maxMsgNums": "32", "sysFlag": "6",
    "commitOffset": "0", "suspendTimeoutMillis": "30000", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
}  # fmt: skip
"""It waits for the second message of the queue."""


async def connected(node: Node, listener: str) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", node.ports[listener]))
    client.setblocking(False)
    return client


async def answer(client: socket.socket) -> bytes:
    return await asyncio.get_running_loop().sock_recv(client, 65_536)


def test_a_client_that_does_not_read_keeps_no_node_from_stopping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection would be closed after a minute; the stop ends it at its own limit."""
    monkeypatch.setattr(module, "LAST_ANSWERS_S", 0.2)

    async def scene(node: Node) -> None:
        loop = asyncio.get_running_loop()
        client = await connected(node, "http")
        await loop.sock_sendall(client, PUT + VALUE)
        assert (await answer(client)).startswith(b"HTTP/1.1 201")
        await loop.sock_sendall(client, GET * 8)
        assert (await answer(client)).startswith(b"HTTP/1.1 200")
        (pump,) = node.own.clients.context.pumps
        while not pump._socket.stalled:
            await asyncio.sleep(0.01)
        await asyncio.wait_for(node.stop(), 30)
        assert not node.own.clients.context.pumps
        client.close()

    served(tmp_path, scene)


def test_a_pull_that_waits_is_told_to_go_elsewhere(tmp_path: Path) -> None:
    """All clients ask another broker after SERVICE_NOT_AVAILABLE."""

    async def scene(node: Node) -> None:
        loop = asyncio.get_running_loop()
        client = await connected(node, "remoting")
        fields = {"producerGroup": "p", "topic": "t", "queueId": "0", "sysFlag": "0", "bornTimestamp": "0", "flag": "0"}
        await loop.sock_sendall(client, frame.encode(codes.SEND, 1, fields={**fields, "defaultTopic": "TBW102"}, body=b"1"))
        decoder = frame.FrameDecoder()
        (sent,) = decoder.feed(await answer(client))
        assert (sent.opaque, sent.code) == (1, 0)
        await loop.sock_sendall(client, frame.encode(codes.PULL, 2, fields=PULL))
        await loop.sock_sendall(client, frame.encode(codes.GET_ROUTE, 3, fields={"topic": "t"}))
        (route,) = decoder.feed(await answer(client))
        assert route.opaque == 3, "the pull waits"
        await asyncio.wait_for(node.stop(), 30)
        (told,) = decoder.feed(await answer(client))
        assert (told.opaque, told.code) == (2, codes.SERVICE_NOT_AVAILABLE)
        assert await answer(client) == b""
        client.close()

    served(tmp_path, scene)
