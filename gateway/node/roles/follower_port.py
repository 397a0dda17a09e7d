"""The port at which a replica serves readers: it is open while the replica follows, and else the kernel refuses connections."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import final

from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.node.client_side import ClientSide
from gateway.node.roles.role_names import READERS
from gateway.runtime.startup_ports import admit, refuse
from gateway.runtime.stream import StreamListener

log = logging.getLogger("headgate.replica")

MakeContext = Callable[[ClientSide], ConnectionContext]
MakePumps = Callable[[ClientSide, ConnectionContext], Callable[[], Pump]]


@final
class FollowerPort:
    """Serves one side after the other at a bound socket."""

    def __init__(self, bound: socket.socket, context: MakeContext, pumps: MakePumps) -> None:
        self._bound = bound
        self._make_context = context
        self._make_pumps = pumps
        self._listener: StreamListener | None = None
        self._context: ConnectionContext | None = None
        self._opening: asyncio.Task[None] | None = None

    def serve(self, side: ClientSide | None) -> None:
        """End all connections; then accept such that `side` serves. None: accept no more."""
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._listener is not None:
            refuse(self._bound)
            self._listener.close()
            self._listener = None
        if self._context is not None:
            for pump in list(self._context.pumps):
                pump.close()
            self._context = None
        if side is None:
            return
        admit(self._bound)
        context = self._context = self._make_context(side)
        listener = self._listener = StreamListener(READERS, self._bound.dup())
        self._opening = asyncio.get_running_loop().create_task(self._open(listener, self._make_pumps(side, context)))

    async def _open(self, listener: StreamListener, make: Callable[[], Pump]) -> None:
        try:
            await listener.open(make)
        except OSError as error:
            log.warning("readers cannot be served: %s", error)

    def close(self) -> None:
        """Serve nobody any more, and free the port."""
        self.serve(None)
        self._bound.close()
