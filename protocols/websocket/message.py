"""Whole messages of a WebSocket, for protocols whose messages they are (RFC 6455, section 5.4: fragments belong together)."""

from __future__ import annotations

from typing import Protocol, final, runtime_checkable

from protocols.adapter import Adapter
from protocols.host_shares import UNCOUNTED_BYTES_MAX, HostShare, HostShares


@runtime_checkable
class InMessages(Adapter, Protocol):
    """An adapter for WebSockets whose connections take and give whole messages: `receive` gets one, `outgoing` returns several.

    Optional: to others a WebSocket is a stream of bytes.
    """

    @property
    def message_bytes_max(self) -> int:
        """The most bytes that a message may have."""

    @property
    def uploads(self) -> HostShares:
        """Bounds the bytes of unfinished messages."""


@final
class WholeMessages:
    """Puts the pieces of one connection's messages together.

    fault   True: a message is too large, or there is no room for it
    """

    __slots__ = ("_bytes_max", "_parts", "_share", "_size", "fault")

    def __init__(self, adapter: InMessages, host: str) -> None:
        self._bytes_max = adapter.message_bytes_max
        self._share = HostShare(adapter.uploads, host)
        self._parts: list[bytes] = []
        self._size = 0
        self.fault = False

    def add(self, data: bytes, finished: bool) -> bytes:
        """Take a piece. Returns the message that it completes; b"" when more must come, the message is empty, or `fault`."""
        self._size += len(data)
        self.fault = self._size > self._bytes_max
        if self._size > UNCOUNTED_BYTES_MAX and not finished and not self.fault:
            self.fault = not self._share.take(self._size - self._share.held)
        if self.fault:
            return b""
        if finished and not self._parts:
            self._size = 0
            return data
        self._parts.append(data)
        if not finished:
            return b""
        whole = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        self._share.release()
        return whole
