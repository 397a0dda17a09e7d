"""The socket of one stream connection: whether it is read, whether it takes output, and how it is closed."""

from __future__ import annotations

from typing import Final, Protocol, final

from domain import limits
from gateway.connection.context import LINGER_NS, ConnectionContext, DeadlineTimer
from gateway.connection.transport import Transport
from protocols.host_shares import HostShare

LINGER_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a peer that are discarded behind the last answer, so that it can read that; with more the socket is closed."""
STALL_NS: Final = 60 * limits.SECOND_NS
"""Time after which a connection is aborted whose peer does not read."""
HALF_CLOSED_NS: Final = (limits.WAIT_MS_MAX + 5_000) * limits.MILLISECOND_NS
"""Time for which a peer that has finished sending may wait for its answers."""


class SocketOwner(Protocol):
    """The driver of a connection, seen from its socket."""

    def overdue(self) -> None:
        """The peer has not read, or not closed its side, in time."""


@final
class ClientSocket:
    """The node's side of a socket. It notifies its owner when the peer does not read, or does not close its side, in time.

    transport     the event loop's part of it; None: not open yet, or closed
    paused        True while it is not read
    stalled       True while its write buffer is full, because the peer does not read
    input_ended   True: nothing more is read from it
    _watchdog     the time in which the peer has to read, or to close its side; None: that is not asked of it yet
    _unwritten    what a full write buffer counts of the bound for bytes that peers have not read
    _discarded    bytes that came behind the end of the connection
    """

    __slots__ = (
        "_context",
        "_discarded",
        "_owner",
        "_unwritten",
        "_watchdog",
        "input_ended",
        "paused",
        "stalled",
        "transport",
    )

    def __init__(self, context: ConnectionContext, owner: SocketOwner) -> None:
        self._context = context
        self._owner: SocketOwner | None = owner
        self._watchdog: DeadlineTimer | None = None
        self._unwritten: HostShare | None = None
        self._discarded = 0
        self.transport: Transport | None = None
        self.paused = self.stalled = self.input_ended = False

    def set_reading(self, reading: bool) -> None:
        """Read from now on, or stop. Nothing is read behind the end of the input."""
        if self.transport is not None and reading is self.paused and not (reading and self.input_ended):
            self.paused = not reading
            (self.transport.resume_reading if reading else self.transport.pause_reading)()

    def stall(self, host: str) -> None:
        """The write buffer is full: do not read, and close the socket unless the peer, at `host`, reads within STALL_NS."""
        self.stalled = True
        if self.transport is not None:
            self._unwritten = self._unwritten or HostShare(self._context.unread, host)
            self._unwritten.hold(self.transport.get_write_buffer_size())
        self.set_reading(False)
        self.watch(STALL_NS)

    def resume(self, ends: bool) -> None:
        """The write buffer has room. `ends`: the connection has, and its peer gets LINGER_NS to close its side."""
        self.stalled = False
        self._unwritten = None
        if ends:
            self.watch(LINGER_NS)
        elif self._watchdog is not None:
            self._watchdog.cancel()

    def watch(self, limit_ns: int) -> None:
        """Call `overdue` if the socket is still open after `limit_ns`, in place of an earlier limit."""
        if self.transport is None:
            return
        clock, lingering = self._context.clock, self._context.lingering
        if limit_ns == LINGER_NS:
            if self._watchdog is not None:
                self._watchdog.cancel()
            lingering.start(self, clock.monotonic_ns())
            return
        lingering.remove(self)
        if self._watchdog is None:
            self._watchdog = DeadlineTimer(clock, self.overdue)
        self._watchdog.start(clock.monotonic_ns() + limit_ns)

    def overdue(self) -> None:
        """`Lingering`: the limit of `watch` has passed."""
        if self._owner is not None:
            self._owner.overdue()

    def discard(self, size: int) -> None:
        """`size` bytes came behind the end of the connection: they are not handled, and with too many the socket is closed."""
        self._discarded += size
        if self._discarded > LINGER_BYTES_MAX:
            self.abort()

    def finish(self) -> None:
        """Close behind the last write: half-close first, since closing while the peer sends would discard unread output."""
        transport = self.transport
        if transport is None:
            return
        end_socket = self._context.end_socket
        if end_socket is None:
            transport.close()
        else:
            self.set_reading(True)
            end_socket(transport, self.input_ended)
        self.watch(STALL_NS if self.stalled else LINGER_NS)

    def abort(self) -> None:
        """Close at once; what is not written is lost."""
        if self.transport is not None:
            self.transport.abort()

    def closed(self) -> None:
        """The loop has closed the socket. Drops the owner, which refers to it."""
        self.transport = None
        self._unwritten = None
        self._context.lingering.remove(self)
        if self._watchdog is not None:
            self._watchdog.close()
        self._owner = None
