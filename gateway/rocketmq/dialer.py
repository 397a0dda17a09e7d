"""The port by which connections to servers are made; `gateway.runtime.outgoing.dialer` implements it with sockets."""

from __future__ import annotations

from typing import Protocol


class Wire(Protocol):
    """An open connection, or one that is being made."""

    def write(self, data: bytes) -> None:
        """Send bytes. Nothing happens once the connection has ended."""

    def close(self) -> None:
        """End the connection, or stop making it. Its `WireUser` is not told."""


class WireUser(Protocol):
    """What uses one connection. Called on the loop's thread, never within `Dialer.dial`."""

    def opened(self) -> None:
        """The connection is there; bytes can be written."""

    def received(self, data: bytes) -> None:
        """Take bytes of the server. Raises BrokerAnswerError for those that cannot be read: the caller ends the connection."""

    def ended(self, reason: str) -> None:
        """There is no connection, or there is none any more. Nothing else is called after this."""


class Dialer(Protocol):
    """Makes connections."""

    def dial(self, host: str, port: int, user: WireUser) -> Wire:
        """Begin to connect. `user` is told when the connection is there, and when there is none; that takes a bounded time."""
