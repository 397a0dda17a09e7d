"""The connection to a server that belongs to one client connection. It has the methods of `asyncio.Protocol`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

from gateway.connection.transport import Transport
from protocols.remoting.relayed.frame_slice import FrameSlice, FrameSplitter
from protocols.remoting.wire.header import JSON

FULL_BYTES: Final = 256 * 1024
"""Bytes that wait for a server before the loop says that its connection is full."""

Address = tuple[str, int]


class Dial(Protocol):
    """Makes connections (`gateway.runtime.outgoing.relay_sockets`)."""

    def __call__(self, address: Address, uplink: Uplink) -> Callable[[], None]:
        """Connect; `uplink` is told what comes of it, within a bounded time and never before this returns.

        Returns what stops the attempt; it does nothing once the attempt has ended.
        """


class UplinkUser(Protocol):
    """Whose connection it is."""

    def received(self, uplink: Uplink, frames: list[FrameSlice]) -> None:
        """Frames of the server."""

    def lost(self, uplink: Uplink, reason: str) -> None:
        """The connection has ended, or there is none to be had."""

    def regulate(self) -> None:
        """`full` or `queued_bytes` has changed."""


@final
class Uplink:
    """One connection, from its first attempt to its end.

    name           of the server, for texts
    waiting        number of a request that the server has not answered -> bytes of the request
    special        number of one of these -> its code, when its reply is not passed on as it is
    waiting_bytes  sum of `waiting`
    queued_bytes   bytes that wait for the connection to be made
    full           True: the server does not read
    where          the address that it connects to, or is connected to
    serialize      encoding of the last request
    open           True: the connection is there
    was_open       True: it was there
    closed         True: it has ended
    """

    __slots__ = (
        "_addresses", "_dial", "_paused", "_queue", "_splitter", "_stop", "_transport", "_user", "closed", "full", "name",
        "open", "queued_bytes", "serialize", "special", "waiting", "waiting_bytes", "was_open", "where",
    )  # fmt: skip

    def __init__(self, name: str, addresses: Sequence[Address], user: UplinkUser, dial: Dial, frame_bytes_max: int) -> None:
        """Connects to the first of `addresses` that takes the connection."""
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
        self._dial = dial
        self._splitter = FrameSplitter(frame_bytes_max)
        self._queue: list[bytes] = []
        self._transport: Transport | None = None
        self._paused = False
        self._stop = dial(self.where, self)

    def asked(self, frame: FrameSlice) -> None:
        """A request goes to the server that it has to answer."""
        size = frame.end - frame.start
        self.waiting_bytes += size - self.waiting.get(frame.opaque, 0)
        self.waiting[frame.opaque] = size
        self.serialize = frame.serialize

    def answered(self, opaque: int) -> None:
        """The server has answered a request. It was not asked when a client numbers two requests alike."""
        self.waiting_bytes -= self.waiting.pop(opaque, 0)

    def write(self, data: bytes) -> None:
        """Send whole frames, once the connection is there."""
        if self._transport is not None:
            self._transport.write(data)
        elif not self.closed:
            self._queue.append(data)
            self.queued_bytes += len(data)

    def set_reading(self, reading: bool) -> None:
        """Read from the server from now on, or stop."""
        if self._paused is reading:
            self._paused = not reading
            if self._transport is not None:
                (self._transport.resume_reading if reading else self._transport.pause_reading)()

    def close(self) -> None:
        """End the connection; its user is not told."""
        if not self.closed:
            self.closed = True
            self.open = False
            self._stop()
            self._queue.clear()
            if self._transport is not None:
                self._transport.abort()
                self._transport = None

    def _lost(self, reason: str) -> None:
        if not self.closed:
            self.close()
            self._user.lost(self, reason)

    # What the loop calls

    def connection_made(self, transport: Transport) -> None:
        """The connection is there."""
        if self.closed:
            transport.abort()
            return
        self._transport = transport
        self.open = self.was_open = True
        transport.set_write_buffer_limits(FULL_BYTES)
        if self._paused:
            transport.pause_reading()
        queue, self._queue = self._queue, []
        self.queued_bytes = 0
        if queue:
            transport.writelines(queue)
        self._user.regulate()

    def refused(self, reason: str) -> None:
        """No connection could be made."""
        if self.closed:
            return
        if self._addresses:
            self.where = self._addresses.pop(0)
            self._stop = self._dial(self.where, self)
        else:
            self._lost(reason)

    def data_received(self, data: bytes) -> None:
        """Bytes of the server."""
        if self.closed:
            return
        frames = self._splitter.feed(data)
        if frames:
            self._user.received(self, frames)
        if self._splitter.fault:
            self._lost(f"it has sent what is no frame of this protocol ({self._splitter.fault})")

    def eof_received(self) -> bool:
        """The server has closed its side."""
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is closed."""
        self._transport = None
        within = f" within a frame, of which {self._splitter.held} bytes had come" if self._splitter.held else ""
        self._lost(f"it has closed the connection{within}" if exc is None else f"the connection was lost{within} ({exc})")

    def pause_writing(self) -> None:
        """The server does not read."""
        self.full = True
        self._user.regulate()

    def resume_writing(self) -> None:
        """The server has read."""
        self.full = False
        self._user.regulate()
