"""The shares of hosts in a bound: bytes that peers make the node hold, counted over all their connections.

A node has two such bounds (`protocols/setting.py`): for requests that are not complete yet, and for answers that their
clients have not read yet.
"""

from __future__ import annotations

from typing import Final, final

from domain.address import network_of_host

SHARED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of unread answers of all protocols together."""
REQUESTS_BYTES_MAX: Final = 48 * 1024 * 1024
"""Bytes of incomplete requests by HTTP/1.1 and HTTP/2 together: what one host may hold, half of it, costs the process up to
twice as much while it is put together."""
UNCOUNTED_BYTES_MAX: Final = 64 * 1024
"""Bytes of one connection up to which a protocol need not count its answers: nearly all connections stay below."""


@final
class HostShares:
    """One bound, and the bytes that each host holds of it. A host is the network of an address (`network_of_host`).

    A host may hold as many bytes as are still free (a dynamic threshold, Choudhury and Hahne 1998): one host gets at most half
    of the bound, and there is always room for another one.

    bytes_held   bytes of all hosts; above `bytes_max` only by `add`
    refused      calls of `take` that found no room; `headgate_uploads_refused_total` shows those of requests
    """

    def __init__(self, bytes_max: int = SHARED_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._hosts: dict[str, int] = {}
        self.bytes_held = 0
        self.refused = 0

    def take(self, host: str, size: int) -> bool:
        """Count `size` more bytes of `host`. False: there is no room for them, and they are not counted."""
        held = self._hosts.get(host, 0) + size
        if held > self.bytes_max - self.bytes_held - size:
            self.refused += 1
            return False
        self._hosts[host] = held
        self.bytes_held += size
        return True

    @property
    def over(self) -> bool:
        """True when `add` has counted more than the bound."""
        return self.bytes_held > self.bytes_max

    def heaviest(self) -> str:
        """The host that holds most; "": nobody holds anything."""
        return max(self._hosts, key=lambda host: self._hosts[host], default="")

    def add(self, host: str, size: int) -> None:
        """Count `size` more bytes of `host` that exist already, whether there is room or not."""
        self._hosts[host] = self._hosts.get(host, 0) + size
        self.bytes_held += size

    def room(self, host: str) -> int:
        """Bytes that `host` may still take at once. Negative after `add` without room."""
        return (self.bytes_max - self.bytes_held - self._hosts.get(host, 0)) // 2

    def give(self, host: str, size: int) -> None:
        """Return `size` bytes that `host` holds. KeyError: it holds none."""
        self.bytes_held -= size
        held = self._hosts[host] - size
        if held:
            self._hosts[host] = held
        else:
            del self._hosts[host]


@final
class HostShare:
    """A part of a host's share, held by one connection or call. It is returned when this object is freed, at the latest.

    held   bytes
    """

    __slots__ = ("_host", "_shares", "held")

    def __init__(self, shares: HostShares, host: str) -> None:
        self._shares = shares
        self._host = network_of_host(host)
        self.held = 0

    def take(self, size: int) -> bool:
        """Hold `size` more bytes. False: there is no room for them."""
        if not self._shares.take(self._host, size):
            return False
        self.held += size
        return True

    def hold(self, size: int) -> None:
        """Hold `size` bytes in all, that exist already, whether there is room or not."""
        if size > self.held:
            self._shares.add(self._host, size - self.held)
            self.held = size
        elif size < self.held:
            self.give(self.held - size)

    @property
    def room(self) -> int:
        """Bytes that can still be taken at once."""
        return self._shares.room(self._host)

    def give(self, size: int) -> None:
        """Return `size` bytes."""
        if size:
            self._shares.give(self._host, size)
            self.held -= size

    def release(self) -> None:
        """Return all bytes."""
        self.give(self.held)

    def __del__(self) -> None:
        self.release()
