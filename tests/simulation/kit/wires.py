"""The network between the machines of a cluster: connections that carry the real bytes, each direction by itself.

What is said over one connection arrives in order, or its end does. Over two connections between the same processes nothing is
in order: what an earlier one still carries may arrive when a later one has been used for long. While nothing passes between
two machines, bytes wait (TCP sends them again), and connections cannot be made. A process that is killed ends its
connections; a machine without power says nothing, and answers with a reset once it is up again.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Protocol

from domain.errors import GatewayError
from domain.limits import MILLISECOND_NS, SECOND_NS
from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.link.wire import WireUser
from protocols.adapter import Adapter
from tests.simulation.kit.clock import PausableClock, VirtualClock
from tests.simulation.kit.network import OpenTransport

CONNECT_NS = 3 * SECOND_NS
"""When a connection that nobody answers is given up unless the dialer says otherwise: as in gateway.link.dialer."""


class Host(Protocol):
    """A machine, as the network knows it.

    host      its address
    powered   False: nothing of it answers
    """

    host: str
    powered: bool

    @property
    def clock(self) -> PausableClock:
        """The clock of its present process, or of the last one."""


class Listener:
    """A port that a process has open."""

    def __init__(self, machine: Host, port: int, context: ConnectionContext, adapter: Adapter) -> None:
        self.machine = machine
        self.port = port
        self.context = context
        self.adapter = adapter
        self.clock = machine.clock


class Pipe:
    """One direction of a connection. None stands for its end."""

    __slots__ = ("_moving", "_net", "_queue", "_take", "origin", "to")

    def __init__(self, net: Network, origin: str, to: str, take: Callable[[bytes | None], None]) -> None:
        self._net = net
        self.origin = origin
        self.to = to
        self._take = take
        self._queue: deque[bytes | None] = deque()
        self._moving = False

    def say(self, data: bytes | None) -> None:
        """Say it some time later."""
        self._queue.append(data)
        if not self._moving:
            self._moving = True
            self._later()

    def break_off(self, lose: bool) -> None:
        """The connection breaks. `lose`: what is on its way is lost."""
        if lose:
            self._queue.clear()
        self.say(None)

    def _later(self) -> None:
        net = self._net
        net.clock.call_at(net.clock.monotonic_ns() + net.delay_ns(self.origin, self.to), self.move)

    def move(self) -> None:
        """Deliver all that is on its way, unless nothing passes."""
        if (self.origin, self.to) in self._net.blocked:
            self._net.waiting.append(self)
            return
        self._moving = False
        queue, self._queue = self._queue, deque()
        pieces: list[bytes] = []
        ends = False
        for each in queue:
            if each is None:
                ends = True
                break
            pieces.append(each)
        if pieces:
            self._take(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if ends:
            self._take(None)


class Connection(OpenTransport):
    """One connection: a `WireUser` at the machine that has made it, at the other one a pump, whose transport it is."""

    def __init__(self, net: Network, client: Host, listener: Listener, user: WireUser) -> None:
        super().__init__((client.host, 40_000 + listener.port), (listener.machine.host, listener.port))
        self.client = client
        self.server = listener.machine
        self.port = listener.port
        self._user = user
        self._client_clock = client.clock
        self._server_clock = listener.clock
        self.to_server = Pipe(net, client.host, listener.machine.host, self._arrived)
        self.to_client = Pipe(net, listener.machine.host, client.host, self._returned)
        self._client_gone = self._server_gone = False
        self._pump = Pump(listener.context, "remoting", listener.adapter.connect)
        self._server_clock.call_soon(lambda: self._pump.connection_made(self))
        net.connections.append(self)

    @property
    def over(self) -> bool:
        """True when neither side has it any more."""
        return (self._client_gone or not self._client_clock.alive) and (self._server_gone or not self._server_clock.alive)

    def touches(self, host: str) -> bool:
        """True when it ends at this machine."""
        return host in (self.client.host, self.server.host)

    # The side that has connected: gateway.link.wire.Wire

    def ask(self, data: bytes) -> None:
        """Wire.write."""
        if not self._client_gone:
            self.to_server.say(data)

    def hang_up(self) -> None:
        """Wire.close."""
        if not self._client_gone:
            self._client_gone = True
            self.to_server.say(None)

    def _returned(self, data: bytes | None) -> None:
        if not self._client_clock.alive:
            self._answer_reset(self.to_server, self.client, data)
        elif not self._client_gone:
            self._client_clock.call_soon(lambda: self._at_client(data))

    def _at_client(self, data: bytes | None) -> None:
        if self._client_gone:
            return
        if data is None:
            self._client_gone = True
            self._user.ended("the connection was closed")
            return
        try:
            self._user.received(data)
        except GatewayError as error:
            self.hang_up()
            self._user.ended(str(error))

    # The side that was connected to: gateway.connection.transport.Transport

    def _arrived(self, data: bytes | None) -> None:
        if not self._server_clock.alive:
            self._answer_reset(self.to_client, self.server, data)
        elif not self._server_gone:
            self._server_clock.call_soon(lambda: self._at_server(data))

    def _at_server(self, data: bytes | None) -> None:
        if self._server_gone:
            return
        if data is None:
            self._server_gone = True
            self._pump.connection_lost(None)
        else:
            self._pump.data_received(data)

    def _answer_reset(self, back: Pipe, machine: Host, data: bytes | None) -> None:
        """Bytes for a process that is gone: its machine says so, unless it has no power."""
        if data is not None and machine.powered:
            back.say(None)

    def died(self, machine: Host, said: bool) -> None:
        """A process is gone. `said`: its machine ends the connection for it."""
        if said:
            if machine is self.client:
                self.to_server.say(None)
            if machine is self.server:
                self.to_client.say(None)

    def reset(self, chance: random.Random) -> None:
        """The connection breaks; what is on its way may arrive all the same."""
        self.to_client.break_off(chance.random() < 0.5)
        self.to_server.break_off(chance.random() < 0.5)

    def write(self, data: bytes) -> None:
        """Transport.write."""
        if not self._server_gone:
            self.to_client.say(bytes(data))

    def close(self) -> None:
        """Transport.close."""
        self.abort()

    def abort(self) -> None:
        """Transport.abort."""
        if not self._server_gone:
            self._server_gone = True
            self.to_client.say(None)
            self._server_clock.call_soon(lambda: self._pump.connection_lost(None))


class ClientWire:
    """The client's end of a connection that is being made, or is there: `gateway.link.wire.Wire`."""

    def __init__(self) -> None:
        self.made: Connection | None = None
        self.closed = False

    def write(self, data: bytes) -> None:
        """Wire.write."""
        if self.made is not None:
            self.made.ask(data)

    def set_reading(self, reading: bool) -> None:
        """Wire.set_reading: bytes on their way arrive all the same."""

    def close(self) -> None:
        """Wire.close."""
        self.closed = True
        if self.made is not None:
            self.made.hang_up()


