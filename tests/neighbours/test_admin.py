"""The admin port: what the connections of one host make a turn do, and that another host is answered meanwhile."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from domain.turn import RECEIVED_NS
from gateway.connection.intake import SLICE_NS, PumpIntake
from gateway.observe.health import Health
from gateway.observe.metrics import Snapshot
from gateway.runtime.admin.port import (
    ACCEPTED_MAX,
    ANSWER_NS,
    BEGIN_NS,
    HOST_CONNECTIONS_MAX,
    HOST_WAITING_MAX,
    AdminPort,
)
from gateway.runtime.admin.server import AdminServer
from gateway.runtime.admin.view import AdminView, Controls
from gateway.runtime.clock import new_loop
from protocols.hosts import Hosts

FLOOD = "127.0.0.66"
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


class StandingClock:
    """A clock that stands still: turns are as long as what they say that they take. Turns of the intake run by hand."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def monotonic_ns(self) -> int:
        """Always the same time."""
        return 1

    def wall_ms(self) -> int:
        """Always the same time."""
        return 1

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> Any:
        """Keep a turn."""
        self.due.append(callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Not called."""
        raise NotImplementedError

    def turn(self) -> None:
        """Run the turns that were asked for."""
        due, self.due = self.due, []
        for callback in due:
            callback()


class Inner:
    """Aiohttp's side of a connection: answers whatever comes with its host."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Note the host."""
        self._transport = transport
        self._stage.served.append(transport.get_extra_info("peername")[0])

    def data_received(self, data: bytes) -> None:
        """Answer."""
        assert data == REQUEST
        self._transport.write(b"answer")

    def eof_received(self) -> None:
        """Nothing follows."""

    def connection_lost(self, _: object) -> None:
        """The connection has ended."""


class Stage:
    """An admin port without aiohttp, and clients of two hosts."""

    def __init__(self) -> None:
        self.served: list[str] = []
        self.clock = StandingClock()
        self.bound = socket.create_server(("127.0.0.1", 0), backlog=1_024)
        self.port = AdminPort(self.bound, self.clock, PumpIntake(self.clock, lambda: 0))
        self.clients: list[socket.socket] = []

    def connect(self, host: str, said: bytes) -> None:
        """A client that says something."""
        client = socket.socket()
        client.bind((host, 0))
        client.connect(self.bound.getsockname())
        with suppress(ConnectionError):
            client.sendall(said)
        self.clients.append(client)

    def close(self) -> None:
        """End."""
        for client in self.clients:
            client.close()
        self.port.close()

    def open_of(self, host: str) -> int:
        """Connections of a host that the loop has."""
        return len(self.port._open.get(host, ()))

    def waiting_of(self, host: str) -> int:
        """Connections of a host that wait to begin."""
        found = self.port._arrivals.get(host)
        return 0 if found is None else len(found.sockets)


async def settled() -> None:
    """The loop has polled its sockets, and done what follows from it: all bytes of the clients are in the kernel already."""
    for _ in range(8):
        await asyncio.sleep(0)


async def _crowd(said: bytes, count: int) -> list[tuple[int, int, bool]]:
    """For each turn: requests that were handed on, connections that began, whether the neighbour is served."""
    stage = Stage()
    try:
        for _ in range(count):
            stage.connect(FLOOD, said)
        stage.connect("127.0.0.1", REQUEST)
        stage.port.open(lambda: Inner(stage))
        while stage.waiting_of("127.0.0.1") == 0:
            await asyncio.sleep(0)
        assert stage.waiting_of(FLOOD) <= HOST_WAITING_MAX
        assert stage.port.refused == max(0, count - HOST_WAITING_MAX)
        rows = []
        while stage.clock.due:
            served, began = len(stage.served), stage.open_of(FLOOD)
            stage.clock.turn()
            await settled()
            rows.append((len(stage.served) - served, stage.open_of(FLOOD) - began, "127.0.0.1" in stage.served))
        assert stage.open_of(FLOOD) <= HOST_CONNECTIONS_MAX
        return rows
    finally:
        stage.close()


@pytest.mark.parametrize(("said", "count"), [(REQUEST, 60), (REQUEST, 300), (b"GET /metrics HTTP/1.1\r\nHost", 600)])
def test_a_crowd_of_one_host_does_not_delay_another_one(said: bytes, count: int) -> None:
    rows = asyncio.run(_crowd(said, count))
    assert max(served for served, _, _ in rows) <= RECEIVED_NS // ANSWER_NS + 1
    assert max(began for _, began, _ in rows) <= RECEIVED_NS // BEGIN_NS + 1
    busy = [row for row in rows if row[0] or row[1]]
    assert next(at for at, (_, _, neighbour) in enumerate(busy) if neighbour) <= 1, rows
    if said == REQUEST:
        assert sum(served for served, _, _ in rows) == min(count, HOST_WAITING_MAX) + 1


def test_a_turn_accepts_a_bounded_number_of_connections() -> None:
    async def crowd() -> list[int]:
        stage = Stage()
        try:
            for _ in range(3 * ACCEPTED_MAX):
                stage.connect(FLOOD, b"")
            seen: list[int] = []
            while not seen or stage.port.refused + stage.waiting_of(FLOOD) < 3 * ACCEPTED_MAX:
                stage.port._accept()
                seen.append(stage.port.refused + stage.waiting_of(FLOOD))
            return seen
        finally:
            stage.bound.setblocking(False)
            stage.close()

    assert asyncio.run(crowd()) == [ACCEPTED_MAX, 2 * ACCEPTED_MAX, 3 * ACCEPTED_MAX]


class EndlessWork:
    """A peer of another port that always has more."""

    host = FLOOD
    sends = False

    def __init__(self, intake: PumpIntake) -> None:
        self.slices = 0
        self._intake = intake

    def take_slice(self) -> bool:
        """Use the time of a slice."""
        self.slices += 1
        self._intake.used(SLICE_NS, 1)
        return True


def test_a_question_waits_for_few_turns_in_which_others_are_handled() -> None:
    """Tasks begin the connection and answer the request, in six steps; each waited for a turn of 6 ms."""

    async def ask() -> list[int]:
        clock = StandingClock()
        intake = PumpIntake(clock, lambda: 0)
        bound = socket.create_server(("127.0.0.1", 0), backlog=8)
        view = AdminView(Health(clock.monotonic_ns), Hosts((), ""), tuple, Snapshot, Controls(list, lambda: None))
        admin = AdminServer(bound)
        await admin.serve(view, clock, intake)
        flooding = EndlessWork(intake)
        intake.add(flooding)
        waited = []
        try:
            for _ in range(5):
                turns = 0
                with socket.create_connection(bound.getsockname()) as client:
                    client.setblocking(False)
                    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    answer = b""
                    while not answer:
                        before = flooding.slices
                        clock.turn()
                        turns += flooding.slices > before
                        await asyncio.sleep(0)
                        with suppress(BlockingIOError):
                            answer = client.recv(1_024)
                assert answer.startswith(b"HTTP/1.1 200")
                waited.append(turns)
        finally:
            await admin.close()
        return waited

    with asyncio.Runner(loop_factory=new_loop) as runner:
        waited = runner.run(ask())
        assert max(waited) <= 3, waited
