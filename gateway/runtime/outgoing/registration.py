"""The connections by which this node registers itself at name servers: one for each, made again for ever."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast, final

from domain.address import endpoint_text
from domain.limits import SECOND_NS
from domain.ports import Clock, Timer
from gateway.runtime.outgoing.connect import connect

CONNECT_S: Final = 5.0
"""Seconds for a connection to be made, name look-up and TLS included."""
LEAVE_S: Final = 1.0
"""Seconds that all name servers together have to take note that the node stops."""

log = logging.getLogger("headgate.registration")


class Registrar(Protocol):
    """What is said to one name server, over one connection after the other (protocols.remoting.nameserver.registrar)."""

    registered: bool
    fault: str
    left: bool

    def connected(self, now: int) -> None:
        """A connection is open."""

    def lost(self) -> int:
        """There is no connection -> nanoseconds until the next attempt."""

    def receive(self, data: bytes, now: int) -> None:
        """Bytes of the name server."""

    def outgoing(self) -> Sequence[bytes]:
        """Frames to be written."""

    def deadline(self) -> int | None:
        """When `expire` is to be called, monotonic ns."""

    def expire(self, now: int) -> None:
        """The deadline has come."""

    def topics_changed(self, now: int) -> None:
        """Topics were made, changed or deleted."""

    def leave(self, now: int) -> None:
        """The node stops."""


@final
class NameserverSocket(asyncio.Protocol):
    """One connection to a name server.

    ended   done when the connection is closed, with the reason
    """

    def __init__(self, registrar: Registrar, clock: Clock, changed: Callable[[], None]) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._registrar = registrar
        self._clock = clock
        self._changed = changed
        self._transport: asyncio.Transport | None = None
        self._timer: Timer | None = None
        self._marked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        if self.ended.done():
            self._transport.abort()
            return
        self._registrar.connected(self._clock.monotonic_ns())
        self.carry()

    def data_received(self, data: bytes) -> None:
        """Bytes of the name server."""
        if not self.ended.done():
            self._registrar.receive(data, self._clock.monotonic_ns())
            self.carry()

    def eof_received(self) -> bool:
        """The name server has closed its side."""
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is closed."""
        self.close("it has closed the connection" if exc is None else f"the connection was lost ({exc})")

    def topics_changed(self) -> None:
        """Tell the name server in the next turn of the loop, with all that changes in this one."""
        if not self._marked:
            self._marked = True
            self._clock.call_at(self._clock.monotonic_ns(), self._tell)

    def _tell(self) -> None:
        self._marked = False
        if self._transport is not None and not self.ended.done():
            self._registrar.topics_changed(self._clock.monotonic_ns())
            self.carry()

    def carry(self) -> None:
        """Write what the registrar has to say, and wait for its deadline."""
        transport, registrar = self._transport, self._registrar
        if transport is None or self.ended.done():
            return
        if registrar.fault:
            self.close(registrar.fault)
            return
        for data in registrar.outgoing():
            transport.write(data)
        self._changed()
        if self._timer is not None:
            self._timer.cancel()
        due = registrar.deadline()
        self._timer = None if due is None else self._clock.call_at(due, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if not self.ended.done():
            self._registrar.expire(self._clock.monotonic_ns())
            self.carry()

    def close(self, reason: str) -> None:
        """Close the connection at once; later calls do nothing."""
        if self.ended.done():
            return
        self.ended.set_result(reason)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()


@final
class NameserverConnection:
    """Keeps this node registered at one name server. Writes one line to the log when that begins, and one when it ends.

    where       host:port of the name server
    registrar   what is said
    """

    def __init__(
        self, host: str, port: int, registrar: Registrar, clock: Clock, prepare: Callable[[], ssl.SSLContext | None]
    ) -> None:
        """`prepare` reads the files for a connection, and returns how it uses TLS, if it does; raises ConfigError."""
        self.where = endpoint_text(host, port)
        self.registrar = registrar
        self._host = host
        self._port = port
        self._clock = clock
        self._prepare = prepare
        self._told: bool | None = None
        self._socket: NameserverSocket | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Register, and stay registered until `close`."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def topics_changed(self) -> None:
        """Topics were made, changed or deleted."""
        if self._socket is not None:
            self._socket.topics_changed()

    def leave(self) -> None:
        """The node stops; `registrar.left` becomes True when the name server knows."""
        self.registrar.leave(self._clock.monotonic_ns())
        if self._socket is not None:
            self._socket.carry()

    async def close(self) -> None:
        """Close the connection, and make no other one."""
        if self._socket is not None:
            self._socket.close("the node stops")
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            reason = await self._once()
            pause_ns = self.registrar.lost()
            self._tell(False, reason)
            await asyncio.sleep(pause_ns / SECOND_NS)

    async def _once(self) -> str:
        """One connection, from the attempt to its end. Returns why it has ended."""
        made = await connect(self._opened, self._host, self._port, self._prepare, "registration.ca", CONNECT_S)
        try:
            return made if isinstance(made, str) else await made.ended
        finally:
            self._socket = None

    def _opened(self) -> NameserverSocket:
        self._socket = NameserverSocket(self.registrar, self._clock, self._look)
        return self._socket

    def _look(self) -> None:
        if self.registrar.registered:
            self._tell(True, "")

    def _tell(self, registered: bool, reason: str) -> None:
        if registered == self._told:
            return
        self._told = registered
        if registered:
            log.info("registered at the name server %s", self.where)
        else:
            log.warning("not registered at the name server %s: %s. It is tried again until it succeeds", self.where, reason)


@final
class NodeRegistration:
    """The registration of this node at all name servers that it is told of."""

    def __init__(self, connections: Sequence[NameserverConnection]) -> None:
        self._connections = connections
        self._leaving_s = float("-inf")

    def start(self) -> None:
        """Register everywhere; nothing waits for that."""
        for each in self._connections:
            each.start()

    def topics_changed(self) -> None:
        """Topics were made, changed or deleted."""
        for each in self._connections:
            each.topics_changed()

    def counts(self) -> tuple[int, int]:
        """(name servers, those that have this node)."""
        return len(self._connections), sum(each.registrar.registered for each in self._connections)

    def leave(self) -> None:
        """Remove this node from all name servers that have it, since it stops."""
        self._leaving_s = asyncio.get_running_loop().time()
        for each in self._connections:
            each.leave()

    async def close(self) -> None:
        """Close all connections; wait until those that were told have answered, LEAVE_S after `leave` at most."""
        loop = asyncio.get_running_loop()
        while loop.time() < self._leaving_s + LEAVE_S and not all(each.registrar.left for each in self._connections):
            await asyncio.sleep(0.005)
        for each in self._connections:
            await each.close()
