"""Connections by which this node registers at name servers: one for each, with reconnects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import ConfigError
from domain.ports import Clock, Entropy, Timer
from gateway.link.backoff import Backoff
from gateway.link.request import Sign
from gateway.link.stream import Stream
from gateway.link.wire import Dialer
from protocols.remoting.nameserver.registrar import Registrar

PAUSE_MS: Final = 500
"""Pause before the first attempt to connect again, on average; it doubles up to PAUSE_MAX_MS."""
PAUSE_MAX_MS: Final = 10_000
LEAVE_S: Final = 1.0
"""Seconds that all name servers together have to take note that the node stops."""

log = logging.getLogger("headgate.registration")


@final
class NameserverConnection:
    """Keeps this node registered at one name server. Writes one line to the log when that begins, and one when it ends."""

    def __init__(
        self, host: str, port: int, registrar: Registrar, sign: Callable[[], Sign | None], dialer: Dialer, clock: Clock,
        entropy: Entropy,
    ) -> None:  # fmt: skip
        """`sign`: reads the key for a connection; raises ConfigError."""
        self.registrar = registrar
        self._sign = sign
        self._clock = clock
        self._stream = Stream([(host, port)], dialer, clock, Backoff(PAUSE_MS, PAUSE_MAX_MS, entropy), self)
        self._logged: bool | None = None
        self._timer: Timer | None = None
        self._marked = False

    def start(self) -> None:
        """Register, and stay registered until `close`."""
        self._stream.connect()

    def topics_changed(self) -> None:
        """Topics were made, changed or deleted: all changes of this turn of the loop are one request in the next one."""
        if not self._marked and self._stream.open:
            self._marked = True
            self._clock.call_at(self._clock.monotonic_ns(), self._send_changes)

    def _send_changes(self) -> None:
        self._marked = False
        if self._stream.open:
            self.registrar.topics_changed(self._clock.monotonic_ns())
            self._carry()

    def leave(self) -> None:
        """Unregister, since the node stops; `registrar.left` becomes True when the name server has confirmed that."""
        self.registrar.leave(self._clock.monotonic_ns())
        self._carry()

    def close(self) -> None:
        """Close the connection, and make no other one."""
        self._stream.close()
        self._stop_timer()

    def opened(self) -> None:
        """WireUser.opened."""
        try:
            self.registrar.sign = self._sign()
        except ConfigError as error:
            self._stream.end(str(error))
            return
        self.registrar.connected(self._clock.monotonic_ns())
        self._carry()

    def received(self, data: bytes) -> None:
        """WireUser.received."""
        self.registrar.receive(data, self._clock.monotonic_ns())
        self._carry()

    def ended(self, reason: str) -> None:
        """WireUser.ended."""
        self._stop_timer()
        self.registrar.lost()
        self._log(False, reason)
        self._stream.retry()

    def _carry(self) -> None:
        """Send the requests of the registrar, and set a timer for its deadline."""
        stream, registrar = self._stream, self.registrar
        if not stream.open:
            return
        if registrar.fault:
            stream.end(registrar.fault)
            return
        for data in registrar.outgoing():
            stream.write(data)
        if registrar.registered:
            stream.succeeded()
            self._log(True, "")
        self._stop_timer()
        due = registrar.deadline()
        self._timer = None if due is None else self._clock.call_at(due, self._expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        self.registrar.expire(self._clock.monotonic_ns())
        self._carry()

    def _log(self, registered: bool, reason: str) -> None:
        if registered == self._logged:
            return
        self._logged = registered
        where = self._stream.where
        if registered:
            log.info("registered at the name server %s", where)
        else:
            log.warning("not registered at the name server %s: %s. It is tried again until it succeeds", where, reason)


@final
class NodeRegistration:
    """The registration of this node at all name servers of its settings."""

    def __init__(self, connections: Sequence[NameserverConnection]) -> None:
        self._connections = connections
        self._leaving_s = float("-inf")

    def start(self) -> None:
        """Start registration at all name servers, without a wait."""
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
        """Close all connections after the answers of the name servers, LEAVE_S after `leave` at the latest."""
        loop = asyncio.get_running_loop()
        while loop.time() < self._leaving_s + LEAVE_S and not all(each.registrar.left for each in self._connections):
            await asyncio.sleep(0.005)
        for each in self._connections:
            each.close()
