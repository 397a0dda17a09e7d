"""One connection at a time, to one server or to one of several, made again after a pause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.address import endpoint_text
from domain.ports import Clock, Timer
from gateway.link.backoff import Backoff
from gateway.link.wire import Dialer, Wire, WireUser

SERVERS_MAX: Final = 64
"""Servers of one stream, with those that others have named."""


@final
class Stream:
    """Connections that follow each other. `WireUser.ended` of its user decides whether there is another one: by `retry`.

    open             True while there is a connection
    received_bytes   bytes that the present connection has brought, or the last one
    attempts         connections that were tried
    """

    def __init__(
        self, endpoints: Sequence[tuple[str, int]], dialer: Dialer, clock: Clock, backoff: Backoff, user: WireUser
    ) -> None:
        """`endpoints`: (host, port) of each server."""
        self.open = False
        self.received_bytes = 0
        self.attempts = 0
        self._endpoints = list(endpoints)
        self._at = 0
        self._untried = len(self._endpoints)
        self._named: tuple[str, int] | None = None
        self._named_by: tuple[str, int] | None = None
        self._dialer = dialer
        self._clock = clock
        self._backoff = backoff
        self._user = user
        self._wire: Wire | None = None
        self._pause: Timer | None = None
        self._closed = False

    @property
    def where(self) -> str:
        """`host:port` of the server of the present connection, or of the next one."""
        return endpoint_text(*self._endpoints[self._at])

    @property
    def servers(self) -> int:
        """Number of servers."""
        return len(self._endpoints)

    @property
    def begun(self) -> bool:
        """True while there is a connection, or one is being made."""
        return self._wire is not None

    @property
    def failing(self) -> bool:
        """True after `retry`, until `succeeded`."""
        return self._backoff.failures > 0

    def follow(self, endpoints: Sequence[tuple[str, int]], dialer: Dialer, longest_ms: int) -> None:
        """Use these servers from now on. The present connection stays, also when its server is none of them.

        dialer       makes the next connections
        longest_ms   as in Backoff
        """
        now = self._endpoints[self._at]
        self._endpoints = list(dict.fromkeys((*endpoints, now)))
        self._at = self._endpoints.index(now)
        self._untried = len(self._endpoints)
        self._dialer = dialer
        self._backoff.longest_ms = longest_ms

    def turn_to(self, server: tuple[str, int]) -> None:
        """Connect to this server after the present one: another one has named it. It is left out when SERVERS_MAX are known."""
        if server not in self._endpoints and len(self._endpoints) < SERVERS_MAX:
            self._endpoints.append(server)
        self._named = server

    def connect(self) -> None:
        """Begin to connect. Does nothing when there is a connection, when one is being made, and after `close`."""
        if self._wire is None and not self._closed:
            self._stop_pause()
            self.received_bytes = 0
            self.attempts += 1
            host, port = self._endpoints[self._at]
            self._wire = self._dialer.dial(host, port, self)

    def retry(self, least_ms: int = 0) -> None:
        """Connect to the next server at once. When each has failed: after a pause, of `least_ms` or more on average."""
        if self._closed:
            return
        self._turn()
        self._untried -= 1
        if self._untried > 0:
            self.connect()
            return
        self._untried = len(self._endpoints)
        due_ns = self._clock.monotonic_ns() + self._backoff.next_ns(least_ms)
        self._stop_pause()
        self._pause = self._clock.call_at(due_ns, self.connect)

    def _turn(self) -> None:
        """Go to the server that the present one has named, else to the next in turn: after a server that was named, to the one
        behind that which has named it. Others may name another one."""
        named, self._named = self._named, None
        if named in self._endpoints:
            self._named_by = self._endpoints[self._at]
            self._at = self._endpoints.index(named)
            return
        by, self._named_by = self._named_by, None
        self._at = ((self._endpoints.index(by) if by in self._endpoints else self._at) + 1) % len(self._endpoints)

    def succeeded(self) -> None:
        """The server does what is expected of it: after the end of this connection the pause is the shortest."""
        self._backoff.reset()
        self._named_by = None
        self._untried = 1

    def write(self, data: bytes) -> None:
        """Send bytes. Bytes are discarded while there is no connection."""
        if self._wire is not None and self.open:
            self._wire.write(data)

    def drop(self) -> None:
        """End the connection, or stop making it. Its user is not called."""
        wire, self._wire = self._wire, None
        self.open = False
        if wire is not None:
            wire.close()

    def end(self, reason: str) -> None:
        """End the connection for a reason that its user gets in `ended`."""
        if self._wire is not None:
            self.drop()
            self._user.ended(reason)

    def close(self) -> None:
        """End the connection for good: `connect` and `retry` do nothing from now on. The user is not called."""
        self._closed = True
        self._stop_pause()
        self.drop()

    def _stop_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def opened(self) -> None:
        """WireUser.opened."""
        self.open = True
        self._user.opened()

    def received(self, data: bytes) -> None:
        """WireUser.received."""
        self.received_bytes += len(data)
        self._user.received(data)

    def ended(self, reason: str) -> None:
        """WireUser.ended."""
        self._wire = None
        self.open = False
        self._user.ended(reason)
