"""A gateway's connection to its store: made again for ever, and closed for nonsense and silence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import pytest

from domain.errors import GatewayError
from gateway.cluster.forwarding.store_connection import Dialog, MakeDialog, StoreConnection
from gateway.link.dialer import SocketDialer
from gateway.runtime.clock import LoopClock
from gateway.runtime.entropy import SystemEntropy
from protocols.remoting.nodes.forwarding.greeting import ElsewhereError
from tests.gateway.node.running import until

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LONG_S = 60.0
UNWRITTEN_BYTES_MAX = 16 * 1024 * 1024


def connection_to(
    ports: Sequence[int], make: MakeDialog, changed: Callable[[], None], answer_s: float = LONG_S, silence_s: float = LONG_S
) -> StoreConnection:
    clock = LoopClock(asyncio.get_running_loop())
    dialer = SocketDialer(lambda: None, "gateway.store_ca", answer_s, UNWRITTEN_BYTES_MAX)
    endpoints = [("127.0.0.1", port) for port in ports]
    return StoreConnection(endpoints, make, dialer, (answer_s, silence_s), clock, SystemEntropy(), changed)


class EchoDialog:
    """Greets with `hello`, and takes `welcome` for an answer."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.greeted = False
        self.ends = 0
        self.pings = 0
        self.doubts = ""
        self._write = write
        self.heard = b""

    def open(self) -> None:
        self._write(b"hello")

    def receive(self, data: bytes) -> None:
        self.heard += data
        if b"nonsense" in self.heard:
            raise GatewayError("it says nonsense")
        self.greeted = self.greeted or self.heard.startswith(b"welcome")

    def doubt(self) -> str:
        found, self.doubts = self.doubts, ""
        return found

    def ping(self) -> None:
        self.pings += 1
        self._write(b"ping")

    def end(self) -> None:
        self.ends += 1


class StoreScene:
    """A store played by `serve`, and a connection to it."""

    def __init__(self, serve: Serve, answer_s: float = LONG_S, silence_s: float = LONG_S) -> None:
        self.dialogs: list[EchoDialog] = []
        self.changes: list[str] = []
        self._serve = serve
        self._times = (answer_s, silence_s)
        self.connection: StoreConnection
        self.server: asyncio.Server

    async def __aenter__(self) -> StoreScene:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.connection = connection_to([port], self._dialog, self._changed, *self._times)
        self.connection.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.connection.close()
        self.server.close()

    def _dialog(self, write: Callable[[bytes], None]) -> Dialog:
        self.dialogs.append(EchoDialog(write))
        return self.dialogs[-1]

    def _changed(self) -> None:
        self.changes.append(self.connection.waits)


async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(5)
    writer.write(b"welcome")
    while await reader.read(100):
        writer.write(b"sign")
    writer.close()


def test_it_is_connected_when_the_greeting_is_answered() -> None:
    async def run() -> None:
        async with StoreScene(welcome) as scene:
            await until(lambda: not scene.connection.waits)
            assert scene.changes == [""]
        await until(lambda: scene.dialogs[0].ends)
        assert len(scene.dialogs) == 1

    asyncio.run(run())


def test_a_lost_connection_is_made_again() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(5)
        writer.write(b"welcome")
        await writer.drain()
        writer.close()

    async def run() -> None:
        async with StoreScene(once) as scene:
            await until(lambda: scene.connection.losses >= 3)
            assert all(dialog.ends == 1 for dialog in scene.dialogs[:3])
            assert "" in scene.changes
            assert any("closed" in text for text in scene.changes)

    asyncio.run(run())


@pytest.mark.parametrize("said", [b"nonsense", b"welcome, nonsense"])
def test_nonsense_costs_the_connection_and_the_next_one_may_be_better(said: bytes, caplog: pytest.LogCaptureFixture) -> None:
    answers = [said, said]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not answers:
            await welcome(reader, writer)
            return
        await reader.readexactly(5)
        writer.write(answers.pop())
        assert await reader.read() == b""
        writer.close()

    async def run() -> None:
        async with StoreScene(serve) as scene:
            await until(lambda: len(scene.dialogs) == 3 and not scene.connection.waits)
            assert [dialog.ends for dialog in scene.dialogs] == [1, 1, 0]

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert "it says nonsense" in caplog.text
    assert "connected to the store at 127.0.0.1:" in caplog.text


def test_half_an_answer_ends_at_the_limit_of_the_greeting() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(5)
        writer.write(b"wel")
        assert await reader.read() == b""
        writer.close()

    async def run() -> None:
        async with StoreScene(half, answer_s=0.05) as scene:
            await until(lambda: len(scene.dialogs) >= 2)
            assert scene.dialogs[0].heard == b"wel"
            assert any("did not answer the greeting" in text for text in scene.changes)

    asyncio.run(run())


