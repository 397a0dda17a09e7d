"""The network between simulated replicas: connections that delay, break, and hold what is said while two nodes are parted."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from domain.command import Command
from domain.errors import Failure
from domain.event import Event
from domain.replication.message import LogBytes
from gateway.connection.client_connection import ClientConnection
from gateway.rocketmq.dialer import WireUser
from protocols.remoting.frame import FrameDecoder
from protocols.remoting.replication import dispatch, form
from tests.store.clock import VirtualClock, VirtualTimer

if TYPE_CHECKING:
    from tests.gateway.replicas.world import SimReplica, World

MILLISECOND_NS = 1_000_000


class HeldTimer:
    """A timer of a node that may stand still."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback
        self.timer: VirtualTimer | None = None

    def cancel(self) -> None:
        """Timer.cancel."""
        self.callback = None
        if self.timer is not None:
            self.timer.cancel()


class NodeClock:
    """The clock of one life of a node: its callbacks wait while it is paused, and never run when it is dead.

    ahead_ms   how far its wall clock is before that of the others
    drift      how much faster than theirs it runs, as a share
    """

    def __init__(self, clock: VirtualClock, ahead_ms: float = 0, drift: float = 0) -> None:
        self.clock = clock
        self.ahead_ms = ahead_ms
        self.drift = drift
        self.dead = False
        self.paused = False
        self._held: list[HeldTimer] = []

    def monotonic_ns(self) -> int:
        """Clock.monotonic_ns."""
        return self.clock.monotonic_ns()

    def wall_ms(self) -> int:
        """Clock.wall_ms."""
        return int(self.clock.wall_ms() + self.ahead_ms + self.clock.monotonic_ns() * self.drift / MILLISECOND_NS)

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> HeldTimer:
        """Clock.call_at."""
        held = HeldTimer(callback)
        held.timer = self.clock.call_at(when_ns, lambda: self._run(held))
        return held

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Clock.call_soon."""
        held = HeldTimer(callback)
        self.clock.call_soon(lambda: self._run(held))

    def _run(self, held: HeldTimer) -> None:
        if self.paused:
            self._held.append(held)
        elif not self.dead and held.callback is not None:
            callback, held.callback = held.callback, None
            callback()

    def resume(self) -> None:
        """The node runs again."""
        self.paused = False
        held, self._held = self._held, []
        for each in held:
            self.clock.call_soon(lambda one=each: self._run(one))  # type: ignore[misc]


class Direction:
    """What one side of a connection says to the other, in order."""

    def __init__(self, world: World, ends: frozenset[int], to: NodeClock, take: Callable[[bytes | None], None]) -> None:
        """`take` gets bytes, and None for the end of the connection."""
        self._world = world
        self._ends = ends
        self._to = to
        self._take = take
        self._queue: deque[bytes | None] = deque()
        self._moving = False

    def say(self, data: bytes | None) -> None:
        """Say it some time later."""
        self._queue.append(data)
        if not self._moving:
            self._moving = True
            self._later()

    def _later(self) -> None:
        clock = self._world.clock
        slow_ns = self._world.slow_ms.get(self._ends, 0) * MILLISECOND_NS
        clock.call_at(clock.monotonic_ns() + self._world.delay_ns() + slow_ns, self._move)

    def _move(self) -> None:
        if self._ends in self._world.parted:
            self._later()
            return
        whole = len(self._queue) if self._ends in self._world.slow_ms else 1  # a long way is not a narrow one
        for _ in range(whole):
            data = self._queue.popleft()
            self._to.call_soon(lambda one=data: self._take(one))  # type: ignore[misc]
        self._moving = bool(self._queue)
        if self._moving:
            self._later()


class SimConnection:
    """One connection: a follower's wire, and the leader's `ClientConnection`."""

    def __init__(self, world: World, client: SimReplica, server: SimReplica, user: WireUser) -> None:
        ends = frozenset((client.number, server.number))
        self.ends = ends
        self._world = world
        self._user = user
        self._server = server
        self._server_clock = server.clock
        self._decoder = FrameDecoder()
        self.to_server = Direction(world, ends, server.clock, self._at_server)
        self.to_client = Direction(world, ends, client.clock, self._at_client)
        self._client_gone = self._server_gone = False
        self.connection = ClientConnection("remoting", self)

    # The follower's side: gateway.rocketmq.dialer.Wire

    def write(self, data: bytes) -> None:
        """Wire.write."""
        if not self._client_gone:
            self.to_server.say(data)

    def _at_client(self, data: bytes | None) -> None:
        if self._client_gone:
            return
        if data is None:
            self._client_gone = True
            self._user.ended("the connection was closed")
        else:
            self._user.received(data)

    def close_client(self) -> None:
        """Wire.close."""
        self._client_gone = True
        self.to_server.say(None)

    # The leader's side: gateway.connection.client_connection.ConnectionDriver

    def answer(self, event: Event) -> None:
        """ConnectionDriver.answer."""
        if isinstance(event, LogBytes):
            self.to_client.say(b"".join(form.bytes_parts(event, 1)))
        else:
            ticket = event.ticket  # type: ignore[attr-defined]
            self.to_client.say(ticket.render(None, ticket, event))

    def close(self) -> None:
        """ConnectionDriver.close."""
        if not self._server_gone:
            self._server_gone = True
            self.to_client.say(None)
            self.connection.end()

    def throttle(self, until_ns: int) -> None:
        """ConnectionDriver.throttle."""

    def revoke_access(self, failure: Failure) -> None:
        """ConnectionDriver.revoke_access."""

    def _at_server(self, data: bytes | None) -> None:
        if self._server_gone:
            return
        if data is None:
            self._server_gone = True
            self.connection.end()
            return
        for frame in self._decoder.feed(data):
            commands = dispatch.READERS[frame.code](None, frame)  # type: ignore[arg-type]
            for command in commands:
                assert isinstance(command, Command)
                verbs = self._server.life.verbs()
                verbs[type(command)](self.connection, command)

    def cut(self) -> None:
        """The connection breaks; both sides notice some time later."""
        self.to_client.say(None)
        self.to_server.say(None)


class ClientWire:
    """The follower's end of a connection that is being made, or is there."""

    def __init__(self) -> None:
        self.made: SimConnection | None = None
        self.closed = False

    def write(self, data: bytes) -> None:
        """Wire.write."""
        if self.made is not None:
            self.made.write(data)

    def close(self) -> None:
        """Wire.close."""
        self.closed = True
        if self.made is not None:
            self.made.close_client()


class SimDialer:
    """`gateway.rocketmq.dialer.Dialer` of one node."""

    def __init__(self, world: World, replica: SimReplica, chance: random.Random) -> None:
        self._world = world
        self._replica = replica
        self._chance = chance

    def dial(self, host: str, port: int, user: WireUser) -> ClientWire:
        """Dialer.dial."""
        wire = ClientWire()
        replica, clock, world = self._replica, self._replica.clock, self._world

        def connect() -> None:
            if wire.closed:
                return
            server = world.replicas.get(port)
            if server is None or not server.running or frozenset((server.number, replica.number)) in world.parted:
                user.ended("nobody answers")
                return
            wire.made = SimConnection(world, replica, server, user)
            world.connections.append(wire.made)
            user.opened()

        clock.call_at(clock.monotonic_ns() + world.delay_ns(), connect)
        return wire
