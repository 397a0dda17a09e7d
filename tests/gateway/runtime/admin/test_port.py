"""Streams on the admin port: they last as long as the client reads them."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from gateway.connection.intake import PumpIntake
from gateway.runtime.admin import admin_connection
from gateway.runtime.admin.application import runner_of
from gateway.runtime.admin.port import AdminPort
from gateway.runtime.clock import LoopClock

PIECE = b"x" * 65_536
REQUEST = b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def stream(request: web.Request) -> web.StreamResponse:
    """Write until the client is gone."""
    response = web.StreamResponse()
    await response.prepare(request)
    with suppress(ConnectionError):
        while True:
            await response.write(PIECE)
            await asyncio.sleep(0.001)
    return response


async def served(client_reads: bool) -> tuple[float, int]:
    """(seconds that the connection lasted, refusals of the port)."""
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    bound = socket.create_server(("127.0.0.1", 0))
    port = AdminPort(bound, clock, PumpIntake(clock, lambda: 0))
    application = web.Application()
    application.add_routes([web.get("/stream", stream)])
    runner = runner_of(application, port)
    address = bound.getsockname()
    await runner.setup()
    serve: Any = runner.server
    port.open(serve)
    reader, writer = await asyncio.open_connection(*address, limit=4096)
    began = loop.time()
    writer.write(REQUEST)
    with suppress(ConnectionError):
        while loop.time() < began + (1 if client_reads else 20) and not port.refused:
            if client_reads:
                assert await reader.read(65_536)
            else:
                await asyncio.sleep(0.01)
    lasted = loop.time() - began
    writer.close()
    port.close()
    await runner.cleanup()
    return lasted, port.refused


def test_a_stream_lasts_while_the_client_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_connection, "REQUEST_S", 0.2)
    lasted, refused = asyncio.run(served(client_reads=True))
    assert lasted >= 1
    assert refused == 0


def test_a_stream_that_the_client_does_not_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_connection, "REQUEST_S", 0.2)
    _, refused = asyncio.run(served(client_reads=False))
    assert refused == 1
