"""Sockets of the relay: one for each client connection and server, made once, at need."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol, final

from gateway.runtime.outgoing.connect import connect

CONNECT_S: Final = 3.0
"""Seconds for a connection to be made, name look-up and TLS included."""


class Relayed(Protocol):
    """Who uses the connection: it also has the methods of `asyncio.Protocol` (`gateway.rocketmq.relay.uplink.Uplink`)."""

    def refused(self, reason: str) -> None:
        """No connection could be made."""


@final
class RelaySockets:
    """Makes connections: `gateway.rocketmq.relay.uplink.Dial`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: Callable[[], ssl.SSLContext | None]) -> None:
        """`tls` returns how connections use TLS, None for plain text; raises ConfigError."""
        self._loop = loop
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, address: tuple[str, int], uplink: Any) -> Callable[[], None]:
        """Connect. Returns what stops the attempt."""
        task = self._loop.create_task(self._connect(address, uplink))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return lambda: self._stop(task)

    @staticmethod
    def _stop(task: asyncio.Task[None]) -> None:
        # The user may stop the attempt in a call of the attempt itself, which then has ended by itself.
        if task is not asyncio.current_task():
            task.cancel()

    async def _connect(self, address: tuple[str, int], user: Any) -> None:
        made = await connect(lambda: user, *address, self._tls, "store.ca", CONNECT_S)
        if isinstance(made, str):
            user.refused(made)
