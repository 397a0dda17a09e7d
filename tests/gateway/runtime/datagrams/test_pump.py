"""Datagrams and a store without room: hosts are let in one after the other, and the store is not asked for each datagram."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from domain.command import Command, Send
from domain.event import Event, Refused
from domain.limits import MILLISECOND_NS
from domain.message.message import Message
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.connection.intake import UNFINISHED_BYTES_MAX
from gateway.observe.counters import CounterRegistry
from gateway.runtime.datagrams.inbox import BYTES_MAX, DATAGRAMS_MAX, OF_ADDRESS_MAX
from gateway.runtime.datagrams.pump import (
    BELIEVED_BYTES,
    DATAGRAMS_PER_TURN,
    READ_PER_SOCKET,
    READ_PER_TURN,
    ROOM_WAITS_MAX,
    DatagramPump,
)
from protocols.adapter import Peer
from tests.gateway.scripted import RecordingHandler
from tests.neighbours.loop import TURN_NS, TurnClock

BODY = b"x" * 1_024


class Posts:
    """An endpoint: every datagram is a message."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.counts: dict[str, int] = {}

    def receive(self, data: bytes, peer: Peer, now: int) -> Sequence[Command]:
        return [Send(peer.host, [Message("t", data)])]

    def answer(self, event: Event, now: int) -> None:
        assert isinstance(event, Refused)
        self.refused.append(cast(str, event.ticket))

    def outgoing(self) -> Sequence[tuple[bytes, tuple[str, int]]]:
        return ()

    def deadline(self) -> int | None:
        return None


class Port:
    """A pump with a socket and a loop that the test plays, and a store that stores nothing of what it takes.

    stores     True: it stores all at once
    asked      how often the store was asked whether it has room
    shut       the host, and its port or None for all, for which the kernel drops what arrives
    was_read   number of datagrams that were read
    """

    def __init__(self) -> None:
        self.stores = False
        self.asked = 0
        self.shut: tuple[str, int | None] | None = None
        self.was_read = 0
        self.clock = TurnClock()
        self.handler = RecordingHandler()
        self.endpoint = Posts()
        self.arrived: deque[tuple[bytes, tuple[str, int]]] = deque()
        self.read: Callable[[], None] = lambda: None
        self.context = ConnectionContext(
            self.handler, self.clock, CounterRegistry(), ConnectionLimits(100), unfinished_bytes=self.unfinished_bytes
        )  # fmt: skip
        pump = DatagramPump(self.context, [cast(Any, self)], cast(Any, self.endpoint), "coap", cast(Any, self))
        pump.open()

    def unfinished_bytes(self) -> int:
        self.asked += 1
        return 0 if self.stores else len(BODY) * len(self.handler.commands)

    def senders(self) -> list[str]:
        return [cast(str, command.ticket) for command in self.handler.commands if isinstance(command, Send)]

    def take(self, count: int, *hosts: str) -> None:
        """`count` datagrams, of each of the hosts in turn, in as many turns of the loop as they need."""
        for at in range(count):
            self.arrive(BODY, (hosts[at % len(hosts)], at))
            if len(self.arrived) == DATAGRAMS_PER_TURN or at + 1 == count:
                self.read()
                self.clock.turn()

    def arrive(self, data: bytes, address: tuple[str, int]) -> None:
        """A datagram comes to the socket, unless its sender is shut out."""
        if self.shut not in (address, (address[0], None)):
            self.arrived.append((data, address))

    def read_all(self) -> None:
        """Read what has arrived, without a turn of the loop."""
        while self.arrived:
            self.read()

    # What the pump asks of its socket and of its loop

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", 5683)

    def setsockopt(self, level: int, option: int, value: object) -> None:
        pass

    def shut_out(self, network: str, port: int | None) -> bool:
        self.shut = network, port
        return True

    def let_in(self) -> None:
        self.shut = None

    def recvfrom(self, size: int) -> tuple[bytes, tuple[str, int]]:
        if not self.arrived:
            raise BlockingIOError
        self.was_read += 1
        return self.arrived.popleft()

    def add_reader(self, bound: object, read: Callable[[object, int], None], same: object, most: int) -> None:
        self.read = lambda: read(same, READ_PER_SOCKET)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Port:
    monkeypatch.setattr("gateway.runtime.datagrams.group.shut_out", Port.shut_out)
    monkeypatch.setattr("gateway.runtime.datagrams.group.let_in", Port.let_in)
    return Port()


def test_the_store_is_asked_once_for_many_messages_of_one_host(port: Port) -> None:
    port.take(32, "10.0.0.1")
    assert (len(port.senders()), port.asked) == (32, 1)
    port.take(DATAGRAMS_PER_TURN, "10.0.0.1")
    assert port.asked == 1 + DATAGRAMS_PER_TURN * len(BODY) // BELIEVED_BYTES
    port.asked = 0
    port.take(10, "10.0.0.1", "10.0.0.2")
    assert port.asked == 10, "what is believed of one host says nothing about another"


def test_a_handler_that_is_replaced_gets_the_next_command(port: Port) -> None:
    throttle = RecordingHandler()
    port.take(1, "10.0.0.1")
    port.context.handler = throttle
    port.take(2, "10.0.0.1")
    assert (len(port.handler.commands), len(throttle.commands)) == (1, 2)


