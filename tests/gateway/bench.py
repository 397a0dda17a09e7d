"""A pump under test."""

from __future__ import annotations

from domain.command import Disconnected
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.observe.counters import CounterRegistry, ProtocolCounters
from protocols.adapter import Peer
from tests.gateway.scripted import FakeTransport, RecordingHandler, ScriptedConnection
from tests.simulation.kit.clock import VirtualClock


class Bench:
    """One pump with a scripted transport, connection and handler."""

    def __init__(self, connections_max: int = 10, controlled: bool = False) -> None:
        self.clock = VirtualClock()
        self.handler = RecordingHandler()
        self.counter_registry = CounterRegistry()
        self.context = ConnectionContext(
            self.handler, self.clock, self.counter_registry, ConnectionLimits(connections_max, controlled=controlled)
        )
        self.connection = ScriptedConnection()
        self.transport = FakeTransport()
        self.peer: Peer | None = None
        self.pump = self.another()

    def another(self) -> Pump:
        def connect(peer: Peer, now: int) -> ScriptedConnection:
            self.peer = peer
            return self.connection

        return Pump(self.context, "test", connect)

    def open(self) -> Bench:
        self.pump.connection_made(self.transport)
        self.clock.run_turn()
        return self

    @property
    def counters(self) -> ProtocolCounters:
        return self.counter_registry.of("test")

    @property
    def ends(self) -> list[Disconnected]:
        return [command for command in self.handler.commands if isinstance(command, Disconnected)]
