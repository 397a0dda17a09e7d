"""Connections to sinks: kept open for the next request, bounded in number, the oldest idle one closed first."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, cast, final

from gateway.link.sinks.sink_connection import SinkConnection
from gateway.link.sinks.sink_names import SinkNames

KEPT_S: Final = 15.0
"""An idle connection is kept so long."""
SWEEP_S: Final = 1.0


class Place(NamedTuple):
    """Destination of connections: those with the same place are interchangeable.

    tls   None: no TLS
    """

    host: str
    port: int
    tls: ssl.SSLContext | None


@final
class SinkPool:
    """At most `connections_max` connections, those that are being made included."""

    def __init__(self, names: SinkNames, connections_max: int) -> None:
        self._names = names
        self._max = connections_max
        self._idle: dict[Place, deque[SinkConnection]] = {}
        self._places: dict[SinkConnection, Place] = {}
        self._making = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    def idle(self, place: Place) -> SinkConnection | None:
        """A connection that can take a request now: the one that was used last. None: `connect`."""
        found = self._idle.get(place)
        while found:
            connection = found.pop()
            if not found:
                del self._idle[place]
            if connection.open:
                return connection
        return None

    async def connect(self, place: Place, within_s: float) -> SinkConnection:
        """A new connection, which is tried at each address in turn. Raises OSError, ssl.SSLError, TimeoutError."""
        while len(self._places) + self._making >= self._max and not self._drop_one():
            freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(freed)
            await freed
        self._making += 1
        try:
            return await self._made(place, within_s)
        finally:
            self._making -= 1
            self._free()

    async def _made(self, place: Place, within_s: float) -> SinkConnection:
        host, port, tls = place
        addresses = await self._names.addresses(host, tls is not None)
        loop = asyncio.get_running_loop()
        name = host.removesuffix(".") if tls is not None else None
        for at, address in enumerate(addresses):
            last = at == len(addresses) - 1
            try:
                async with asyncio.timeout(None if last else within_s / len(addresses)):
                    make = cast(Callable[[], asyncio.Protocol], self._new)
                    _, found = await loop.create_connection(make, address, port, ssl=tls, server_hostname=name)
                    made = cast(SinkConnection, found)
            except (OSError, TimeoutError):
                if last:
                    raise
                continue
            if self._closed:
                made.close()
                raise ConnectionAbortedError("the gateway stops")
            self._places[made] = place
            return made
        raise OSError(f"{host} has no address")

    def _new(self) -> SinkConnection:
        return SinkConnection(self._rests, self._lost)

    def _rests(self, connection: SinkConnection) -> None:
        """Keep it for the next request."""
        place = self._places.get(connection)
        if place is None:
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(place, deque()).append(connection)
        if self._waiting:
            self._free()
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_S, self._sweep)

    def _lost(self, connection: SinkConnection) -> None:
        place = self._places.pop(connection, None)
        if place is None:
            return
        found = self._idle.get(place)
        if found and connection in found:
            found.remove(connection)
            if not found:
                del self._idle[place]
        self._free()

    def _free(self) -> None:
        """Let one who waits for a connection look again."""
        while self._waiting:
            freed = self._waiting.popleft()
            if not freed.done():
                freed.set_result(None)
                return

    def _drop_one(self) -> bool:
        """Close the connection that has been idle for longest, to make room. False: none is idle."""
        oldest = min((found[0] for found in self._idle.values()), key=lambda each: each.idle_since, default=None)
        if oldest is None:
            return False
        self._forget(oldest)
        return True

    def _forget(self, connection: SinkConnection) -> None:
        self._lost(connection)
        connection.close()

    def _sweep(self) -> None:
        """Close those that have been idle for KEPT_S."""
        loop = asyncio.get_running_loop()
        before = loop.time() - KEPT_S
        for connection in [each for found in self._idle.values() for each in found if each.idle_since < before]:
            self._forget(connection)
        self._sweeper = loop.call_later(SWEEP_S, self._sweep) if self._idle else None

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._places):
            connection.close()
