"""Links of clients to a simulated node: streams whose bytes are split and delayed from one seed, and datagrams."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection
from gateway.connection.pump import Pump
from tests.neighbours.socket import PeerDatagrams
from tests.simulation.kit.network import OpenTransport

DELAY_NS_MAX = 3 * MILLISECOND_NS
FRAGMENT_BYTES_MAX = 700


class Party(Protocol):
    """The client's end of a link."""

    def connected(self, link: Any) -> None:
        """The link is open."""

    def received(self, data: bytes) -> None:
        """Bytes from the node have arrived, in order, split anywhere."""

    def lost(self) -> None:
        """The link is closed."""


class Direction:
    """One direction of a stream: bytes arrive in order, split and delayed."""

    def __init__(self, clock: Clock, chance: random.Random, take: Callable[[bytes], None]) -> None:
        self._clock = clock
        self._chance = chance
        self._take = take
        self._last_ns = 0

    def send(self, data: bytes) -> None:
        """Send bytes."""
        at = 0
        pieces: list[bytes] = []
        while at < len(data):
            size = self._chance.randrange(1, FRAGMENT_BYTES_MAX)
            pieces.append(data[at : at + size])
            at += size
        for piece in pieces:
            self.call(partial(self._take, piece))

    def call(self, callback: Callable[[], None]) -> None:
        """Call when all that was sent has arrived, and a while later."""
        self._last_ns = max(self._last_ns, self._clock.monotonic_ns() + self._chance.randrange(DELAY_NS_MAX)) + 1
        self._clock.call_at(self._last_ns, callback)


class Link(OpenTransport):
    """One stream connection: the transport of the node's pump, and `send` for the client."""

    def __init__(self, clock: Clock, chance: random.Random, pump: Pump, party: Party, port: int) -> None:
        super().__init__(("10.0.0.7", port), ("10.0.0.1", 1))
        self._clock = clock
        self._pump = pump
        self._party = party
        self._to_node = Direction(clock, chance, self._arrive)
        self._to_party = Direction(clock, chance, self._deliver)
        self.send = self._to_node.send
        self.open = True

    @property
    def client(self) -> ClientConnection:
        """The client as the node's use cases see it."""
        return self._pump.client

    def start(self) -> None:
        """Tell both ends that the connection is open."""
        self._pump.connection_made(self)
        if self.open:
            self._party.connected(self)

    def reset(self) -> None:
        """Break the connection: bytes in flight are lost, both ends are told."""
        if self.open:
            self.open = False
            self._pump.connection_lost(ConnectionResetError("simulated"))
            self._party.lost()

    def vanish(self) -> None:
        """End the connection because the node has died: only the client is told."""
        if self.open:
            self.open = False
            self._party.lost()

    def _arrive(self, piece: bytes) -> None:
        if self.open:
            self._pump.data_received(piece)

    def _deliver(self, piece: bytes) -> None:
        if self.open:
            self._party.received(piece)

    def write(self, data: bytes) -> None:
        """Transport.write."""
        self._to_party.send(bytes(data))

    def close(self) -> None:
        """Close by the node, after the bytes that it has written have arrived."""
        self._to_party.call(self.reset)

    def abort(self) -> None:
        """Transport.abort."""
        self._clock.call_soon(self.reset)


class DatagramLink(PeerDatagrams):
    """A datagram socket of the node with one peer: for the client `send`, for the node's pump its socket and loop.

    Datagrams are delayed, and not lost: a client that is not answered does not know whether it was heard all the same.
    """

    def __init__(self, clock: Clock, chance: random.Random, party: Party, port: int) -> None:
        super().__init__()
        self._clock = clock
        self._chance = chance
        self._party = party
        self._peer = ("10.0.0.7", port)
        self.open = True

    def send(self, data: bytes) -> None:
        """Send a datagram from the client."""
        self._clock.call_at(self._when(), partial(self._arrive, data))

    def sendto(self, data: bytes, address: tuple[str, int]) -> int:
        self._clock.call_at(self._when(), partial(self._deliver, bytes(data)))
        return len(data)

    def reset(self) -> None:
        """Do nothing: there is no connection to break."""

    def vanish(self) -> None:
        """The node has died: nothing arrives any more, and the client hears of it as if it had asked."""
        if self.open:
            self.open = False
            self._party.lost()

    def _when(self) -> int:
        return self._clock.monotonic_ns() + self._chance.randrange(DELAY_NS_MAX)

    def _arrive(self, data: bytes) -> None:
        if self.open:
            self.arrive(data, self._peer)
            self.poll()

    def _deliver(self, data: bytes) -> None:
        if self.open:
            self._party.received(data)


def end_clients(links: Iterable[Link | DatagramLink], clients: Iterable[ClientConnection]) -> None:
    """End these clients, of links or of channels inside a connection; datagrams of a socket that several share have no end."""
    lost = {client for client in clients if not client.shared}
    for link in links:
        if isinstance(link, Link) and link.client in lost:
            lost.discard(link.client)
            link.reset()
    for channel in lost:
        channel.driver.close()
