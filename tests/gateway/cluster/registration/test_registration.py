"""Registration on real sockets of a real loop: name servers that serve, that come late, and that misbehave."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from domain.errors import ConfigError
from domain.nameserver.route import Registration
from gateway.cluster.registration import nameserver_connections as module
from gateway.cluster.registration.nameserver_connections import NameserverConnection, NodeRegistration
from gateway.link.dialer import SocketDialer
from gateway.link.wire import Wire, WireUser
from gateway.runtime.clock import LoopClock, new_loop
from protocols.remoting.nameserver import registrar as remoting
from protocols.remoting.nameserver.registrar import RENEWAL_NS, Registrar
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import FLAG_RESPONSE
from tests.gateway.apache.scripted_cluster import ScriptedServer, ScriptedWire
from tests.gateway.node.running import until
from tests.protocols.remoting.nameserver.test_registrar import Topics
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.entropy import SeededEntropy

BROKER: Final = Registration("c1", "b-x", 0, "10.0.0.7:10911", "10.0.0.7:10912")
Answer = Callable[[Frame], bytes | None]
LOOPS: Final = [asyncio.new_event_loop, new_loop]


def reply(asked: Frame, fields: dict[str, str]) -> bytes:
    return encode(0, asked.opaque, fields=fields, flag=FLAG_RESPONSE)


def good(asked: Frame) -> bytes:
    return reply(asked, {322: {"changed": "true"}, 30012: {"taken": "true"}}.get(asked.code, {}))


class Peer:
    """A name server that answers each request by a function. None: it closes the connection."""

    def __init__(self, answer: Answer = good) -> None:
        self.answer = answer
        self.connections = 0
        self.ended = 0
        self.asked: list[int] = []
        self._server: asyncio.AbstractServer | None = None

    async def open(self, port: int = 0) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        decoder = FrameDecoder()
        try:
            while data := await reader.read(65536):
                for frame in decoder.feed(data):
                    self.asked.append(frame.code)
                    answer = self.answer(frame)
                    if answer is None:
                        return
                    writer.write(answer)
        except ConnectionError:
            pass
        finally:
            self.ended += 1
            writer.close()

    def close(self) -> None:
        assert self._server is not None
        self._server.close()


def connection_to(
    port: int,
    topics: Topics | None = None,
    host: str = "127.0.0.1",
    tls: Callable[[], None] = lambda: None,
    sign: Callable[[], None] = lambda: None,
) -> NameserverConnection:
    clock = LoopClock(asyncio.get_running_loop())
    dialer = SocketDialer(tls, "registration.ca")
    return NameserverConnection(host, port, Registrar(BROKER, topics or Topics()), sign, dialer, clock, SeededEntropy(1))


def run(make: Callable[[], asyncio.AbstractEventLoop], main: Callable[[], Awaitable[None]]) -> None:
    loop = make()
    try:
        loop.run_until_complete(asyncio.wait_for(main(), 20))
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pauses."""
    monkeypatch.setattr(module, "PAUSE_MS", 1)


