"""Sockets of the relay, with servers on loopback."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from domain.errors import ConfigError
from gateway.runtime.outgoing import relay_sockets as module
from gateway.runtime.outgoing.relay_sockets import RelaySockets


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


class Recorder(asyncio.Protocol):
    """Remembers what became of a connection."""

    def __init__(self) -> None:
        self.happened: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.happened.put_nowait(("made", transport))

    def data_received(self, data: bytes) -> None:
        self.happened.put_nowait(("data", data))

    def connection_lost(self, exc: BaseException | None) -> None:
        self.happened.put_nowait(("lost", exc))

    def refused(self, reason: str) -> None:
        self.happened.put_nowait(("refused", reason))


def silent(sock: socket.socket) -> tuple[str, int]:
    host, port = sock.getsockname()[:2]
    return str(host), int(port)


@in_a_loop
async def test_bytes_go_both_ways() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    user = Recorder()
    RelaySockets(asyncio.get_running_loop(), lambda: None)(silent(server.sockets[0]), user)
    word, transport = await user.happened.get()
    assert word == "made"
    transport.write(b"hello")
    assert await user.happened.get() == ("data", b"hello")
    assert await user.happened.get() == ("lost", None)
    server.close()


@in_a_loop
async def test_a_refused_connection_is_told_with_its_reason() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        user = Recorder()
        RelaySockets(asyncio.get_running_loop(), lambda: None)(silent(taken), user)
        word, reason = await user.happened.get()
    assert word == "refused"
    assert reason.startswith("no connection (")


@pytest.mark.parametrize("host", ["no such name.invalid", "x" * 70 + ".invalid", "\u00e4" * 64])
@in_a_loop
async def test_a_name_that_is_none_is_told(host: str) -> None:
    user = Recorder()
    RelaySockets(asyncio.get_running_loop(), lambda: None)((host, 9), user)
    word, _ = await user.happened.get()
    assert word == "refused"


@in_a_loop
async def test_files_for_tls_that_cannot_be_read_are_told() -> None:
    def files() -> None:
        raise ConfigError("store.ca ca.pem cannot be used: no such file")

    user = Recorder()
    RelaySockets(asyncio.get_running_loop(), files)(("127.0.0.1", 9), user)
    told = await asyncio.wait_for(user.happened.get(), 30)
    assert told == ("refused", "store.ca ca.pem cannot be used: no such file")


@in_a_loop
async def test_a_server_that_takes_no_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_S", 0.0)
    user = Recorder()
    RelaySockets(asyncio.get_running_loop(), lambda: None)(("127.0.0.1", 9), user)
    assert await user.happened.get() == ("refused", "no connection within 0 s")


@in_a_loop
async def test_a_stopped_attempt_tells_nothing() -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    user = Recorder()
    stop = RelaySockets(asyncio.get_running_loop(), lambda: None)(silent(server.sockets[0]), user)
    stop()
    await asyncio.sleep(0)
    stop()
    other = Recorder()
    RelaySockets(asyncio.get_running_loop(), lambda: None)(silent(server.sockets[0]), other)
    await other.happened.get()
    assert user.happened.empty()
    server.close()