def test_a_silent_store_is_asked_and_then_left() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(5)
        writer.write(b"welcome")
        await reader.read()
        writer.close()

    async def run() -> None:
        async with StoreScene(silent, silence_s=0.1) as scene:
            await until(lambda: scene.connection.losses)
            assert scene.dialogs[0].pings > 0
            assert any("said nothing" in text for text in scene.changes)

    asyncio.run(run())


def test_a_store_that_answers_pings_is_kept() -> None:
    async def run() -> None:
        async with StoreScene(welcome, silence_s=0.02) as scene:
            await until(lambda: scene.dialogs and scene.dialogs[0].pings >= 8)
            assert scene.connection.losses == 0

    asyncio.run(run())


def test_bytes_that_the_store_does_not_read_are_bounded() -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"welcome")
        await asyncio.sleep(LONG_S)

    async def run() -> None:
        async with StoreScene(deaf) as scene:
            await until(lambda: not scene.connection.waits)
            write = scene.dialogs[0]._write
            for _ in range(40):
                write(b"x" * 1024 * 1024)
            await until(lambda: scene.connection.losses)
            assert any("does not read" in text for text in scene.changes)

    asyncio.run(run())


def test_a_gateway_says_for_whom_it_waits_and_not_for_each_attempt(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        server = await asyncio.start_server(welcome, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        made: list[EchoDialog] = []

        def dialog(write: Callable[[bytes], None]) -> Dialog:
            made.append(EchoDialog(write))
            return made[-1]

        connection = connection_to([port], dialog, lambda: None)
        connection.start()
        await until(lambda: connection.attempts >= 4)
        assert made == []
        server = await asyncio.start_server(welcome, "127.0.0.1", port)
        await until(lambda: not connection.waits)
        connection.close()
        server.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records if "waits for the store at 127.0.0.1:" in record.getMessage()]
    assert len(lines) == 1


def test_of_several_replicas_the_one_that_answers_is_found() -> None:
    async def run() -> None:
        servers = [await asyncio.start_server(welcome, "127.0.0.1", 0) for _ in range(3)]
        ports = [each.sockets[0].getsockname()[1] for each in servers]
        for follower in servers[:2]:
            follower.close()
            await follower.wait_closed()
        made: list[EchoDialog] = []

        def dialog(write: Callable[[bytes], None]) -> Dialog:
            made.append(EchoDialog(write))
            return made[-1]

        connection = connection_to(ports, dialog, lambda: None)
        connection.start()
        await until(lambda: not connection.waits)
        assert connection.where.endswith(str(ports[2]))
        assert connection.attempts == 3
        connection.close()
        servers[2].close()

    asyncio.run(run())


def test_a_store_that_refuses_is_left_for_another_replica_and_no_more_often_than_is_stated() -> None:
    async def run() -> None:
        servers = [await asyncio.start_server(welcome, "127.0.0.1", 0) for _ in range(2)]
        ports = [each.sockets[0].getsockname()[1] for each in servers]
        dialogs: list[EchoDialog] = []

        def made(write: Callable[[bytes], None]) -> Dialog:
            dialogs.append(EchoDialog(write))
            return dialogs[-1]

        connection = connection_to(ports, made, lambda: None)
        connection.start()
        for _ in range(2):
            await until(lambda: not connection.waits)
            dialogs[-1].doubts = "too few replicas are in sync"
            dialogs[-1].ping()
            await until(lambda: not dialogs[-1].doubts)
        assert connection.losses == 1, "the second one comes too soon"
        assert connection.where == f"127.0.0.1:{ports[1]}"
        connection.close()
        for each in servers:
            each.close()

    asyncio.run(run())


def test_a_store_without_other_replicas_is_not_left() -> None:
    async def run() -> None:
        async with StoreScene(welcome) as scene:
            await until(lambda: not scene.connection.waits)
            scene.dialogs[0].doubts = "the disk is full"
            scene.dialogs[0].ping()
            await until(lambda: not scene.dialogs[0].doubts)
            assert not scene.connection.losses

    asyncio.run(run())


def test_a_replica_that_follows_names_the_leader_that_nobody_knew() -> None:
    async def run() -> None:
        async def follows(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(5)
            writer.write(b"elsewhere")
            writer.close()

        async with StoreScene(welcome) as leader:
            port = leader.server.sockets[0].getsockname()[1]

            class NamingDialog(EchoDialog):
                def receive(self, data: bytes) -> None:
                    super().receive(data)
                    if self.heard == b"elsewhere":
                        raise ElsewhereError(f"127.0.0.1:{port}", ("127.0.0.1", port))

            follower = await asyncio.start_server(follows, "127.0.0.1", 0)
            connection = connection_to([follower.sockets[0].getsockname()[1]], NamingDialog, lambda: None)
            connection.start()
            await until(lambda: not connection.waits)
            assert (connection.where, connection.attempts) == (f"127.0.0.1:{port}", 2)
            connection.close()
            follower.close()

    asyncio.run(run())
