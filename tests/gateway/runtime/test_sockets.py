"""Pumps on real sockets of a real loop: streams, datagrams, and ports that cannot be had."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import cast

import pytest

from domain.admin.topic import ListTopics
from domain.command import Command, Disconnected
from domain.errors import ConfigError
from domain.event import Done, Event
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.observe.counters import CounterRegistry
from gateway.runtime import stream
from gateway.runtime.address import bind
from gateway.runtime.clock import LoopClock, new_loop
from gateway.runtime.datagrams.group import share_by_host
from gateway.runtime.datagrams.pump import DatagramPump
from gateway.runtime.startup_ports import ClosedListeners
from gateway.runtime.stream import StreamListener, end_in_order, in_order, reset_when_killed
from protocols.adapter import Connection, Peer
from tests.gateway.scripted import RecordingHandler, ScriptedConnection

LOOPS = [asyncio.new_event_loop, new_loop]


def run(make: Callable[[], asyncio.AbstractEventLoop], main: Callable[[ConnectionContext], Awaitable[None]]) -> None:
    loop = make()
    handler = RecordingHandler()
    handler.then = lambda client, command: client.answer(Done(command.ticket)) if isinstance(command, ListTopics) else None
    context = ConnectionContext(handler, LoopClock(loop), CounterRegistry(), ConnectionLimits(100), end_in_order)
    try:
        loop.run_until_complete(asyncio.wait_for(main(context), 10))
    finally:
        loop.close()


@asynccontextmanager
async def served(
    context: ConnectionContext, connect: Callable[[Peer, int], Connection], bound: socket.socket | None = None
) -> AsyncIterator[tuple[str, int]]:
    """The address of a port whose connections `connect` makes, until all of them have ended."""
    bound = bind("mqtt", "127.0.0.1", 0) if bound is None else bound
    listener = StreamListener("mqtt", bound)
    await listener.open(lambda: Pump(context, "mqtt", connect))
    yield bound.getsockname()
    while context.pumps:
        await asyncio.sleep(0.001)
    listener.close()


class Echo(ScriptedConnection):
    """Every byte is a command; every answer says which."""

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        return [ListTopics(byte) for byte in data] if data else self.at_end

    def answer(self, event: Event, now: int) -> None:
        assert isinstance(event, Done)
        self.queue.append(f"{event.ticket};".encode())


@pytest.mark.parametrize("make", LOOPS)
def test_stream_is_answered_and_ends_with_its_peer(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main(context: ConnectionContext) -> None:
        async with served(context, lambda peer, now: Echo()) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(bytes(range(1, 5)))
            assert await reader.readexactly(8) == b"1;2;3;4;"
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()

    run(make, main)


class Writer(asyncio.Protocol):
    """Writes, and waits to be told how the connection ends."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(bytes(self._size))


@pytest.mark.parametrize("make", LOOPS)
@pytest.mark.parametrize("ordered", [True, False])
def test_a_killed_process_resets_connections_and_a_closed_one_delivers_what_is_written(
    make: Callable[[], asyncio.AbstractEventLoop], ordered: bool
) -> None:
    size = 300_000

    async def main(_context: ConnectionContext) -> None:
        bound = bind("remoting", "127.0.0.1", 0)
        reset_when_killed(bound)
        listener = StreamListener("remoting", bound)
        writer = Writer(size)
        await listener.open(lambda: cast(Pump, writer))
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, bound.getsockname())
            while writer.transport is None or writer.transport.get_write_buffer_size():
                await asyncio.sleep(0.001)  # all of it is in the kernel, which is as much as a process that dies can do
                if writer.transport is not None:
                    await loop.sock_recv(client, 1_000)
            if ordered:
                in_order(writer.transport)
            writer.transport.close()
            await asyncio.sleep(0.01)
            end = b"?"
            with expected_reset(not ordered):
                while end:
                    end = await loop.sock_recv(client, 65_536)
        listener.close()

    run(make, main)


def expected_reset(reset: bool) -> AbstractContextManager[object]:
    return pytest.raises(ConnectionResetError) if reset else nullcontext()


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("make", LOOPS)
def test_a_closed_port_refuses_connections_and_is_kept(make: Callable[[], asyncio.AbstractEventLoop], chosen: bool) -> None:
    async def main(context: ConnectionContext) -> None:
        with bind("mqtt", "127.0.0.1", 0) as free:
            where = free.getsockname()
        bound = bind("mqtt", "127.0.0.1", where[1] if chosen else 0)
        where = bound.getsockname()
        closed = ClosedListeners([bound])
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*where)
            with pytest.raises(ConfigError, match="taken"):
                bind("mqtt", *where)
        closed.stop()
        async with served(context, lambda peer, now: Echo(), bound):
            reader, writer = await asyncio.open_connection(*where)
            writer.write(b"\x07")
            assert await reader.readexactly(2) == b"7;"
            with pytest.raises(ConfigError, match="taken"):
                bind("mqtt", *where)
            writer.transport.abort()

    run(make, main)


