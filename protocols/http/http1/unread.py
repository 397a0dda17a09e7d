"""Bytes of the responses of one connection that its client has not read: they share one bound with those of all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from protocols.host_shares import UNCOUNTED_BYTES_MAX, HostShare, HostShares


@final
class UnreadResponses:
    """Counts bytes of responses that are made and written. Up to UNCOUNTED_BYTES_MAX nothing is held of the bound.

    bytes    made and not written yet: they wait for earlier responses, or for the next write
    _share   bytes that the connection holds of the bound
    """

    def __init__(self, shares: HostShares, host: str) -> None:
        self.bytes = 0
        self._share = HostShare(shares, host)

    @property
    def room(self) -> int:
        """Bytes that a large response may have."""
        return self._share.room

    def made(self, size: int) -> None:
        """A response, or a part of one, waits for its write."""
        self.bytes += size
        if self.bytes > UNCOUNTED_BYTES_MAX:
            self._share.hold(self.bytes)

    def written(self, out: Sequence[bytes], last: bool) -> None:
        """Responses are written; `last`: no more are, and waiting ones are discarded."""
        size = len(out[0]) if len(out) == 1 else sum(map(len, out))
        self.bytes = 0 if last else self.bytes - size
        if self._share.held:
            self._share.hold(self.bytes)

    def written_part(self, part: int, out: Sequence[bytes], held: int) -> None:
        """A part of `part` bytes, the last of `out`, is written with the bytes before it; its flow holds `held` bytes."""
        waiting = self.bytes + part
        if self._share.held or held > UNCOUNTED_BYTES_MAX:
            self._share.hold(waiting + held)
        self.bytes = waiting - sum(map(len, out)) if out else waiting
