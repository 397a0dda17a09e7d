"""A node as a process of its own, for the clients of simulated ones: real sockets and real time behind the same calls."""

from __future__ import annotations

import heapq
import random
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from tests.interop.node import Node
from tests.simulation.kit.clock import VirtualTimer
from tests.simulation.ledger import Ledger

READ_BYTES = 256 * 1024
PORTS = {"http2": "grpc"}
"""What a client dials -> the listener, where they have different names."""


class RealClock:
    """The Clock port, and the loop that runs its timers and the sockets: `run_for` and `run_until` as of the virtual clock."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self._timers: list[tuple[int, int, VirtualTimer]] = []
        self._serial = 0

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(callback)
        self._serial += 1
        heapq.heappush(self._timers, (when_ns, self._serial, timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.call_at(0, callback)

    def run_for(self, milliseconds: float) -> None:
        """Run timers and sockets for this long."""
        end = time.monotonic_ns() + int(milliseconds * 1_000_000)
        while time.monotonic_ns() < end:
            self._turn(end)

    def run_until(self, condition: Callable[[], bool], most_ms: float = 600_000) -> None:
        """Run timers and sockets until `condition` is true; AssertionError when it is not within `most_ms`."""
        end = time.monotonic_ns() + int(most_ms * 1_000_000)
        while not condition():
            assert time.monotonic_ns() < end, f"the condition does not hold after {most_ms} ms"
            self._turn(end)

    def _turn(self, end: int) -> None:
        now = time.monotonic_ns()
        while self._timers and self._timers[0][0] <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                callback()
        following = min(end, self._timers[0][0] if self._timers else end)
        for key, _ in self.selector.select(max(0, min(following - time.monotonic_ns(), 20_000_000)) / 1e9):
            key.data()


class RealLink:
    """One connected socket, TCP or UDP."""

    def __init__(self, clock: RealClock, connected: socket.socket, party: Any) -> None:
        self._clock = clock
        self._socket = connected
        self._party = party
        self.open = True
        connected.setblocking(False)
        clock.selector.register(connected, selectors.EVENT_READ, self._readable)

    def send(self, data: bytes) -> None:
        """Send bytes; the requests of these clients fit the socket's buffer."""
        if not self.open:
            return
        try:
            sent = self._socket.send(data)
        except OSError:
            self.vanish()
            return
        assert sent == len(data), "the node does not read"

    def reset(self) -> None:
        """Break the connection."""
        self.vanish()

    def vanish(self) -> None:
        """Close, and tell the client soon."""
        if self.open:
            self.open = False
            self._clock.selector.unregister(self._socket)
            self._socket.close()
            self._clock.call_soon(self._party.lost)

    def _readable(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._party.received(data)
        else:
            self.vanish()


class Process:
    """`Net` over a real node. `seed`: for the clients and the times of the kills."""

    def __init__(self, node: Node, seed: int) -> None:
        self.node = node
        self.seed = seed
        self.chance = random.Random(seed)
        self.clock = RealClock()
        self.ledger = Ledger()
        self._links: list[RealLink] = []

    def dial(self, protocol: str, party: Any) -> None:
        """Connect `party`. When the node is down, `party` is told that the link is lost, and tries again."""
        kind = socket.SOCK_DGRAM if protocol == "coap" else socket.SOCK_STREAM
        connected = socket.socket(socket.AF_INET, kind)
        try:
            connected.connect(("127.0.0.1", self.node.port(PORTS.get(protocol, protocol))))
        except OSError:
            connected.close()
            self.clock.call_soon(partial(self._again, party))
            return
        link = RealLink(self.clock, connected, party)
        self._links = [each for each in self._links if each.open]
        self._links.append(link)
        party.connected(link)

    def _again(self, party: Any) -> None:
        self.clock.call_at(self.clock.monotonic_ns() + 30_000_000, party.lost)

    def kill(self) -> None:
        """kill -9, and the next start at once; the clients go on meanwhile as far as they can."""
        self.node.kill()
        for link in self._links:
            with suppress(OSError):
                link.vanish()
        self._links = []
        self.node.start()
