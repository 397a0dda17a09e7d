"""A whole node on which one peer misbehaves, and the counts of what that peer makes the node do."""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, cast

from domain.command import Command
from gateway.connection.client_connection import ClientConnection
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.guard.admission import Admission
from gateway.node.composition import Parts, StorePlace, compose
from gateway.node.settings import Config
from gateway.runtime.compiled import in_use
from gateway.runtime.datagrams.pump import DatagramPump
from protocols.adapter import Peer
from protocols.registry import Opening
from tests.neighbours.asker import CoapAsker, GrpcAsker, HttpAsker, InternalClient, MqttAsker, MqttSender, RemotingAsker
from tests.neighbours.calls import counter
from tests.neighbours.loop import TurnClock
from tests.neighbours.socket import PeerDatagrams, PeerStream
from tests.place import place_of
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import SeededEntropy
from tests.simulation.world import PORTS

GROWN_BYTES_MAX = 64 * 1024 * 1024
"""Bytes by which one peer may make the process grow."""
WAIT_MS_MAX = 50.0
"""Virtual milliseconds that a neighbour may wait for its answer."""
TURN_CALLS_MAX = 60_000 if in_use() else 80_000
"""Function calls of one turn: some 20 ms of virtual time. Compiled functions count none, and those of a pure node all.

There it may take 28 ms: the first slice of a connection has a thousand bytes whatever they cost, and the heads of seventy
requests cost hyper-h2 a thousand calls each."""
ACCEPTS_PER_TURN = 128
HOT_BYTES = 1024 * 1024


@dataclass
class Load:
    """What the turns of one `SharedNode.run` cost: the most of any turn.

    calls         function calls, of Python and of C
    commands      commands that were carried out
    bytes_read    bytes that were read from streams
    grown_bytes   growth of the memory, without the bytes on the disk and those in the kernel
    waited        neighbour -> turns that its slowest answer took
    waited_ms     neighbour -> virtual time that its slowest answer took
    """

    calls: int = 0
    commands: int = 0
    bytes_read: int = 0
    grown_bytes: int = 0
    waited: dict[str, int] = field(default_factory=dict)
    waited_ms: dict[str, float] = field(default_factory=dict)

    def check(self) -> None:
        """Fail when the peer made others wait or the process grow."""
        assert self.calls <= TURN_CALLS_MAX, self
        assert self.grown_bytes <= GROWN_BYTES_MAX, self
        assert max(self.waited_ms.values()) <= WAIT_MS_MAX, self