@pytest.mark.parametrize("make", LOOPS)
def test_a_node_registers_tells_changes_and_leaves(
    make: Callable[[], asyncio.AbstractEventLoop], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.registration")

    async def main() -> None:
        peer, topics = Peer(), Topics()
        connection = connection_to(await peer.open(), topics)
        registration = NodeRegistration([connection])
        registration.start()
        await until(lambda: registration.counts() == (1, 1))
        for name in ("A", "B", "C"):
            topics.put(name)
            registration.topics_changed()
        await until(lambda: connection.registrar.deadline() is not None and len(peer.asked) == 3)
        assert peer.asked == [322, 30012, 30012], "what changes in one turn is one request"
        registration.leave()
        await registration.close()
        assert connection.registrar.left
        await until(lambda: peer.ended == 1)
        peer.close()

    run(make, main)
    assert [record.levelname for record in caplog.records] == ["INFO"]


@pytest.mark.parametrize("make", LOOPS)
def test_a_name_server_that_comes_late_and_goes_makes_one_line_for_each_change(
    make: Callable[[], asyncio.AbstractEventLoop], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.registration")

    async def main() -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        connection = connection_to(port)
        attempts: list[int] = []
        lost = connection.registrar.lost

        def counted() -> None:
            attempts.append(1)
            lost()

        connection.registrar.lost = counted  # type: ignore[method-assign]
        registration = NodeRegistration([connection])
        registration.start()
        await until(lambda: len(attempts) >= 3)
        peer = Peer()
        await peer.open(port)
        await until(lambda: registration.counts() == (1, 1))
        peer.answer = lambda asked: None
        peer.close()
        registration.topics_changed()
        await until(lambda: registration.counts() == (1, 0))
        seen = len(attempts)
        await until(lambda: len(attempts) >= seen + 2)
        registration.leave()
        await registration.close()

    run(make, main)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]


BAD: Final[dict[str, Answer]] = {
    "nonsense": lambda asked: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a frame above the bound": lambda asked: (17 * 1024 * 1024).to_bytes(4, "big") + bytes(64),
    "the end": lambda asked: None,
    "half an answer": lambda asked: good(asked)[:10],
    "nothing": lambda asked: b"",
    "an answer to something else": lambda asked: encode(0, 77, fields={"changed": "true"}, flag=FLAG_RESPONSE),
}


@pytest.mark.parametrize("make", LOOPS)
@pytest.mark.parametrize("answer", BAD.values(), ids=BAD.keys())
def test_a_bad_name_server_is_left_and_tried_again_and_a_good_one_has_the_node(
    make: Callable[[], asyncio.AbstractEventLoop], answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remoting, "ANSWER_NS", 20_000_000)

    async def main() -> None:
        bad, well = Peer(answer), Peer()
        registration = NodeRegistration([connection_to(await bad.open()), connection_to(await well.open())])
        registration.start()
        await until(lambda: bad.connections >= 3 and bad.ended >= 2)
        assert registration.counts() == (2, 1)
        assert well.connections == 1
        bad.answer = good
        await until(lambda: registration.counts() == (2, 2))
        registration.leave()
        await registration.close()
        bad.close()
        well.close()

    run(make, main)


def test_a_stop_does_not_wait_for_a_name_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAVE_S", 0.02)

    async def main() -> None:
        peer = Peer()
        connection = connection_to(await peer.open())
        registration = NodeRegistration([connection])
        registration.start()
        await until(lambda: registration.counts() == (1, 1))
        peer.answer = lambda asked: b""
        registration.leave()
        await registration.close()
        assert not connection.registrar.left
        await until(lambda: peer.ended == 1)
        peer.close()

    run(new_loop, main)


def test_a_name_that_cannot_be_looked_up_and_a_file_that_is_gone_are_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        told: list[str] = []

        def prepare() -> None:
            told.append("asked")
            raise ConfigError("the file is gone")

        wrong = connection_to(1, host="a" * 70 + "..invalid")

        def sign() -> None:
            raise ConfigError("there is no key")

        peer = Peer()
        gone, keyless = connection_to(1, tls=prepare), connection_to(await peer.open(), sign=sign)
        registration = NodeRegistration([wrong, gone, keyless])
        registration.start()
        await until(lambda: len(told) >= 3 and len(caplog.records) >= 3 and peer.connections >= 2)
        await registration.close()
        peer.close()

    run(asyncio.new_event_loop, main)  # it refuses the name before it asks a resolver
    lines = [record.getMessage() for record in caplog.records]
    assert any("the file is gone" in line for line in lines)
    assert any("there is no key" in line for line in lines)
    assert len(set(lines)) == len(lines), "a reason is told once"


def test_an_empty_name_server_that_comes_back_has_the_node_within_a_heartbeat_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the pauses of a node
    clock = VirtualClock()
    server = ScriptedServer("ns", clock)
    server.on(322, lambda frame: (0, {"changed": "true"}, b""))
    server.on(30012, lambda frame: (0, {"taken": "true"}, b""))
    tried: list[int] = []

    class Counted:
        def dial(self, host: str, port: int, user: WireUser, on_full: Callable[[bool], None] | None = None) -> Wire:
            tried.append(clock.monotonic_ns())
            return ScriptedWire(server, clock, user)

    connection = NameserverConnection(
        "10.0.0.9", 9876, Registrar(BROKER, Topics()), lambda: None, Counted(), clock, SeededEntropy(1)
    )
    server.up = False
    connection.start()
    for down_s in (90, 7, 45):
        clock.run_for(down_s * 1_000)
        pauses = [later - earlier for earlier, later in itertools.pairwise(tried)]
        assert max(pauses) < RENEWAL_NS // 2 + 10_000_000
        server.up = True
        clock.run_until(lambda: connection.registrar.registered, 15_001)
        tried.clear()
        server.stop()
        clock.run_until(lambda: len(tried) == 1, 751)  # after a success the pauses are the shortest again
    connection.close()
