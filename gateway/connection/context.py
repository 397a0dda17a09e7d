"""Context that all connections of a node share: the flush at the end of a turn, limits, counters and the list of pumps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, Final, final

from domain import limits
from domain.address import host_bytes
from domain.ports import Clock, Timer
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.handler import Handler
from gateway.connection.intake import SLICE_BYTES_MAX, PumpIntake
from gateway.connection.transport import Transport
from gateway.observe.counters import CounterRegistry, ProtocolCounters
from protocols.adapter import Peer
from protocols.host_shares import HostShares

LINGER_NS: Final = limits.SECOND_NS
"""Time for a peer to close its side after all queued bytes have been written."""

JOIN_BYTES_MAX: Final = 64 * 1024
"""Up to this size, copying pieces into one buffer is cheaper than handing each to the kernel."""

READ_BYTES: Final = SLICE_BYTES_MAX
"""Bytes that the loop reads at once from one socket."""

OUTPUT_BYTES_MAX: Final = 64 * 1024
"""Default of `asyncio.Transport` for its write buffer."""


@final
class TurnFlush:
    """The pumps with something to write, each flushed once at the end of the loop's turn.

    _unread    bytes that peers have not read
    _relieve   called behind a turn after which they exceed their bound
    """

    __slots__ = ("_call_soon", "_pumps", "_relieve", "_unread")

    def __init__(self, clock: Clock, unread: HostShares, relieve: Callable[[], None]) -> None:
        self._call_soon = clock.call_soon
        self._unread = unread
        self._relieve = relieve
        self._pumps: list[Any] = []

    def add(self, pump: Any) -> None:
        """Flush `pump` (anything with a `flush`) at the end of this turn."""
        if not self._pumps:
            self._call_soon(self.flush)
        self._pumps.append(pump)

    def flush(self) -> None:
        """Flush all, in the order in which they were added."""
        pumps, self._pumps = self._pumps, []
        for pump in pumps:
            pump.flush()
        if self._unread.over:
            self._relieve()


@final
class Lingering:
    """The sockets to which the last bytes were written, and whose peers have not closed yet. All have the same time for that.

    One timer for all of them: each connection that ends would need one otherwise, nearly always for nothing.

    _sockets   socket -> monotonic time in nanoseconds at which it is closed, in this order
    """

    __slots__ = ("_clock", "_sockets", "_waits")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sockets: dict[Any, int] = {}
        self._waits = False

    def start(self, socket: Any, now_ns: int) -> None:
        """Call `overdue` of `socket` LINGER_NS after `now_ns`. An earlier call of `start` for it counts no more."""
        self._sockets.pop(socket, None)
        self._sockets[socket] = now_ns + LINGER_NS
        if not self._waits:
            self._waits = True
            self._clock.call_at(now_ns + LINGER_NS, self._due)

    def remove(self, socket: Any) -> None:
        """`socket` is closed. Does nothing when it does not linger."""
        self._sockets.pop(socket, None)

    def _due(self) -> None:
        self._waits = False
        now = self._clock.monotonic_ns()
        late = []
        for socket, when_ns in self._sockets.items():
            if when_ns > now:
                self._waits = True
                self._clock.call_at(when_ns, self._due)
                break
            late.append(socket)
        for socket in late:
            del self._sockets[socket]
        for socket in late:
            socket.overdue()


def _nothing_waits() -> int:
    return 0


@final
class ConnectionContext:
    """Context that all pumps of a node share.

    limits            limits of the stream connections that are open at once
    output_bytes_max  bytes that may wait for a peer that does not read, before the node stops reading from it
    end_socket        ends a socket so that the peer gets what is written. True: the peer has finished sending; until it has,
                      the pump discards what it reads. None: closes the socket
    turn_flush        flushes pumps at the end of a turn
    intake            shares the turns between pumps with received bytes
    unread            bounds the bytes that peers have not read, of all connections together
    read_buffer       where the loop puts received bytes, for all pumps
    lingering         closes sockets whose peers do not, in time
    pumps             the pumps of open connections, oldest first
    _received         the file over `read_buffer`: it copies bytes at a third of what a slice of the buffer costs
    """

    __slots__ = (
        "_received", "clock", "counter_registry", "end_socket", "handler", "intake", "limits", "lingering", "output_bytes_max",
        "pumps", "read_buffer", "turn_flush", "unread",
    )  # fmt: skip

    def __init__(
        self,
        handler: Handler,
        clock: Clock,
        counter_registry: CounterRegistry,
        limits: ConnectionLimits,
        end_socket: Callable[[Any, bool], None] | None = None,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
        unfinished_bytes: Callable[[], int] = _nothing_waits,
        unread: HostShares | None = None,
    ) -> None:
        """`unfinished_bytes` is what was taken from clients and is not stored or delivered yet."""
        self.output_bytes_max = output_bytes_max
        self.limits = limits
        self.end_socket = end_socket
        self.handler = handler
        self.clock = clock
        self.counter_registry = counter_registry
        self.unread = HostShares() if unread is None else unread
        self.turn_flush = TurnFlush(clock, self.unread, self._relieve)
        self.intake = PumpIntake(clock, unfinished_bytes)
        self._received = BytesIO(bytes(READ_BYTES))
        self.read_buffer = self._received.getbuffer()
        self.lingering = Lingering(clock)
        self.pumps: dict[Any, None] = {}

    @property
    def full(self) -> bool:
        """True when `limits.connections_max` connections are open."""
        return len(self.pumps) >= self.limits.connections_max

    def received(self, size: int) -> bytes:
        """A copy of the first `size` bytes of `read_buffer`."""
        self._received.seek(0)
        return self._received.read(size)

    def _relieve(self) -> None:
        """Peers leave more unread than the node may hold: end the stalled connections of the host that leaves most."""
        host = self.unread.heaviest()
        for pump in list(self.pumps):
            if pump.host == host and pump.client.stalled:
                pump.overdue()

    def accept(self, transport: Transport) -> Peer | None:
        """Limit the output buffer of a new connection. Returns its addresses, as `peer_of`."""
        if self.output_bytes_max != OUTPUT_BYTES_MAX:
            transport.set_write_buffer_limits(self.output_bytes_max)
        return peer_of(transport)


@final
class DeadlineTimer:
    """A timer that can be set again.

    when   monotonic time in nanoseconds for which it was last set
    """

    __slots__ = ("_callback", "_clock", "_timer", "when")

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._timer: Timer | None = None
        self.when = 0

    @property
    def pending(self) -> bool:
        """True while the timer is set."""
        return self._timer is not None

    def start(self, when_ns: int) -> None:
        """Set the timer to `when_ns`, in place of an earlier setting."""
        self.cancel()
        self.when = when_ns
        self._timer = self._clock.call_at(when_ns, self._due)

    def extend(self, when_ns: int) -> bool:
        """Set the timer to `when_ns` if that is later than `when`; True when it is."""
        if when_ns <= self.when:
            return False
        self.start(when_ns)
        return True

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Stop the timer for good, and drop the callback, which refers to the owner of this timer."""
        self.cancel()
        self._callback = _nothing

    def _due(self) -> None:
        self._timer = None
        self._callback()


def _nothing() -> None:
    """The callback of a closed timer."""


def peer_of(transport: Transport) -> Peer | None:
    """The addresses of both ends of a socket. None: the peer has reset the connection, and its address is lost."""
    peer = transport.get_extra_info("peername")
    if not peer:
        return None
    host, port = peer[:2]
    local_host, local_port = transport.get_extra_info("sockname", ("127.0.0.1", 0))[:2]
    return Peer(host, port, host_bytes(host, port), local_host, local_port)


def write(transport: Transport, parts: Sequence[bytes], counters: ProtocolCounters) -> None:
    """Hand `parts` to the transport in one call, and count them."""
    count = len(parts)
    if count == 0:
        return
    if count == 1:
        counters.bytes_out += len(parts[0])
        transport.write(parts[0])
        return
    size = 0
    for part in parts:
        size += len(part)
    counters.bytes_out += size
    if size <= JOIN_BYTES_MAX:
        transport.write(b"".join(parts))
    else:
        transport.writelines(parts)
