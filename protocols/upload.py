"""Room for the incomplete packet or frame of one connection, in the bound that all protocols share for unfinished requests.

Its size stands in its first bytes, so all of it is counted when it begins: a packet that has room can be completed. A
connection without room is not read until there is some, and asks again every RETRY_NS; it has sent little of the packet then.
"""

from __future__ import annotations

from typing import Final, final

from domain.limits import MILLISECOND_NS
from protocols.host_shares import UNCOUNTED_BYTES_MAX, HostShare, HostShares

COUNTED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Most bytes that one packet counts for: a host always has room for one while others hold less than two thirds of the bound."""
RETRY_NS: Final = 100 * MILLISECOND_NS


@final
class Upload:
    """Room for the incomplete packet of one connection.

    retry_ns   when to ask again for room, monotonic ns; 0: there is room, or none is needed
    size       bytes of the packet that has room or waits for it; 0: none does
    """

    __slots__ = ("_host", "_share", "_shares", "retry_ns", "size")

    def __init__(self, shares: HostShares, host: str) -> None:
        self._shares = shares
        self._host = host
        self._share: HostShare | None = None
        self.retry_ns = 0
        self.size = 0

    def begin(self, size: int, now: int) -> bool:
        """Count an incomplete packet of `size` bytes in all, 0 for none. False: there is no room, and `retry_ns` is set."""
        if size <= UNCOUNTED_BYTES_MAX:
            self.end()
            return True
        self.size = size
        waited = self.retry_ns > 0
        self.retry_ns = 0
        share = self._share
        if share is None:
            share = self._share = HostShare(self._shares, self._host)
        more = min(size, COUNTED_BYTES_MAX) - share.held
        if more <= 0:
            share.give(-more)
        elif (waited and share.room < more) or not share.take(more):  # who asks again is not counted as refused again
            self.retry_ns = now + RETRY_NS
            return False
        return True

    def end(self) -> None:
        """Count nothing any more: the packet is complete, or the connection ends."""
        self.size = self.retry_ns = 0
        self._share = None
