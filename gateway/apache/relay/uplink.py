"""Connection to a server that belongs to one client connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, final

from gateway.link.wire import Dialer
from protocols.remoting.relayed.frame_slice import FrameSlice, FrameSplitter
from protocols.remoting.wire.header import JSON

FULL_BYTES: Final = 256 * 1024
"""Bytes that wait for a server before its connection is full."""

Address = tuple[str, int]


class UplinkUser(Protocol):
    """Owner of an Uplink, which receives its events."""

    def received(self, uplink: Uplink, frames: list[FrameSlice]) -> None:
        """Frames have arrived from the server."""

    def lost(self, uplink: Uplink, reason: str) -> None:
        """The connection has ended or could not be opened."""

    def regulate(self) -> None:
        """`full` or `queued_bytes` has changed."""


@final
class Uplink:
    """One connection, from its first attempt to its end.

    waiting        number of a request in flight -> bytes of the request
    special        number of a request in flight -> its code, when its reply is not passed on unchanged
    queued_bytes   bytes that wait until the connection is open
    full           True: the server does not read
    where          address that it connects to, or is connected to
    serialize      encoding of the last request
    was_open       True: it was open before
    """

    __slots__ = (
        "_addresses", "_dialer", "_queue", "_reading", "_splitter", "_user", "_wire", "closed", "full", "name", "open",
        "queued_bytes", "serialize", "special", "waiting", "waiting_bytes", "was_open", "where",
    )  # fmt: skip

    def __init__(self, name: str, addresses: Sequence[Address], user: UplinkUser, dialer: Dialer, frame_bytes_max: int) -> None:
        """Start to connect to the first of `addresses` that accepts the connection."""
        self.name = name
        self.where = addresses[0]
        self.waiting: dict[int, int] = {}
        self.special: dict[int, int] = {}
        self.waiting_bytes = 0
        self.queued_bytes = 0
        self.serialize = JSON
        self.full = self.open = self.was_open = self.closed = False
        self._addresses = list(addresses[1:])
        self._user = user
        self._dialer = dialer
        self._splitter = FrameSplitter(frame_bytes_max)
        self._queue: list[bytes] = []
        self._reading = True
        self._wire = dialer.dial(*self.where, self, self._set_full)

    def asked(self, frame: FrameSlice) -> None:
        """Count a request that is sent to the server and expects a reply."""
        size = frame.end - frame.start
        self.waiting_bytes += size - self.waiting.get(frame.opaque, 0)
        self.waiting[frame.opaque] = size
        self.serialize = frame.serialize

    def answered(self, opaque: int) -> None:
        """Remove a request that the server has answered. It may be missing when a client uses one number for two requests."""
        self.waiting_bytes -= self.waiting.pop(opaque, 0)

    def write(self, data: bytes) -> None:
        """Send whole frames as soon as the connection is open."""
        if self.open:
            self._wire.write(data)
        elif not self.closed:
            self._queue.append(data)
            self.queued_bytes += len(data)

    def set_reading(self, reading: bool) -> None:
        """Start or stop reading from the server."""
        self._reading = reading
        self._wire.set_reading(reading)

    def close(self) -> None:
        """End the connection; its user is not called."""
        if not self.closed:
            self._closed()
            self._wire.close()

    def _closed(self) -> None:
        self.closed = True
        self.open = False
        self._queue.clear()

    def _set_full(self, full: bool) -> None:
        self.full = full
        self._user.regulate()

    def opened(self) -> None:
        """WireUser.opened."""
        self.open = self.was_open = True
        queue, self._queue = self._queue, []
        self.queued_bytes = 0
        if queue:
            self._wire.write(b"".join(queue))
        self._user.regulate()

    def received(self, data: bytes) -> None:
        """WireUser.received."""
        frames = self._splitter.feed(data)
        if frames:
            self._user.received(self, frames)
        if self._splitter.fault and not self.closed:
            self._wire.close()
            self._lost(f"it has sent what is no frame of this protocol ({self._splitter.fault})")

    def ended(self, reason: str) -> None:
        """WireUser.ended."""
        if self._addresses and not self.was_open:
            self.where = self._addresses.pop(0)
            self._wire = self._dialer.dial(*self.where, self, self._set_full)
            self._wire.set_reading(self._reading)
        else:
            held = self._splitter.held
            self._lost(f"{reason} within a frame, of which {held} bytes had come" if held else reason)

    def _lost(self, reason: str) -> None:
        self._closed()
        self._user.lost(self, reason)
