"""Datagrams and a store without room: hosts are let in one after the other, and the store is not asked for each datagram."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from domain.command import Command, Send
from domain.event import Event, Refused
from domain.message import Message
from gateway.connection.context import ConnectionContext
from gateway.connection.intake import UNFINISHED_BYTES_MAX
from gateway.observe.counters import CounterRegistry
from gateway.runtime.datagram import BELIEVED_BYTES, DATAGRAMS_PER_TURN, READ_PER_TURN, DatagramPump
from gateway.runtime.datagram_group import SO_ATTACH_FILTER, SO_DETACH_FILTER
from gateway.runtime.inbox import DATAGRAMS_MAX
from protocols.adapter import Peer
from tests.gateway.scripted import RecordingHandler
from tests.neighbours.loop import TurnClock

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

    asked     how often the store was asked whether it has room
    options   options of the socket, in the order in which they were set
    most      datagrams that are read at once
    """

    def __init__(self) -> None:
        self.asked = 0
        self.options: list[int] = []
        self.most = DATAGRAMS_PER_TURN
        self.clock = TurnClock()
        self.handler = RecordingHandler()
        self.endpoint = Posts()
        self.arrived: list[tuple[bytes, tuple[str, int]]] = []
        self.read: Callable[[], None] = lambda: None
        self.context = ConnectionContext(
            self.handler, self.clock, CounterRegistry(), 100, unfinished_bytes=self.unfinished_bytes
        )  # fmt: skip
        pump = DatagramPump(self.context, [cast(Any, self)], cast(Any, self.endpoint), "coap", cast(Any, self))
        pump.open()

    def unfinished_bytes(self) -> int:
        self.asked += 1
        return sum(len(command.messages[0].body) for command in self.handler.commands if isinstance(command, Send))

    def senders(self) -> list[str]:
        return [cast(str, command.ticket) for command in self.handler.commands if isinstance(command, Send)]

    def take(self, count: int, *hosts: str) -> None:
        """`count` datagrams, of each of the hosts in turn, in as many turns of the loop as they need."""
        self.arrived = [(BODY, (hosts[at % len(hosts)], at)) for at in range(count)]
        while self.arrived:
            self.read()
            self.clock.turn()

    # What the pump asks of its socket and of its loop

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", 5683)

    def setsockopt(self, level: int, option: int, value: object) -> None:
        self.options.append(option)

    def recvfrom(self, size: int) -> tuple[bytes, tuple[str, int]]:
        if not self.arrived:
            raise BlockingIOError
        return self.arrived.pop(0)

    def add_reader(self, bound: object, read: Callable[[object, int], None], same: object, most: int) -> None:
        self.read = lambda: read(same, self.most)


def test_the_store_is_asked_once_for_many_messages_of_one_host() -> None:
    port = Port()
    port.take(32, "10.0.0.1")
    assert (len(port.senders()), port.asked) == (32, 1)
    port.take(DATAGRAMS_PER_TURN, "10.0.0.1")
    assert port.asked == 1 + DATAGRAMS_PER_TURN * len(BODY) // BELIEVED_BYTES
    port.asked = 0
    port.take(10, "10.0.0.1", "10.0.0.2")
    assert port.asked == 10, "what is believed of one host says nothing about another"


def test_a_handler_that_is_replaced_gets_the_next_command() -> None:
    port, throttle = Port(), RecordingHandler()
    port.take(1, "10.0.0.1")
    port.context.handler = throttle
    port.take(2, "10.0.0.1")
    assert (len(port.handler.commands), len(throttle.commands)) == (1, 2)


def test_a_flood_of_one_host_is_refused_and_another_host_is_not() -> None:
    port = Port()
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


def test_a_flood_that_finds_no_room_is_left_to_the_kernel_until_there_is_room() -> None:
    port = Port()
    port.options.clear()
    port.most = READ_PER_TURN
    port.arrived = [(b"x", ("10.0.0.1", at)) for at in range(DATAGRAMS_MAX + 2 * READ_PER_TURN)]
    while port.arrived:
        port.read()
    assert port.options == [SO_ATTACH_FILTER]
    for _ in range(DATAGRAMS_MAX // DATAGRAMS_PER_TURN // 2 + 1):
        port.clock.turn()
    assert port.options == [SO_ATTACH_FILTER, SO_DETACH_FILTER]


def test_a_crowd_of_hosts_is_not_left_to_the_kernel() -> None:
    port = Port()
    port.options.clear()
    port.most = READ_PER_TURN
    port.arrived = [(b"x", (f"10.0.{at % 100}.1", at)) for at in range(DATAGRAMS_MAX + 2 * READ_PER_TURN)]
    while port.arrived:
        port.read()
    assert port.options == []