@pytest.mark.parametrize("make", LOOPS)
def test_a_connection_that_was_reset_before_it_was_accepted_has_its_own_address_or_is_not_read(
    make: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    peers: list[Peer] = []

    def connect(peer: Peer, now: int) -> Echo:
        peers.append(peer)
        return Echo()

    async def main(context: ConnectionContext) -> None:
        async with served(context, connect) as address:
            gone = socket.create_connection(address)
            gone.sendall(b"12")
            ports = {gone.getsockname()[1]}
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.close()
            reader, writer = await asyncio.open_connection(*address)
            ports.add(writer.get_extra_info("sockname")[1])
            writer.write(b"\x07")
            assert await reader.readexactly(2) == b"7;"
            writer.close()
            assert {peer.port for peer in peers} <= ports

    run(make, main)


@pytest.mark.parametrize("make", LOOPS)
def test_peer_that_does_not_read_stops_being_read(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    class Loud(ScriptedConnection):
        def receive(self, data: bytes, now: int) -> Sequence[Command]:
            self.received.append(data)
            self.queue += [b"z" * 100_000] * len(data)
            return () if data else self.at_end

    async def main(context: ConnectionContext) -> None:
        connection = Loud()
        async with served(context, lambda peer, now: connection) as address:
            reader, writer = await asyncio.open_connection(*address, limit=1024)
            taken = -1
            while taken != len(connection.received):
                taken = len(connection.received)
                for _ in range(50):
                    writer.write(b"x")
                    await asyncio.sleep(0.002)
            assert taken < 500
            assert len(await reader.readexactly(2_000_000)) == 2_000_000
            writer.transport.abort()

    run(make, main)


@pytest.mark.parametrize("make", LOOPS)
def test_last_words_reach_a_peer_that_is_still_sending(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    class Refusing(ScriptedConnection):
        def receive(self, data: bytes, now: int) -> Sequence[Command]:
            self.queue.append(b"413 too large")
            self.closed = True
            return [Disconnected("too-large")]

    async def main(context: ConnectionContext) -> None:
        async with served(context, lambda peer, now: Refusing()) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"x" * 3_000_000)
            await asyncio.sleep(0.05)
            assert await reader.read() == b"413 too large"
            await writer.drain()
            writer.close()

    run(make, main)


class EchoEndpoint:
    """Answers every datagram to its sender, by way of a command."""

    def __init__(self) -> None:
        self.queue: list[tuple[bytes, tuple[str, int]]] = []
        self.when: int | None = None
        self.expired = 0
        self.counts: dict[str, int] = {}

    def receive(self, data: bytes, peer: Peer, now: int) -> Sequence[Command]:
        if data == b"bug":
            raise RuntimeError("a bug in an endpoint")
        if data == b"later":
            self.when = now + 2_000_000
        return [ListTopics((peer.host, peer.port, data))]

    def answer(self, event: Event, now: int) -> None:
        assert isinstance(event, Done)
        host, port, data = cast(tuple[str, int, bytes], event.ticket)
        self.queue.append((data, (host, port)))

    def outgoing(self) -> Sequence[tuple[bytes, tuple[str, int]]]:
        queue, self.queue = self.queue, []
        return queue

    def deadline(self) -> int | None:
        return self.when

    def expire(self, now: int) -> Sequence[Command]:
        self.when = None
        self.expired += 1
        return ()


@pytest.mark.parametrize("make", LOOPS)
def test_datagrams_are_answered_to_their_senders(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main(context: ConnectionContext) -> None:
        loop = asyncio.get_running_loop()
        endpoint = EchoEndpoint()
        bound = bind("coap", "127.0.0.1", 0, datagrams=True)
        address = bound.getsockname()
        pump = DatagramPump(context, share_by_host(bound), endpoint, "coap", loop)
        pump.open()
        clients = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(20)]
        for number, client in enumerate(clients):
            client.setblocking(False)
            client.connect(address)
            client.send(b"bug")
            client.send(b"hello %d" % number)
        for number, client in enumerate(clients):
            assert await loop.sock_recv(client, 100) == b"hello %d" % number
        clients[0].send(b"later")
        while not endpoint.expired:
            await asyncio.sleep(0.001)
        counters = context.counter_registry.of("coap")
        assert counters.refusals == {"adapter-fault": 20}
        pump.close()
        assert pump.client.closed
        for client in clients:
            client.close()

    run(make, main)


@pytest.mark.parametrize("listens", [True, False])
def test_taken_port_is_one_sentence_that_says_what_to_do(listens: bool) -> None:
    with bind("mqtt", "127.0.0.1", 0) as other:
        if listens:
            other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port {port} on 127\.0\.0\.1 \(mqtt\) is taken .*--port mqtt=N"):
            bind("mqtt", "127.0.0.1", port)


def test_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0 \(mqtt\)"):
        bind("mqtt", "192.0.2.1", 0)


def test_a_port_at_which_descriptors_come_and_go_has_no_line_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left = [True]

    async def main() -> None:
        listener = StreamListener("mqtt", bind("mqtt", "127.0.0.1", 0))
        await listener.open(lambda: cast(Pump, Writer(1)))
        for _ in range(10):
            for left[0] in (False, True):
                listener._poll()
                if listener._task is not None:
                    await listener._task
        listener.close()

    monkeypatch.setattr(stream, "_descriptor_left", lambda: left[0])
    caplog.set_level("WARNING", "headgate.stream")
    asyncio.run(main())
    assert [line.partition(": ")[0] for line in caplog.messages] == [
        "port mqtt", "port mqtt accepts connections again", "port mqtt"
    ]  # fmt: skip
