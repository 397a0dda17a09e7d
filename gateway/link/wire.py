"""The port by which this node connects to other servers; `gateway.link.dialer` implements it with sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from domain.errors import GatewayError


class UnreadableError(GatewayError):
    """Bytes of a server that are not of the protocol; the text says what is wrong."""


class Wire(Protocol):
    """A connection, from the first attempt to make it to its end."""

    def write(self, data: bytes) -> None:
        """Send bytes. Discards them while the connection is being made, and once it has ended."""

    def set_reading(self, reading: bool) -> None:
        """Read from the server from now on, or stop; also before the connection is there."""

    def close(self) -> None:
        """End the connection, or stop making it. No method of its `WireUser` is called after this."""


class WireUser(Protocol):
    """The receiver of what happens to one connection. Called on the loop's thread, never within `Dialer.dial`."""

    def opened(self) -> None:
        """The connection is there; bytes can be written."""

    def received(self, data: bytes) -> None:
        """Bytes of the server. A GatewayError that this raises ends the connection: `ended` gets its text."""

    def ended(self, reason: str) -> None:
        """There is no connection, or there is none any more. Nothing else is called after this."""


class Dialer(Protocol):
    """Makes connections."""

    def dial(self, host: str, port: int, user: WireUser, on_full: Callable[[bool], None] | None = None) -> Wire:
        """Begin to connect. `opened` or `ended` of `user` is called within a bounded time, unless the wire is closed before.

        on_full   True: more bytes than the dialer's bound wait for the server to read them; False: they do not any more.
                  None: the connection is ended when the bound is exceeded
        """