class SharedNode:
    """A node with its adapters, admission and pumps; the disk, the clock and the sockets are simulated.

    `connect` and `datagram` are what peers can do; `run` lets turns pass and measures them. Use it in a `with` statement.

    parts   the composed node
    load    what the last `run` has measured
    """

    def __init__(self, config: Config | None = None, measures: bool = True) -> None:
        """`measures`: False: of `load` only the times of neighbours are measured, and turns take a third of the time."""
        self._measures = measures
        if measures:
            tracemalloc.start()
        self._counter = counter()
        self.clock = TurnClock(self._counter.calls)
        self.disk = MemoryDisk(self.clock, sync_ms=1.0)
        place = place_of(config or Config(), PORTS, "10.0.0.1", self.clock, SeededEntropy(1))
        self.parts: Parts = compose(place, StorePlace(self.disk, HOT_BYTES))
        limits = self.parts.limits
        connections_max = (config or Config()).connections_max
        self._context = ConnectionContext(
            self,
            self.clock,
            self.parts.counter_registry,
            ConnectionLimits(connections_max, Admission(limits, connections_max)),
            lambda transport, input_ended: transport.close() if input_ended else transport.half_close(),
            output_bytes_max=limits.output_bytes_max,
            unfinished_bytes=self.parts.unfinished_bytes,
            unread=self.parts.unread,
        )
        self._streams: list[PeerStream] = []
        self._opening: list[PeerStream] = []
        self._port = 20_000
        self._commands = 0
        self.load = Load()
        self.datagrams = PeerDatagrams()
        self._bind_coap()
        for _ in range(20):
            self._turn()
        self._askers = self._neighbours()
        for _ in range(20):
            self._turn()
        self.run(20)

    def __enter__(self) -> SharedNode:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._measures:
            tracemalloc.stop()

    # What peers do

    def connect(self, listener: str = "http", host: str = "10.0.0.66") -> PeerStream:
        """Open a stream connection to a port; the node accepts it in a later turn."""
        self._port += 1
        protocols, adapters = self.parts.protocols, self.parts.adapters
        taken = protocols.taken(protocols.listeners[listener], adapters.streams)

        def direct(peer: Peer, now: int) -> Opening:
            return Opening(protocols.recogniser, taken, None, peer, now)

        pump = Pump(self._context, listener, direct, protocols.labels(protocols.listeners[listener]))
        stream = PeerStream(pump, host, self._port % 65_536)
        self._opening.append(stream)
        return stream

    def datagram(self, data: bytes, host: str = "10.0.0.66", port: int = 5_000) -> None:
        """Send a datagram to the CoAP port."""
        self.datagrams.arrive(data, (host, port))

    # What the node does

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Handler: count a command, and carry it out."""
        self._commands += 1
        self.parts.gate.handle(connection, command)

    def run(self, turns: int) -> Load:
        """Let `turns` turns pass while the neighbours ask all the time. Returns what that cost."""
        names = [asker.name for asker in self._askers]
        load = self.load = Load(waited=dict.fromkeys(names, 0), waited_ms=dict.fromkeys(names, 0.0))
        now = self.clock.monotonic_ns()
        asked = dict.fromkeys(names, (0, now))
        for asker in self._askers:
            asker.ask()
        base = tracemalloc.get_traced_memory()[0] - self._outside_bytes()
        for turn in range(1, turns + 1):
            if self._measures:
                self._measured_turn(load, base)
            else:
                self._turn()
            now = self.clock.monotonic_ns()
            for asker in self._askers:
                name = asker.name
                asked_turn, asked_ns = asked[name]
                answered = asker.answered()
                load.waited[name] = max(load.waited[name], turn - asked_turn)
                load.waited_ms[name] = max(load.waited_ms[name], (now - asked_ns) / 1e6)
                if answered:
                    asked[name] = (turn, now)
                    asker.ask()
        return load

    def turn(self) -> None:
        """Let one turn pass that is not measured."""
        self._turn()

    def idle(self, seconds: float) -> None:
        """Let time pass, until all deadlines within it have been reached: now and then a few turns."""
        for _ in range(int(seconds * 10)):
            self.clock.advance(100_000_000)
            for _ in range(3):
                self._turn()

    def _measured_turn(self, load: Load, base: int) -> None:
        before = self._outside_bytes()
        streams = sum(stream.arriving for stream in self._streams)
        self._commands = 0
        tracemalloc.reset_peak()
        self._counter.begin()
        try:
            self._turn()
        finally:
            self._counter.end()
        load.calls = max(load.calls, self.clock.calls.value)
        load.commands = max(load.commands, self._commands)
        load.bytes_read = max(load.bytes_read, streams - sum(stream.arriving for stream in self._streams))
        outside = max(before, self._outside_bytes())
        load.grown_bytes = max(load.grown_bytes, tracemalloc.get_traced_memory()[1] - outside - base)

    def _turn(self) -> None:
        """One turn: sockets, timers, and what they ask for."""
        self.clock.advance()
        opening, self._opening = self._opening[:ACCEPTS_PER_TURN], self._opening[ACCEPTS_PER_TURN:]
        for stream in opening:
            stream.open()
            self._streams.append(stream)
        for stream in self._streams:
            stream.poll()
        self.datagrams.poll()
        self.clock.run_due()
        self.clock.run_soon()
        self._streams = [stream for stream in self._streams if not stream.closed]

    def _outside_bytes(self) -> int:
        """Bytes of this process that a real one would have on its disk, in the kernel, or at its peers."""
        files = sum(len(content.data) for content in self.disk.files.values())
        arriving = sum(stream.arriving + stream.in_kernel for stream in (*self._streams, *self._opening))
        return files + arriving + self.datagrams.arriving

    def _bind_coap(self) -> None:
        endpoint = self.parts.adapters.datagrams["coap"].bind(0)
        loop = cast(asyncio.AbstractEventLoop, self.datagrams)
        DatagramPump(self._context, [cast(Any, self.datagrams)], endpoint, "coap", loop).open()

    def _neighbours(self) -> list[InternalClient | CoapAsker]:
        host = "10.0.0.7"
        return [
            MqttAsker(self.connect("mqtt", host)),
            MqttSender(self.connect("mqtt", host)),
            HttpAsker(self.connect("http", host)),
            RemotingAsker(self.connect("remoting", host)),
            GrpcAsker(self.connect("grpc", host)),
            CoapAsker(
                lambda data: self.datagram(data, host, 6_000),
                lambda: self.datagrams.answers.get((host, 6_000), (0, 0))[0],
            ),
        ]
