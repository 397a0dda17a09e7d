"""Connections over sockets, with servers on loopback."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from domain.errors import ConfigError, GatewayError
from gateway.link.dialer import SocketDialer

MIB = 1024 * 1024


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 60))

    return run


class Recorder:
    """Remembers what became of a connection."""

    def __init__(self) -> None:
        self.happened: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.fault: Exception | None = None

    def opened(self) -> None:
        self.happened.put_nowait(("opened", None))

    def received(self, data: bytes) -> None:
        if self.fault is not None:
            raise self.fault
        self.happened.put_nowait(("received", data))

    def ended(self, reason: str) -> None:
        self.happened.put_nowait(("ended", reason))

    def full(self, full: bool) -> None:
        self.happened.put_nowait(("full", full))


def dialer(**bounds: Any) -> SocketDialer:
    return SocketDialer(lambda: None, "store.ca", **bounds)


def at(server: asyncio.Server | socket.socket) -> tuple[str, int]:
    host, port = (server.sockets[0] if isinstance(server, asyncio.Server) else server).getsockname()[:2]
    return str(host), int(port)


async def serving(serve: Callable[..., Any], **named: Any) -> asyncio.Server:
    return await asyncio.start_server(serve, "127.0.0.1", 0, **named)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read(100))
    writer.close()


async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3_600)


@in_a_loop
async def test_bytes_go_both_ways() -> None:
    server = await serving(echo)
    user = Recorder()
    wire = dialer().dial(*at(server), user)
    assert await user.happened.get() == ("opened", None)
    wire.write(b"hello")
    assert await user.happened.get() == ("received", b"hello")
    assert await user.happened.get() == ("ended", "the connection was closed")
    wire.write(b"nobody reads it")
    server.close()


@in_a_loop
async def test_a_refused_connection_is_told_with_its_reason() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        user = Recorder()
        dialer().dial(*at(taken), user)
        what, reason = await user.happened.get()
    assert what == "ended"
    assert reason.startswith("no connection (")


@pytest.mark.parametrize("host", ["no such name.invalid", "x" * 70 + ".invalid", "\u00e4" * 64])
@in_a_loop
async def test_a_name_that_is_none_is_told(host: str) -> None:
    user = Recorder()
    dialer().dial(host, 9, user)
    what, _ = await user.happened.get()
    assert what == "ended"


@in_a_loop
async def test_files_for_tls_that_cannot_be_read_are_told() -> None:
    def files() -> None:
        raise ConfigError("store.ca ca.pem cannot be used: no such file")

    user = Recorder()
    SocketDialer(files, "store.ca").dial("127.0.0.1", 9, user)
    assert await user.happened.get() == ("ended", "store.ca ca.pem cannot be used: no such file")


@in_a_loop
async def test_a_server_that_takes_no_connection_is_given_up() -> None:
    user = Recorder()
    dialer(connect_s=0.0).dial("127.0.0.1", 9, user)
    assert await user.happened.get() == ("ended", "no connection within 0 s")


@in_a_loop
async def test_a_closed_attempt_tells_nothing() -> None:
    server = await serving(lambda reader, writer: writer.close())
    user, other = Recorder(), Recorder()
    wire = dialer().dial(*at(server), user)
    wire.close()
    await asyncio.sleep(0)
    wire.close()
    dialer().dial(*at(server), other)
    assert await other.happened.get() == ("opened", None)
    assert await other.happened.get() == ("ended", "the connection was closed")
    assert user.happened.empty()
    server.close()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (GatewayError("it sends nonsense"), "it sends nonsense"),
        (KeyError("x"), "what it has sent could not be handled: see the log"),
    ],
)
@in_a_loop
async def test_what_cannot_be_handled_costs_the_connection(
    fault: Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serving(echo)
    user = Recorder()
    user.fault = fault
    wire = dialer().dial(*at(server), user)
    await user.happened.get()
    wire.write(b"hello")
    assert await user.happened.get() == ("ended", reason)
    assert [record.name for record in caplog.records if record.levelno >= logging.WARNING] == ["headgate.link"]
    server.close()


@in_a_loop
async def test_bytes_that_a_server_does_not_read_are_bounded() -> None:
    server = await serving(deaf)
    user = Recorder()
    wire = dialer(unwritten_bytes_max=8 * MIB).dial(*at(server), user)
    await user.happened.get()
    for _ in range(40):
        wire.write(bytes(MIB))
    assert await user.happened.get() == ("ended", f"it does not read: {8 * MIB} bytes wait for it")
    assert user.happened.empty()
    server.close()


@in_a_loop
async def test_a_user_that_wants_to_know_is_told_when_the_server_does_not_read_and_when_it_does() -> None:
    reads = asyncio.Event()

    async def later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reads.wait()
        await reader.readexactly(40 * MIB)
        writer.close()

    server = await serving(later)
    user = Recorder()
    wire = dialer(unwritten_bytes_max=MIB).dial(*at(server), user, user.full)
    await user.happened.get()
    for _ in range(40):
        wire.write(bytes(MIB))
    assert await user.happened.get() == ("full", True)
    reads.set()
    assert await user.happened.get() == ("full", False)
    server.close()


@in_a_loop
async def test_a_server_is_not_read_while_its_user_does_not_want_it() -> None:
    async def speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"first")
        await reader.read(1)
        writer.write(b"second")

    server = await serving(speaks)
    user = Recorder()
    wire = dialer().dial(*at(server), user)
    wire.set_reading(False)
    assert await user.happened.get() == ("opened", None)
    await asyncio.sleep(0.05)
    assert user.happened.empty()
    wire.set_reading(True)
    assert await user.happened.get() == ("received", b"first")
    wire.set_reading(False)
    wire.write(b"x")
    await asyncio.sleep(0.05)
    assert user.happened.empty()
    wire.close()
    wire.set_reading(True)
    server.close()
