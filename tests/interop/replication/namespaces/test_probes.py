"""What senders wait for is the gateway, and nothing of their own."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.interop.replication.namespaces.probes import Probes

GATEWAY = "gateway"


def test_connections_that_the_gateway_has_ended_are_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that loses its store ends the connections of its clients, all those that have waited for it, too."""
    asyncio.run(_ended_connections(monkeypatch))


async def _ended_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        content = json.dumps({"queue": 0, "offset": 7}).encode()
        writer.write(b"HTTP/1.1 201 Created\r\ncontent-length: %d\r\n\r\n%b" % (len(content), content))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port, connect = server.sockets[0].getsockname()[1], asyncio.open_connection
    monkeypatch.setattr(asyncio, "open_connection", lambda host, _port: connect(host, port))
    probes = Probes({GATEWAY: "127.0.0.1"})
    assert await asyncio.gather(*(probes._post(GATEWAY, b"x") for _ in range(3))) == [(0, 7)] * 3
    idle = probes._idle[GATEWAY]
    assert len(idle) == 3
    while not all(reader.at_eof() for reader, _ in idle):
        await asyncio.sleep(0.001)
    assert await probes._post(GATEWAY, b"x") == (0, 7)
    server.close()
