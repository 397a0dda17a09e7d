"""The port of readers is open while something serves them, and the kernel refuses connections to it at all other times."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import pytest

from gateway.node.client_side import ClientSide
from gateway.node.roles.follower_port import FollowerPort


class Echo(asyncio.Protocol):
    """A connection that says who serves it."""

    def __init__(self, scene: Scene, side: str) -> None:
        self.scene, self.side = scene, side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.scene.pumps[self] = None
        self.transport.write(self.side.encode())

    def connection_lost(self, exc: Exception | None) -> None:
        self.scene.pumps.pop(self, None)

    def close(self) -> None:
        self.transport.close()


class Scene:
    """A bound port; a side is a word, and a context the connections that there are."""

    def __init__(self) -> None:
        self.pumps: dict[Echo, None] = {}
        self.bound = socket.socket()
        self.bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.bound.bind(("127.0.0.1", 0))
        where = self.bound.getsockname()
        self.port = int(where[1])
        self.readers = FollowerPort(self.bound, cast(Any, self._context), cast(Any, self._make))

    def _context(self, _side: str) -> Scene:
        return self

    def _make(self, side: str, _context: Scene) -> Callable[[], Echo]:
        return lambda: Echo(self, side)

    def serve(self, side: str | None) -> None:
        self.readers.serve(cast(ClientSide | None, side))

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


async def refused(scene: Scene) -> bool:
    try:
        _, writer = await scene.connected()
    except ConnectionError:
        return True
    writer.close()
    return False


def test_it_is_open_while_it_serves_and_ends_connections_when_another_side_does() -> None:
    async def run() -> None:
        scene = Scene()
        assert await refused(scene)
        scene.serve("first")
        await asyncio.sleep(0.01)
        reader, writer = await scene.connected()
        assert await reader.readexactly(5) == b"first"
        scene.serve("second")
        assert await reader.read() == b"", "who was connected begins anew"
        writer.close()
        await asyncio.sleep(0.01)
        reader, writer = await scene.connected()
        assert await reader.readexactly(6) == b"second"
        scene.serve(None)
        assert await reader.read() == b""
        writer.close()
        assert await refused(scene)
        scene.serve("third")
        scene.serve(None)
        await asyncio.sleep(0.01)
        assert await refused(scene), "it was not open yet when it was to be closed"
        for shares in (0, 1):
            with socket.socket() as twin:
                twin.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shares)
                with pytest.raises(OSError, match="in use"):
                    twin.bind(("127.0.0.1", scene.port))
        scene.readers.close()

    asyncio.run(run())
