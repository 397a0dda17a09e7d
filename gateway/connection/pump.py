"""The pump: drives one stream connection between a socket and the use cases.

    data_received -> Connection.receive -> commands -> Handler.handle
    ClientConnection.answer -> Connection.answer -> (end of the turn) outgoing -> one write

The pump has the methods of `asyncio.Protocol` and `asyncio.BufferedProtocol`, so that the loop calls it without a task for each
connection; a simulation calls the same methods with its own transport. Bytes are handled in slices (`intake`). What the
connection asks for (output, a deadline, backpressure, close) is read once for each turn of the loop, in `flush`, however many
messages the turn carried.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import cast, final

from domain import limits
from domain.address import network_of_host
from domain.command import Command, Disconnected, Send
from domain.delivery.routed import ConfirmDeliveries
from domain.errors import Failure
from domain.event import Event, Refused, Sent
from domain.mqtt_session import AccessRevoked, ReadingResumed, SendOnce
from domain.principal import GATEWAY
from domain.refusal import Ending
from gateway.connection.client_connection import ClientConnection
from gateway.connection.client_socket import HALF_CLOSED_NS, ClientSocket
from gateway.connection.context import ConnectionAdmission, ConnectionContext, DeadlineTimer, write
from gateway.connection.intake import ENDING_NS, MESSAGE_NS
from gateway.connection.transport import Recognition, Transport
from gateway.connection.unread_bytes import UnreadBytes
from gateway.observe.counters import ProtocolCounters
from protocols.adapter import Connection, Peer

log = logging.getLogger("headgate.pump")


@final
class Pump:
    """Drives one stream connection: `connect` makes it when the socket is there.

    With `labels` it makes a `Recognition`, whose chosen connection is driven, and counted under the label of its protocol.

    _end_waits   the end of the stream has come, and waits behind unread bytes
    _lost        the socket is closed, and so is this connection when they have been handled
    _reset       it was closed by an error
    """

    __slots__ = (
        "_admission", "_connect", "_connection", "_context", "_counters", "_deadline_timer", "_dirty", "_end_waits",
        "_expiring", "_finished", "_input_stopped", "_intake", "_labels", "_lost", "_now", "_queued",
        "_recognition", "_refused", "_reset", "_socket", "_throttle_timer", "_turn_flush", "_unread", "client", "host", "sends",
    )  # fmt: skip

    def __init__(
        self,
        context: ConnectionContext,
        protocol: str,
        connect: Callable[[Peer, int], Connection],
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._context = context
        self._turn_flush = context.turn_flush
        self._now = context.clock.monotonic_ns
        self._counters: ProtocolCounters = context.counter_registry.of(protocol)
        self._connect = connect
        self._labels = labels
        self._recognition: Recognition | None = None
        self._connection: Connection
        self._socket = ClientSocket(context, self.overdue)
        self._deadline_timer = DeadlineTimer(context.clock, self._deadline_due)
        self._dirty = self._input_stopped = self._refused = self._finished = False
        self._intake = context.intake
        self._unread = UnreadBytes(context.intake)
        self._queued = self._expiring = self.sends = self._end_waits = self._lost = self._reset = False
        self.host = ""
        self._admission = ConnectionAdmission(context)
        self._throttle_timer = DeadlineTimer(context.clock, self._throttle_over)
        self.client = ClientConnection(protocol, self)

    # What the loop calls

    def connection_made(self, transport: Transport) -> None:
        """The socket is open: check admission, make the connection and start its handshake deadline."""
        now = self._now()
        peer = self._context.accept(transport)
        self._socket.transport = transport
        if peer is None:
            # Its bytes could be read. Nothing is done for a peer without an address: rights and shares are by address.
            self._finished = True
            self._counters.disconnected("reset")
            self.abort()
            return
        self.host = self.client.host = network_of_host(peer.host)
        if self._refuse_admission("connections-max" if self._context.full else self._admission.enter(peer.host, now)):
            return
        try:
            self._connection = self._connect(peer, now)
        except Exception:  # a bug of an adapter ends its own connection only
            self._socket.input_ended = True
            self._fault("connect")
            return
        if self._labels is not None:
            self._recognition = cast(Recognition, self._connection)
        self._context.pumps[self] = None
        self._counters.opened()
        self._schedule_flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the loop puts received bytes: one buffer for all connections, copied from in `buffer_updated`."""
        return self._context.read_buffer

    def buffer_updated(self, size: int) -> None:
        """The loop has put `size` bytes into the buffer."""
        self.data_received(self._context.received(size))

    def data_received(self, data: bytes) -> None:
        """Bytes from the peer: handled now if they are few and this turn has time, else slice by slice in later turns."""
        if self._finished:
            self._socket.discard(len(data))
            return
        if self._unread.waits:  # bytes that were on their way when reading was paused
            self._unread.add(data)
            return
        stays = (self.sends or self._intake.holds(self.host)) and not self._intake.may_send(self.host)
        if len(data) <= self._unread.slice_bytes and self._intake.open_for(self.host) and not stays:
            self._take(data)
        else:
            self._unread.add(data)
            self._socket.set_reading(False)
        if self._unread.waits:
            self._queue()

    def take_slice(self) -> bool:
        """`SlicedConnection`: do what a deadline asks for, or handle one slice of the unread bytes."""
        self._queued = False
        if self._expiring:
            self._expiring = False
            self._expire()
            self._queued = self._unread.waits and (self._lost or self._may_read())
            return self._queued
        if self._lost and self._finished:
            self._end()
            return False
        if not self._unread.waits or not (self._lost or self._may_read()):
            return False
        first = self._unread.take_first()
        if first:
            self._carry_out(first, self._now())
        else:
            self._take(self._unread.take())
        if self._unread.waits and (self._lost or not self._finished):
            self._queued = True
            return True
        if self._lost:
            self._end()
        elif self._end_waits:
            self._end_of_stream()
        return False

    def _take(self, data: bytes) -> None:
        """Handle bytes, and measure for how long."""
        self._refused = False
        began = self._now()
        try:
            commands = self._connection.receive(data, began)
            if self._recognition is not None:
                self._recognised(self._recognition)
                if self._finished:
                    return
        except Exception:  # as in `connection_made`
            self._fault("receive")
            return
        self._counters.bytes_in += len(data)
        self._unread.took(len(data), self._carry_out(commands, began))

    def _carry_out(self, commands: Sequence[Command], began: int) -> int:
        """Handle commands; the first message may have to wait. Returns the time since `began` with what comes later."""
        messages = self._counters.messages_in
        if not self.sends:
            commands = self._unread.admit(commands, self.host)
            self.sends = self._unread.sent
        for command in commands:
            self._handle(command)
        if not self._dirty and not (len(commands) == 1 and _is_alone(commands[0]) and not self._socket.paused):
            self._schedule_flush()
        full = self.client.reads_waiting > 0 or self._unread.waits
        if not self._socket.paused and not self._finished and (full or not self._connection.reading):
            self._socket.set_reading(
                False
            )  # now, not at the end of the turn: the loop may read the socket many times in one turn
        now = self._now()
        counted = len(commands) + self._counters.messages_in - messages
        took = now - began + MESSAGE_NS * counted + ENDING_NS * self._finished
        self._intake.used(took, now, self.host)
        return took

    def _queue(self) -> None:
        """Have the unread bytes handled slice by slice."""
        if not self._queued:
            self._queued = True
            self._intake.add(self)

    def _may_read(self) -> bool:
        """True when neither the protocol, the peer's reading, its rate nor the node's stop forbids reading."""
        return (
            self._connection.reading
            and not self._finished
            and not self._socket.stalled
            and self.client.reads_waiting == 0
            and not self._input_stopped
            and not self._throttle_timer.pending
        )

    def eof_received(self) -> bool:
        """The peer has finished sending. True: keep the socket open for the connection's answers."""
        self._socket.input_ended = True
        if self._finished:
            return self._dirty
        if self._unread.waits:
            self._end_waits = True
        else:
            self._end_of_stream()
        return True

    def _end_of_stream(self) -> None:
        """All that the peer has sent is handled."""
        self._end_waits = False
        if not self._finished:
            self._drive(self._connection.receive, b"")
        if not self._finished:
            self._socket.watch(HALF_CLOSED_NS)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The socket is closed, by either side. Bytes that wait for their turn keep it: they may be many messages."""
        self._reset = exc is not None
        self._socket.closed()
        self._deadline_timer.close()
        self._throttle_timer.close()
        if self._unread.waits and not self._finished and not self._input_stopped:
            self._lost = self._end_waits = True
            self._queue()
        else:
            self._end()

    def _end(self) -> None:
        """The socket is closed, and all that came from it is handled."""
        self._unread.clear()
        if not self._finished and (self._end_waits or not self._socket.input_ended):
            self._drive(self._connection.receive, b"")
        if not self._finished:
            self._handle(Disconnected("reset" if self._reset else "lost"))
        self._socket.input_ended = True
        if self._context.pumps.pop(self, self) is None:
            self._counters.connections_open -= 1
        self._admission.leave()

    def pause_writing(self) -> None:
        """The write buffer is full: read nothing from the peer, and write nothing, until it has read."""
        self.client.became_stalled()
        self._socket.stall(self.host)

    def resume_writing(self) -> None:
        """The write buffer has room again."""
        self._socket.resume(self._finished)
        self.client.became_writable()
        if not self._finished:
            self._schedule_flush()

    # ConnectionDriver

    def answer(self, event: Event) -> None:
        """Give `event` to the protocol; its bytes are written at the end of this turn."""
        if type(event) is not Sent:
            self._counters.answered(event)
            self._refused = type(event) is Refused
        try:
            self._connection.answer(event, self._now())
        except Exception:  # as in `connection_made`
            self._fault("answer")
            return
        if not self._dirty:
            self._schedule_flush()

    def close(self) -> None:
        """End the connection; the socket is closed when the queued bytes have been written."""
        self._disconnect("closed-by-node")

    def drain(self) -> bool:
        """Notify the client of the stop of the node, if the protocol can. True: the connection ends with its last answer."""
        verb = getattr(self._connection, "drain", None)
        if verb is None or self._finished or not getattr(self._connection, "drains", True):
            return self._finished
        self._drive(verb)
        if not self._finished and not self._connection.closed:
            # Large answers need the peer's window updates.
            self._input_stopped = False
            self._socket.set_reading(self._connection.reading and not self._socket.stalled)
        return True

    def revoke_access(self, failure: Failure) -> None:
        """Notify the client, if the protocol can, that its principal has lost access, and end the connection."""
        if not self._finished:
            self.answer(AccessRevoked(failure))
            self._disconnect(Ending.REVOKED.value)

    def throttle(self, until_ns: int) -> None:
        """Pause reading until monotonic `until_ns`. Commands that are read already are carried out."""
        if not self._finished and self._throttle_timer.extend(until_ns):
            self._socket.set_reading(False)

    def abort(self) -> None:
        """Close the socket at once."""
        self._socket.abort()

    def pause(self) -> None:
        """Stop reading: the node is about to stop."""
        self._input_stopped = True
        self._socket.set_reading(False)

    # The turn

    def flush(self) -> None:
        """End of the turn: write the output, set the deadline timer, apply backpressure, close if the connection asks."""
        self._dirty = False
        socket = self._socket
        transport = socket.transport
        if transport is None:
            return
        connection = self._connection
        try:
            finished = self._finished or connection.closed
            if finished or not socket.stalled:
                write(transport, connection.outgoing(), self._counters)
            if not finished:
                deadline = connection.deadline()
                if deadline is not None and (not self._deadline_timer.pending or deadline < self._deadline_timer.when):
                    self._deadline_timer.start(deadline)
        except Exception:  # as in `connection_made`
            self._fault("outgoing")
            return
        if finished:
            if not self._finished:
                self._handle(Disconnected("closed"))
            socket.finish()
        elif connection.reading is socket.paused:
            reading = self._may_read()
            if self._unread.waits:
                if reading:
                    self._queue()
            else:
                self._socket.set_reading(reading)

    def _disconnect(self, reason: str) -> None:
        if not self._finished:
            self._handle(Disconnected(reason))
            self._schedule_flush()

    def _drive(self, verb: Callable[..., Sequence[Command]], *arguments: object) -> None:
        """Call a rare method of the connection: end of the stream, deadline, drain."""
        began = self._now()
        try:
            commands = verb(*arguments, began)
        except Exception:  # as in `connection_made`
            self._fault(verb.__name__)
            return
        self._carry_out(commands, began)

    def _handle(self, command: Command) -> None:
        if self._admission.unknown is not None and (self.client.known_elsewhere or _is_authenticated(command)):
            self._admission.unknown = None
        if isinstance(command, (Send, SendOnce)):
            self._counters.messages_in += len(command.messages)
        elif type(command) is Disconnected:
            if self._finished:
                return
            self._finished = True
            self._counters.disconnected(command.reason, self._refused)
        try:
            self._context.handler.handle(self.client, command)
            if self._finished:
                self.client.end()
        except Exception:  # a bug of a use case ends the connection, like one of an adapter
            self._fault("handle")

    def _refuse_admission(self, reason: str) -> bool:
        """Abort the connection without an answer when `reason` is not "": a refused connection costs as little as possible."""
        if reason:
            self._finished = True
            self._counters.refused(reason)
            self.abort()
        return self._finished

    def _recognised(self, recognition: Recognition) -> None:
        """If the protocol is known by now, drive its connection and count under its label."""
        self._connection = recognition.chosen
        if recognition.protocol == "" or self._labels is None:
            return
        if self._refuse_admission(self._admission.enter(recognition.peer.host, self._now())):
            return
        self.host = self.client.host = network_of_host(recognition.peer.host)
        label = self.client.protocol = self._labels[recognition.protocol]
        self._counters = self._context.counter_registry.move_connection(self._counters, label)
        self._recognition = None

    def _schedule_flush(self) -> None:
        self._dirty = True
        self._turn_flush.add(self)

    def _throttle_over(self) -> None:
        if not self._finished:
            self.answer(ReadingResumed())

    def _deadline_due(self) -> None:
        """The deadline timer has fired: do what is due now if this turn has time, else in a later turn."""
        if self._finished:
            return
        intake = self._intake
        sends = self.sends and self._connection.deadline() == 0
        if intake.open_for(self.host) and not (sends and not intake.may_send(self.host)):
            self._expire()
        else:
            self._expiring = True
        if self._expiring or self._unread.waits:
            self._queue()

    def _expire(self) -> None:
        """Expire the connection, or set the timer again if the deadline has moved. Counts as work of this turn."""
        if self._finished or self._socket.transport is None:
            return
        if self._throttle_timer.pending or self._unread.waits:
            self.answer(ReadingResumed())
        deadline = self._connection.deadline()
        if deadline is None:
            return
        began = self._now()
        if deadline > began:
            self._deadline_timer.start(deadline)
            return
        if self._unread.waits and self._may_read():
            # What has arrived waits for its turn: that it is not complete yet is not the peer's fault.
            self._deadline_timer.start(began + limits.SECOND_NS)
            return
        self._drive(self._connection.expire)

    def overdue(self) -> None:
        """Close the connection at once: the peer has not read, or not closed its side, in time."""
        if self._socket.stalled:
            self._disconnect(Ending.SLOW_READER.value)
        self.abort()

    def _fault(self, where: str) -> None:
        """A bug in the gateway: log its traceback, count it, and abort the connection."""
        log.exception("%s: %s failed; the connection is closed", self.client.protocol, where)
        self._counters.refused("adapter-fault")
        if not self._finished:
            self._finished = True
            self._counters.disconnected("adapter-fault", True)
            self.client.end()
        self.abort()


def _is_alone(command: Command) -> bool:
    """True for acknowledgements that leave the connection as it was: it needs no flush."""
    return isinstance(command, ConfirmDeliveries) and command.alone


def _is_authenticated(command: Command) -> bool:
    """True for a command that somebody is known to have sent."""
    principal = getattr(command, "principal", None)
    return principal is not None and principal is not GATEWAY