class Network:
    """All machines of a cluster, and what passes between them.

    blocked      (from, to) between which nothing passes
    waiting      directions that wait for that to end
    slow         host -> milliseconds that everything from and to it takes longer
    far          (from, to) -> milliseconds that everything between them takes longer
    unsteady     share of what is said that takes up to 300 ms longer
    connections  those that some side still has
    """

    def __init__(self, clock: VirtualClock, chance: random.Random) -> None:
        self.clock = clock
        self.blocked: set[tuple[str, str]] = set()
        self.waiting: list[Pipe] = []
        self.slow: dict[str, int] = {}
        self.far: dict[tuple[str, str], int] = {}
        self.unsteady = 0.0
        self.connections: list[Connection] = []
        self._chance = chance
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._machines: dict[str, Host] = {}

    def add(self, machine: Host) -> None:
        """Add a machine."""
        self._machines[machine.host] = machine

    def delay_ns(self, origin: str, to: str) -> int:
        """How long something takes."""
        own = self._chance.randrange(100_000, 1_000_000)
        if self.unsteady and self._chance.random() < self.unsteady:
            own += self._chance.randrange(300) * MILLISECOND_NS
        if self.slow:
            own += (self.slow.get(origin, 0) + self.slow.get(to, 0)) * MILLISECOND_NS
        return own + self.far.get((origin, to), 0) * MILLISECOND_NS

    def listen(self, listener: Listener) -> None:
        """A process opens a port."""
        self._listeners[listener.machine.host, listener.port] = listener

    def close(self, machine: Host, port: int) -> None:
        """A process closes a port, and ends its connections."""
        self._listeners.pop((machine.host, port), None)
        for each in self.connections:
            if each.server is machine and each.port == port:
                each.abort()

    def ended(self, machine: Host, said: bool) -> None:
        """The process of a machine is gone. `said`: the machine has power, and ends its connections."""
        self._listeners = {key: each for key, each in self._listeners.items() if each.machine is not machine}
        for each in self.connections:
            if each.touches(machine.host):
                each.died(machine, said)
        self.connections = [each for each in self.connections if not each.over]

    def heal(self) -> None:
        """Everything passes again."""
        self.blocked.clear()
        self.slow.clear()
        self.far.clear()
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each.move()

    def reset(self, host: str, share: float, peer: str = "") -> None:
        """Break connections of a machine. `peer`: those to this one alone."""
        self.connections = [each for each in self.connections if not each.over]
        for each in self.connections:
            if each.touches(host) and (not peer or each.touches(peer)) and self._chance.random() < share:
                each.reset(self._chance)

    def dialer(self, machine: Host, connect_ns: int = CONNECT_NS) -> NetDialer:
        """What the present process of a machine connects with."""
        return NetDialer(self, machine, connect_ns)

    def connect(self, client: Host, host: str, port: int, user: WireUser, wire: ClientWire, connect_ns: int) -> None:
        """A first packet arrives, or does not."""
        clock, machine = client.clock, self._machines.get(host)

        def refused(reason: str) -> None:
            if not wire.closed:
                user.ended(reason)

        if machine is None or not machine.powered or {(client.host, host), (host, client.host)} & self.blocked:
            clock.call_at(clock.monotonic_ns() + connect_ns, lambda: refused("nobody answers"))
            return
        listener = self._listeners.get((host, port))
        if listener is None:
            clock.call_soon(lambda: refused("connection refused"))
            return
        wire.made = Connection(self, client, listener, user)
        clock.call_soon(lambda: None if wire.closed else user.opened())


class NetDialer:
    """`gateway.link.wire.Dialer` of one life of a process."""

    def __init__(self, net: Network, machine: Host, connect_ns: int) -> None:
        self._net = net
        self._machine = machine
        self._connect_ns = connect_ns
        self._clock = machine.clock

    def dial(self, host: str, port: int, user: WireUser, on_full: Callable[[bool], None] | None = None) -> ClientWire:
        """Dialer.dial."""
        wire = ClientWire()

        def arrive() -> None:
            if not wire.closed and self._clock.alive:
                self._net.connect(self._machine, host, port, user, wire, self._connect_ns)

        delay_ns = 2 * self._net.delay_ns(self._machine.host, host)
        self._clock.call_at(self._clock.monotonic_ns() + delay_ns, arrive)
        return wire