def test_a_flood_of_one_host_is_refused_and_another_host_is_not(port: Port) -> None:
    port.take(4_096, "10.0.0.1")
    taken = len(port.senders()) * len(BODY)
    assert UNFINISHED_BYTES_MAX < taken <= UNFINISHED_BYTES_MAX + BELIEVED_BYTES + len(BODY)
    assert set(port.endpoint.refused) == {"10.0.0.1"}
    port.take(3, "10.0.0.2")
    assert port.senders().count("10.0.0.2") == 1, "a host that has sent nothing of what waits may send one message"
    assert port.endpoint.refused.count("10.0.0.2") == 2
    port.take(1, "10.0.0.1")
    assert len(port.senders()) * len(BODY) == taken + len(BODY)
    port.handler.commands.clear()
    port.take(3, "10.0.0.1")
    assert port.senders() == ["10.0.0.1"] * 3


def fill_inbox(port: Port) -> None:
    """One host sends more than the store takes, and all of it is read."""
    for at in range(UNFINISHED_BYTES_MAX // len(BODY) + 500):
        port.arrive(BODY, ("10.0.0.1", at))
    port.read_all()


def test_what_one_host_has_sent_waits_for_the_store_before_it_is_refused(port: Port) -> None:
    fill_inbox(port)
    for _ in range((ROOM_WAITS_MAX - 1) * MILLISECOND_NS // TURN_NS):
        port.clock.turn()
    taken = len(port.senders())
    assert taken > UNFINISHED_BYTES_MAX // len(BODY)
    refused = len(port.endpoint.refused)
    assert refused < DATAGRAMS_PER_TURN, "those that were handled with the last for which there was room"
    port.handler.commands.clear()  # a sync ends
    for _ in range(30):
        port.clock.turn()
    assert len(port.endpoint.refused) == refused
    assert len(port.senders()) == UNFINISHED_BYTES_MAX // len(BODY) + 500 - taken - refused


def test_what_waits_for_the_store_is_refused_after_a_while(port: Port) -> None:
    fill_inbox(port)
    for _ in range((ROOM_WAITS_MAX + 5) * MILLISECOND_NS // TURN_NS):
        port.clock.turn()
    assert len(port.senders()) + len(port.endpoint.refused) == UNFINISHED_BYTES_MAX // len(BODY) + 500
    assert len(port.endpoint.refused) > 400


def test_another_host_does_not_wait_for_the_store_with_the_one_that_has_filled_it(port: Port) -> None:
    fill_inbox(port)
    for _ in range(5 * MILLISECOND_NS // TURN_NS):
        port.clock.turn()
    port.arrive(BODY, ("10.0.0.2", 1))
    port.read_all()
    for _ in range(MILLISECOND_NS // TURN_NS + 1):
        port.clock.turn()
    assert "10.0.0.2" in port.senders()


def test_a_flood_that_finds_no_room_is_left_to_the_kernel_until_nothing_of_it_waits(port: Port) -> None:
    port.stores = True
    for at in range(DATAGRAMS_MAX + READ_PER_SOCKET):
        port.arrive(b"x", ("10.0.0.1", at))
    port.read_all()
    assert port.shut == ("10.0.0.1", None)
    for _ in range(DATAGRAMS_MAX // DATAGRAMS_PER_TURN - 1):
        port.clock.turn()
        assert port.shut is not None
    port.clock.turn()
    assert port.shut is None


@pytest.mark.parametrize(("ports", "waste"), [(1, 1.0), (256, 0.1), (20_000, 0.1)])
def test_what_a_node_cannot_handle_is_not_read(port: Port, ports: int, waste: float) -> None:
    """One host offers four times as much as is handled in a turn."""
    port.stores = True
    sent, turns = 0, 500
    for _ in range(turns):
        for _ in range(4 * DATAGRAMS_PER_TURN):
            port.arrive(BODY, ("10.0.0.1", sent % ports))
            sent += 1
        port.read()
        port.clock.turn()
    handled = len(port.senders())
    assert handled >= turns * DATAGRAMS_PER_TURN, "there is always something to do"
    assert port.was_read - BYTES_MAX // len(BODY) <= (1 + waste) * handled


def test_a_port_that_floods_is_left_to_the_kernel_without_the_others_of_its_host(port: Port) -> None:
    for _ in range(2 * OF_ADDRESS_MAX):
        port.arrive(b"x", ("10.0.0.1", 1))
    port.read_all()
    assert port.shut == ("10.0.0.1", 1)
    port.arrive(b"x", ("10.0.0.1", 2))
    port.read_all()
    assert port.was_read == 2 * OF_ADDRESS_MAX + 1
    for _ in range(OF_ADDRESS_MAX // DATAGRAMS_PER_TURN + 1):
        assert port.shut == ("10.0.0.1", 1)
        port.clock.turn()
    assert port.shut is None


def test_ports_that_flood_together_do_not_shut_out_a_host_that_has_room(port: Port) -> None:
    for at in range(6 * OF_ADDRESS_MAX):
        port.arrive(b"x", ("10.0.0.1", at % 4))
        if at % 64 == 63:
            port.read()
    assert port.shut is None


def test_a_host_is_let_in_when_nothing_of_it_waits_though_the_inbox_is_full(port: Port) -> None:
    for at in range(BYTES_MAX // len(BODY) + READ_PER_SOCKET):
        port.arrive(BODY, ("10.0.0.1", at))
    port.read_all()
    turns = 0
    while port.shut is not None:
        for at in range(2 * DATAGRAMS_PER_TURN):
            port.arrive(BODY, (f"10.0.1.{at % 3}", at))
        port.read_all()
        port.clock.turn()
        turns += 1
    assert turns == pytest.approx(4 * BYTES_MAX / len(BODY) / DATAGRAMS_PER_TURN, rel=0.1), "it has its turns"


def test_a_crowd_of_hosts_is_not_left_to_the_kernel(port: Port) -> None:
    for at in range(DATAGRAMS_MAX + 2 * READ_PER_TURN):
        port.arrive(b"x", (f"10.0.{at % 100}.1", at))
    port.read_all()
    assert port.shut is None
