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
from typing import Final, cast, final

from domain import limits
from domain.command import Command, Disconnected, Send
from domain.errors import Failure
from domain.event import Event, Refused, Sent
from domain.mqtt_session import AccessRevoked, ReadingResumed, SendOnce
from domain.refusal import Ending
from gateway.connection.client_connection import ClientConnection
from gateway.connection.context import ConnectionAdmission, ConnectionContext, DeadlineTimer, write
from gateway.connection.transport import Recognition, Transport
from gateway.observe.counters import ProtocolCounters
from protocols.adapter import Connection, Peer

LINGER_NS: Final = 2 * limits.SECOND_NS
"""How long a peer may take to hang up in its turn, once all that was queued for it has gone out."""
STALL_NS: Final = 60 * limits.SECOND_NS
"""How long a peer may leave its answers unread before it is dropped."""
HALF_CLOSED_NS: Final = (limits.WAIT_MS_MAX + 5_000) * limits.MILLISECOND_NS
"""How long a peer that has finished sending may wait for its answers."""

log = logging.getLogger("headgate.pump")


@final
class Pump:
    """Drives one stream connection, and is its session's shell.

    `connect` makes the connection when the socket is there. With `labels` what it makes is an `Recognition`: the pump drives
    the connection that this chooses, and counts it under the label of the protocol that it finds.
    """

    __slots__ = (
        "_connect", "_connection", "_dirty", "_ended", "_figures", "_handler", "_held", "_house", "_labels",
        "_now", "_opening", "_over", "_paused", "_refused", "_rest", "_stalled", "_timer",
        "_transport", "_turn", "_visit", "_watchdog", "client",
    )  # fmt: skip

    def __init__(
        self,
        house: ConnectionContext,
        protocol: str,
        connect: Callable[[Peer, int], Connection],
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._house = house
        self._handler = house.handler
        self._turn = house.turn
        self._now = house.clock.monotonic_ns
        self._figures: ProtocolCounters = house.ledger.of(protocol)
        self._connect = connect
        self._labels = labels
        self._opening: Recognition | None = None
        self._connection: Connection
        self._transport: Transport | None = None
        self._timer = DeadlineTimer(house.clock, self._due)
        self._watchdog = DeadlineTimer(house.clock, self._overdue)
        self._dirty = self._paused = self._held = self._refused = self._stalled = False
        self._visit = ConnectionAdmission(house)
        self._rest = DeadlineTimer(house.clock, self._rested)
        self._over = False
        self._ended = False
        self.client = ClientConnection(protocol, self)

    # What the loop calls

    def connection_made(self, transport: Transport) -> None:
        """The socket is there: make the connection and arm its handshake deadline."""
        now = self._now()
        peer = self._house.meet(transport)
        self._transport = transport
        if self._turned_away("connections-max" if self._house.full else self._visit.enter(peer.host, now)):
            return
        try:
            self._connection = self._connect(peer, now)
        except Exception:  # an adapter's bug costs its own connection and nobody else anything
            self._ended = True
            self._fault("connect")
            return
        if self._labels is not None:
            self._opening = cast(Recognition, self._connection)
        self._house.pumps[self] = None
        self._figures.opened()
        self._mark()

    def data_received(self, data: bytes) -> None:
        """Bytes from the peer."""
        if self._over:
            return
        self._refused = False
        try:
            commands = self._connection.receive(data, self._now())
            if self._opening is not None:
                self._choose(self._opening)
                if self._over:
                    return
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
        self._visit.leave()
        for alarm in (self._timer, self._watchdog, self._rest):
            alarm.close()

    def pause_writing(self) -> None:
        """The peer reads too slowly: take nothing more from it or from its connection until it has caught up."""
        self._stalled = self.client.stalled = True
        self._set_reading(False)
        self._watch(STALL_NS)

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._stalled = False
        self.client.ease()
        if self._over:
            self._watch(LINGER_NS)
            return
        self._watchdog.end()
        self._mark()

    # What the session calls

    def answer(self, event: Event) -> None:
        """Give `event` to the connection; its bytes are written at the end of this turn."""
        if type(event) is not Sent:
            self._figures.answered(event)
            self._refused = type(event) is Refused
        try:
            self._connection.answer(event, self._now())
        except Exception:  # as in `connection_made`
            self._fault("answer")
            return
        if not self._dirty:
            self._mark()

    def close(self) -> None:
        """End the session, and close the socket when what is queued has been written."""
        self._end("closed-by-node")

    def drain(self) -> None:
        """The node stops: the connection says so where its protocol has words for it, and ends."""
        verb = getattr(self._connection, "drain", None)
        if verb is not None and not self._over:
            self._drive(verb)
        self.close()

    def expel(self, failure: Failure) -> None:
        """Access has ended: the connection says so where its protocol has words for it, and ends."""
        if not self._over:
            self.answer(AccessRevoked(failure))
            self._end(Ending.REVOKED.value)

    def rest(self, until_ns: int) -> None:
        """Read nothing more before `until_ns`. What is read already is carried out."""
        if not self._over and self._rest.prolong(until_ns):
            self._set_reading(False)

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
                write(transport, connection.outgoing(), self._figures)
            if not over:
                deadline = connection.deadline()
                if deadline is not None and (not self._timer.on or deadline < self._timer.when):
                    self._timer.begin(deadline)
        except Exception:  # as in `connection_made`
            self._fault("outgoing")
            return
        if over:
            self._finish(transport)
        elif connection.reading is self._paused:
            self._set_reading(connection.reading and not self._stalled and not self._held and not self._rest.on)

    def _end(self, reason: str) -> None:
        if not self._over:
            self._handle(Disconnected(reason))
            self._mark()

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
            self._figures.disconnected(command.reason, self._refused)
        try:
            self._handler.handle(self.client, command)
            if self._over:
                self.client.end()
        except Exception:  # a use case's bug is treated like an adapter's
            self._fault("handle")

    def _turned_away(self, reason: str) -> bool:
        """Not a word is said: whoever is not let in costs as little as possible. "" lets in."""
        if reason:
            self._over = True
            self._figures.refused(reason)
            self.abort()
        return self._over

    def _choose(self, opening: Recognition) -> None:
        """The opening may have found out who is speaking: drive that connection and count under its name."""
        self._connection = opening.chosen
        if opening.protocol == "" or self._labels is None:
            return
        if self._turned_away(self._visit.enter(opening.peer.host, self._now())):
            return
        label = self.client.protocol = self._labels[opening.protocol]
        self._figures = self._house.ledger.moved(self._figures, label)
        self._opening = None

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

    def _rested(self) -> None:
        if not self._over:
            self.answer(ReadingResumed())

    def _due(self) -> None:
        """The timer went off; deadlines that moved on in the meantime are only re-armed for."""
        if self._over or self._transport is None:
            return
        if self._rest.on:
            self.answer(ReadingResumed())
        deadline = self._connection.deadline()
        if deadline is None:
            return
        if deadline > self._now():
            self._timer.begin(deadline)
            return
        self._drive(self._connection.expire)

    def _watch(self, limit_ns: int) -> None:
        """Drop the connection when it is still there after `limit_ns`."""
        if self._transport is not None:
            self._watchdog.begin(self._now() + limit_ns)

    def _overdue(self) -> None:
        if self._stalled:
            self._end(Ending.SLOW_READER.value)
        self.abort()

    def _fault(self, where: str) -> None:
        """A bug of ours: once in the log with its traceback, counted, and the connection is over."""
        log.exception("%s: %s failed; the connection is closed", self.client.protocol, where)
        self._figures.refused("adapter-fault")
        if not self._over:
            self._over = True
            self._figures.disconnected("adapter-fault", True)
            self.client.end()
        self.abort()
