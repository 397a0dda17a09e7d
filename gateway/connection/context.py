"""What all pumps of a node share: the turn of the loop, the limits, and the list of pumps itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

from domain.address import host_bytes
from domain.ports import Clock, Timer
from gateway.connection.handler import Handler
from gateway.connection.transport import AdmissionCheck, Transport
from gateway.observe.counters import CounterRegistry, ProtocolCounters
from protocols.adapter import Peer

JOIN_BYTES_MAX: Final = 64 * 1024
"""Up to here joining pieces is cheaper than handing them to the kernel one by one."""

OUTPUT_BYTES_MAX: Final = 64 * 1024
"""What transports have from the beginning."""


@final
class TurnFlush:
    """The pumps with something to write, each flushed once at the end of the loop's turn."""

    __slots__ = ("_call_soon", "_pumps")

    def __init__(self, clock: Clock) -> None:
        self._call_soon = clock.call_soon
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


def _nobody(_: str) -> bool:
    return False


@final
class ConnectionContext:
    """What all pumps of a node share, and the pumps themselves in the order of their arrival.

    connections_max   stream connections open at once; one more is closed at once and counted
    door              who may come in, where something limits that; None: everybody
    fronts            whose connections are somebody else's (PROXY protocol): the door is asked when it is known whose
    output_bytes_max  what may wait in front of a socket for a peer that does not read, before it is not read from either
    hang_up           ends our side of a connection; the pump goes on reading, and drops, until the peer has ended its own
    """

    __slots__ = (
        "admission_check", "clock", "connections_max", "counter_registry", "half_close", "handler", "is_proxy",
        "output_bytes_max", "pumps", "turn_flush",
    )  # fmt: skip

    def __init__(
        self,
        handler: Handler,
        clock: Clock,
        counter_registry: CounterRegistry,
        connections_max: int,
        half_close: Callable[[Any], None] | None = None,
        admission_check: AdmissionCheck | None = None,
        is_proxy: Callable[[str], bool] = _nobody,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
    ) -> None:
        self.output_bytes_max = output_bytes_max
        self.admission_check = admission_check
        self.is_proxy = is_proxy
        self.half_close = half_close
        self.handler = handler
        self.clock = clock
        self.counter_registry = counter_registry
        self.connections_max = connections_max
        self.turn_flush = TurnFlush(clock)
        self.pumps: dict[Any, None] = {}

    @property
    def full(self) -> bool:
        """There are as many connections as there may be."""
        return len(self.pumps) >= self.connections_max

    def accept(self, transport: Transport) -> Peer:
        """Who is at the other end of a new connection, whose output is bounded from now on."""
        if self.output_bytes_max != OUTPUT_BYTES_MAX:
            transport.set_write_buffer_limits(self.output_bytes_max)
        return peer_of(transport)


@final
class ConnectionAdmission:
    """One connection at the door, once it is known whose it is."""

    __slots__ = ("_context", "_host")

    def __init__(self, context: ConnectionContext) -> None:
        self._context = context
        self._host = ""

    def enter(self, host: str, now: int) -> str:
        """Why a connection from `host` may not be, "" when it may. Asked again it says the same as before."""
        admission_check = self._context.admission_check
        if admission_check is None or self._host or self._context.is_proxy(host):
            return ""
        reason = admission_check.enter(host, now)
        if reason is not None:
            return str(reason.value)
        self._host = host
        return ""

    def leave(self) -> None:
        """It is over."""
        if self._host and self._context.admission_check is not None:
            self._context.admission_check.leave(self._host)
            self._host = ""


@final
class DeadlineTimer:
    """One call at a time to come."""

    __slots__ = ("_callback", "_clock", "_timer", "when")

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._timer: Timer | None = None
        self.when = 0

    @property
    def pending(self) -> bool:
        """The time has not come yet."""
        return self._timer is not None

    def start(self, when_ns: int) -> None:
        """Go off at `when_ns`, and not when it would have before."""
        self.cancel()
        self.when = when_ns
        self._timer = self._clock.call_at(when_ns, self._due)

    def extend(self, when_ns: int) -> bool:
        """`begin`, unless that would not be later; True when it is."""
        if when_ns <= self.when:
            return False
        self.start(when_ns)
        return True

    def cancel(self) -> None:
        """Do not go off."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Never go off again: let go of who would have been called, who holds this alarm."""
        self.cancel()
        self._callback = _nothing

    def _due(self) -> None:
        self._timer = None
        self._callback()


def _nothing() -> None:
    """What a closed alarm calls."""


def peer_of(transport: Transport) -> Peer:
    """Both ends of a socket."""
    host, port = transport.get_extra_info("peername", ("127.0.0.1", 0))[:2]
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
    size = sum(map(len, parts))
    counters.bytes_out += size
    if size <= JOIN_BYTES_MAX:
        transport.write(b"".join(parts))
    else:
        transport.writelines(parts)
