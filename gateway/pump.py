"""The pump: one connection between the world's bytes and the use cases.

    data_received -> Connection.receive -> commands -> Handler.handle
    Session.answer -> Connection.answer -> (end of the turn) outgoing -> one write

Its methods carry the names of `asyncio.Protocol`, so that a loop can drive it without a task a connection; a simulation
calls the same methods with a transport of its own. Everything that a connection wants (bytes out, a deadline, no more
reading, to be closed) is looked at once a turn, in `flush`, however many messages the turn carried.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast, final

from domain import limits
from domain.address import host_bytes
from domain.command import Command, Disconnected, Send
from domain.event import Event, Sent
from domain.ports import Clock, Timer
from domain.session import SendOnce
from gateway.observe.figures import Figures, Ledger
from gateway.session import Session
from gateway.transport import Handler, Opening, Transport
from protocols.adapter import Connection, Peer

LINGER_NS: Final = 2 * limits.SECOND_NS
"""How long a peer may take to hang up in its turn, once all that was queued for it has gone out."""
STALL_NS: Final = 60 * limits.SECOND_NS
"""How long a peer may leave its answers unread before it is dropped."""
HALF_CLOSED_NS: Final = (limits.WAIT_MS_MAX + 5_000) * limits.MILLISECOND_NS
"""How long a peer that has finished sending may wait for its answers."""
JOIN_BYTES_MAX: Final = 64 * 1024
"""Up to here joining pieces is cheaper than handing them to the kernel one by one."""

log = logging.getLogger("headgate.pump")


@final
class Turn:
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


@final
class PumpHouse:
    """What all pumps of a node share, and the pumps themselves in the order of their arrival.

    connections_max   stream connections open at once; one more is closed at once and counted
    hang_up           ends our side of a connection; the pump goes on reading, and drops, until the peer has ended its own
    """

    __slots__ = ("clock", "connections_max", "handler", "hang_up", "ledger", "pumps", "turn")

    def __init__(
        self,
        handler: Handler,
        clock: Clock,
        ledger: Ledger,
        connections_max: int,
        hang_up: Callable[[Any], None] | None = None,
    ) -> None:
        self.hang_up = hang_up
        self.handler = handler
        self.clock = clock
        self.ledger = ledger
        self.connections_max = connections_max
        self.turn = Turn(clock)
        self.pumps: dict[Pump, None] = {}


@final
class Pump:
    """Drives one stream connection, and is its session's shell.

    `connect` makes the connection when the socket is there. With `labels` what it makes is an `Opening`: the pump drives
    the connection that this chooses, and counts it under the label of the protocol that it finds.
    """

    __slots__ = (
        "_clock", "_connect", "_connection", "_dirty", "_ended", "_figures", "_handler", "_held", "_house", "_labels",
        "_now", "_opening", "_over", "_paused", "_stalled", "_timer", "_timer_at", "_transport", "_turn",
        "_watchdog", "session",
    )  # fmt: skip

    def __init__(
        self,
        house: PumpHouse,
        protocol: str,
        connect: Callable[[Peer, int], Connection],
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._house = house
        self._handler = house.handler
        self._clock = house.clock
        self._turn = house.turn
        self._now = house.clock.monotonic_ns
        self._figures: Figures = house.ledger.of(protocol)
        self._connect = connect
        self._labels = labels
        self._opening: Opening | None = None
        self._connection: Connection
        self._transport: Transport | None = None
        self._timer: Timer | None = None
        self._timer_at = 0
        self._watchdog: Timer | None = None
        self._dirty = False
        self._paused = False
        self._held = False
        self._stalled = False
        self._over = False
        self._ended = False
        self.session = Session(protocol, self)

    # What the loop calls

    def connection_made(self, transport: Transport) -> None:
        """The socket is there: make the connection and arm its handshake deadline."""
        now = self._now()
        host, port = transport.get_extra_info("peername", ("127.0.0.1", 0))[:2]
        local_host, local_port = transport.get_extra_info("sockname", ("127.0.0.1", 0))[:2]
        self._transport = transport
        if len(self._house.pumps) >= self._house.connections_max:
            self._over = True
            self._figures.refused("connections-max")
            transport.abort()
            return
        try:
            self._connection = self._connect(Peer(host, port, host_bytes(host, port), local_host, local_port), now)
        except Exception:  # an adapter's bug costs its own connection and nobody else anything
            self._ended = True
            self._fault("connect")
            return
        if self._labels is not None:
            self._opening = cast(Opening, self._connection)
        self._house.pumps[self] = None
        self._figures.connections_open += 1
        self._figures.connections_opened += 1
        self._mark()

    def data_received(self, data: bytes) -> None:
        """Bytes from the peer."""
        if self._over:
            return
        try:
            commands = self._connection.receive(data, self._now())
            if self._opening is not None:
                self._choose(self._opening)
        except Exception:  # as in `connection_made`
            self._fault("receive")
            return
        self._figures.bytes_in += len(data)
        for command in commands:
            self._handle(command)
        if not self._dirty:
            self._mark()

    def eof_received(self) -> bool:
        """The peer has finished sending. True: our side stays open until the connection has had its say."""
        self._ended = True
        if self._over:
            return self._dirty
        self._drive(self._connection.receive, b"")
        if not self._over:
            self._watch(HALF_CLOSED_NS)
        return True

    def connection_lost(self, exc: BaseException | None) -> None:
        """The socket is gone, by whichever side."""
        if not self._over and not self._ended:
            self._ended = True
            self._drive(self._connection.receive, b"")
        if not self._over:
            self._handle(Disconnected("reset" if exc is not None else "lost"))
        self._transport = None
        if self._house.pumps.pop(self, self) is None:
            self._figures.connections_open -= 1
        for timer in (self._timer, self._watchdog):
            if timer is not None:
                timer.cancel()
        self._timer = self._watchdog = None

    def pause_writing(self) -> None:
        """The peer reads too slowly: take nothing more from it or from its connection until it has caught up."""
        self._stalled = True
        self._set_reading(False)
        self._watch(STALL_NS)

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._stalled = False
        if self._over:
            self._watch(LINGER_NS)
            return
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        self._mark()

    # What the session calls

    def answer(self, event: Event) -> None:
        """Give `event` to the connection; its bytes are written at the end of this turn."""
        if type(event) is not Sent:
            self._figures.answered(event)
        try:
            self._connection.answer(event, self._now())
        except Exception:  # as in `connection_made`
            self._fault("answer")
            return
        if not self._dirty:
            self._mark()

    def close(self) -> None:
        """End the session, and close the socket when what is queued has been written."""
        if not self._over:
            self._handle(Disconnected("closed-by-node"))
            self._mark()

    def drain(self) -> None:
        """The node stops: the connection says so where its protocol has words for it, and ends."""
        verb = getattr(self._connection, "drain", None)
        if verb is not None and not self._over:
            self._drive(verb)
        self.close()

    def abort(self) -> None:
        """Close the socket now."""
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Take no more bytes: the node is about to stop."""
        self._held = True
        self._set_reading(False)

    # The turn

    def flush(self) -> None:
        """End of the turn: write what is queued, and do what the connection wants."""
        self._dirty = False
        transport = self._transport
        if transport is None:
            return
        connection = self._connection
        try:
            over = self._over or connection.closed
            if over or not self._stalled:
                self._write(transport, connection.outgoing())
            if not over:
                deadline = connection.deadline()
                if deadline is not None and (self._timer is None or deadline < self._timer_at):
                    self._arm(deadline)
        except Exception:  # as in `connection_made`
            self._fault("outgoing")
            return
        if over:
            self._finish(transport)
        elif connection.reading is self._paused:
            self._set_reading(connection.reading and not self._stalled and not self._held)

    def _drive(self, verb: Callable[..., Sequence[Command]], *arguments: object) -> None:
        """What happens seldom: the end of the stream, a deadline."""
        try:
            commands = verb(*arguments, self._now())
        except Exception:  # as in `connection_made`
            self._fault(verb.__name__)
            return
        for command in commands:
            self._handle(command)
        if not self._dirty:
            self._mark()

    def _handle(self, command: Command) -> None:
        if isinstance(command, (Send, SendOnce)):
            self._figures.messages_in += len(command.messages)
        elif type(command) is Disconnected:
            if self._over:
                return
            self._over = True
            self._figures.disconnected(command.reason)
        try:
            self._handler.handle(self.session, command)
            if self._over:
                self.session.end()
        except Exception:  # a use case's bug is treated like an adapter's
            self._fault("handle")

    def _choose(self, opening: Opening) -> None:
        """The opening may have found out who is speaking: drive that connection and count under its name."""
        self._connection = opening.chosen
        if opening.protocol == "" or self._labels is None:
            return
        label = self._labels[opening.protocol]
        before, after = self._figures, self._house.ledger.of(label)
        before.connections_open -= 1
        before.connections_opened -= 1
        after.connections_open += 1
        after.connections_opened += 1
        self._figures = after
        self.session.protocol = label
        self._opening = None

    def _write(self, transport: Transport, parts: Sequence[bytes]) -> None:
        count = len(parts)
        if count == 0:
            return
        if count == 1:
            self._figures.bytes_out += len(parts[0])
            transport.write(parts[0])
            return
        size = sum(map(len, parts))
        self._figures.bytes_out += size
        if size <= JOIN_BYTES_MAX:
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)

    def _finish(self, transport: Transport) -> None:
        """All is said. To close while the peer still sends would reset the connection, and take our last words with it."""
        if not self._over:
            self._handle(Disconnected("closed"))
        if self._ended or self._house.hang_up is None:
            transport.close()
        else:
            self._set_reading(True)
            self._house.hang_up(transport)
        self._watch(STALL_NS if self._stalled else LINGER_NS)

    def _mark(self) -> None:
        self._dirty = True
        self._turn.add(self)

    def _set_reading(self, reading: bool) -> None:
        if self._transport is not None and reading is self._paused:
            self._paused = not reading
            (self._transport.resume_reading if reading else self._transport.pause_reading)()

    def _arm(self, deadline: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._clock.call_at(deadline, self._due)

    def _due(self) -> None:
        """The timer went off; deadlines that moved on in the meantime are only re-armed for."""
        self._timer = None
        if self._over or self._transport is None:
            return
        deadline = self._connection.deadline()
        if deadline is None:
            return
        if deadline > self._now():
            self._arm(deadline)
            return
        self._drive(self._connection.expire)

    def _watch(self, limit_ns: int) -> None:
        """Drop the connection when it is still there after `limit_ns`."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._watchdog = None if self._transport is None else self._clock.call_at(self._now() + limit_ns, self.abort)

    def _fault(self, where: str) -> None:
        """A bug of ours: once in the log with its traceback, counted, and the connection is over."""
        log.exception("%s: %s failed; the connection is closed", self.session.protocol, where)
        self._figures.refused("adapter-fault")
        if not self._over:
            self._over = True
            self._figures.disconnected("adapter-fault")
            self.session.end()
        self.abort()
