"""The pump: drives one stream connection between a socket and the use cases.

    data_received -> Connection.receive -> commands -> Handler.handle
    ClientConnection.answer -> Connection.answer -> (end of the turn) outgoing -> one write

The pump has the methods of `asyncio.Protocol` and `asyncio.BufferedProtocol`, so that the loop calls it without a task for each
connection; a simulation calls the same methods with its own transport. Bytes are handled in slices (`intake`). What the
connection asks for (output, a deadline, backpressure, close) is read once for each turn of the loop, in `flush`, however many
messages the turn carried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import final

from domain import limits
from domain.client.mqtt_session import ReadingResumed
from domain.command import Command, Disconnected
from domain.delivery.routed import ConfirmDeliveries
from gateway.connection.client_socket import HALF_CLOSED_NS
from gateway.connection.context import ConnectionContext
from gateway.connection.intake import ENDING_NS, MESSAGE_NS
from gateway.connection.stream_driver import StreamDriver
from gateway.connection.transport import Transport
from gateway.connection.unread_bytes import UnreadBytes
from protocols.adapter import Connection, Peer


@final
class Pump:
    """Drives one stream connection: `connect` makes it when the socket is there.

    With `labels` it makes a `Recognition`, whose chosen connection is driven, and counted under the label of its protocol.

    client       the client, as the use cases see it
    driver       carries out what the connection asks for
    _end_waits   the end of the stream has come, and waits behind unread bytes
    _lost        the socket is closed, and so is this connection when they have been handled, and what waits in it
    _reset       it was closed by an error
    """

    __slots__ = (
        "_context", "_end_waits", "_expiring", "_intake", "_lost", "_now", "_queued", "_reset", "_socket", "_unread",
        "client", "driver", "host", "sends",
    )  # fmt: skip

    def __init__(
        self,
        context: ConnectionContext,
        protocol: str,
        connect: Callable[[Peer, int], Connection],
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._context = context
        driver = self.driver = StreamDriver(context, protocol, connect, labels, self)
        self._socket = driver.socket
        self._now = driver.now
        self._intake = context.intake
        self._unread = UnreadBytes(context.intake)
        self._queued = self._expiring = self.sends = self._end_waits = self._lost = self._reset = False
        self.host = ""
        self.client = driver.client

    # What the loop calls

    def connection_made(self, transport: Transport) -> None:
        """The socket is open: the connection begins, if it is admitted."""
        if self.driver.open(transport):
            self._context.pumps[self] = None
        self.host = self.client.host

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the loop puts received bytes: one buffer for all connections, copied from in `buffer_updated`."""
        return self._context.read_buffer

    def buffer_updated(self, size: int) -> None:
        """The loop has put `size` bytes into the buffer."""
        self.data_received(self._context.received(size))

    def data_received(self, data: bytes) -> None:
        """Bytes from the peer: handled now if they are few and this turn has time, else slice by slice in later turns."""
        if self.driver.finished:
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
            self._queued = self._may_take()
            return self._queued
        if self._lost and self.driver.finished:
            self._end()
            return False
        if not self._may_take():
            return False
        first = self._unread.take_first()
        if first:
            self.driver.held = False
            self._carry_out(first, self._now())
        else:
            self._take(self._unread.take())
        if self._unread.waits and (self._lost or not self.driver.finished):
            self._queued = True
            return True
        if self._lost:
            self._end()
        elif self._end_waits:
            self._end_of_stream()
        return False

    def _may_take(self) -> bool:
        """True while bytes or the first message wait that may be handled. Behind its last bytes a connection reads nothing."""
        driver = self.driver
        return self._unread.waits and (self._lost or driver.may_read() or (driver.held and driver.connection.closed))

    def _take(self, data: bytes) -> None:
        """Handle bytes, and measure for how long."""
        driver = self.driver
        driver.refused = False
        began = self._now()
        try:
            commands = driver.connection.receive(data, began)
            if driver.recognition is not None:
                if not driver.recognise(driver.recognition):
                    return
                self.host = self.client.host
        except Exception:  # a bug of an adapter ends its own connection only
            driver.fault("receive")
            return
        driver.counters.bytes_in += len(data)
        self._unread.took(len(data), self._carry_out(commands, began))

    def _carry_out(self, commands: Sequence[Command], began: int) -> int:
        """Handle commands; the first message may have to wait. Returns the time since `began` with what comes later."""
        driver = self.driver
        messages = driver.counters.messages_in
        if not self.sends:
            commands = self._unread.admit(commands, self.host)
            self.sends = self._unread.sent
            driver.held = self._unread.holds_message
        for command in commands:
            driver.handle(command)
        if not driver.dirty and not (len(commands) == 1 and _is_alone(commands[0]) and not self._socket.paused):
            driver.schedule_flush()
        full = self.client.reads_waiting > 0 or self._unread.waits
        if not self._socket.paused and not driver.finished and (full or not driver.connection.reading):
            # Now, not at the end of the turn: the loop may read the socket many times in one turn.
            self._socket.set_reading(False)
        now = self._now()
        counted = len(commands) + driver.counters.messages_in - messages
        took = now - began + MESSAGE_NS * counted + ENDING_NS * driver.finished
        self._intake.used(took, now, self.host)
        return took

    def _queue(self) -> None:
        """Have the unread bytes handled slice by slice."""
        if not self._queued:
            self._queued = True
            self._intake.add(self)

    def eof_received(self) -> bool:
        """The peer has finished sending. True: keep the socket open for the connection's answers."""
        self._socket.input_ended = True
        if self.driver.finished:
            return self.driver.dirty
        if self._unread.waits:
            self._end_waits = True
        else:
            self._end_of_stream()
        return True

    def _end_of_stream(self) -> None:
        """All that the peer has sent is handled."""
        self._end_waits = False
        if not self.driver.finished:
            self._drive(self.driver.connection.receive, b"")
        if not self.driver.finished:
            self._socket.watch(HALF_CLOSED_NS)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The socket is closed, by either side. Bytes that wait for their turn keep it: they may be many messages."""
        self._reset = exc is not None
        self.driver.socket_closed()
        if self._unread.waits and not self.driver.finished and not self.driver.input_stopped:
            self._lost = self._end_waits = True
            self._queue()
        else:
            self._end()

    def _end(self) -> None:
        """The socket is closed, and all bytes that came from it are handled. What waits in the connection keeps it."""
        self._unread.clear()
        self.driver.held = False
        if not self.driver.finished and (self._end_waits or not self._socket.input_ended):
            self._end_waits, self._socket.input_ended = False, True
            self._drive(self.driver.connection.receive, b"")
        if self.driver.unhandled or self.driver.held:
            self._lost = True
            self.driver.schedule_flush()
            if self.driver.held:
                self._queue()
            return
        if not self.driver.finished:
            self.driver.handle(Disconnected("reset" if self._reset else "lost"))
        if self._context.pumps.pop(self, self) is None:
            self.driver.counters.connections_open -= 1
        self.driver.leave()

    def handled_all(self) -> None:
        """`StreamOwner`: the connection of the closed socket has handled its input."""
        if not self._unread.waits:
            self._end()

    def pause_writing(self) -> None:
        """The write buffer is full: read nothing from the peer, and write nothing, until it has read."""
        self.client.became_stalled()
        self._socket.stall(self.host)

    def resume_writing(self) -> None:
        """The write buffer has room again."""
        self._socket.resume(self.driver.finished)
        self.client.became_writable()
        if not self.driver.finished:
            self.driver.schedule_flush()

    # The end

    def drain(self) -> bool:
        """Notify the client of the stop of the node, if the protocol can. True: the connection ends with its last answer."""
        verb = getattr(self.driver.connection, "drain", None)
        if verb is None or self.driver.finished or not getattr(self.driver.connection, "drains", True):
            return self.driver.finished
        self._drive(verb)
        if not self.driver.finished and not self.driver.connection.closed:
            # Large answers need the peer's window updates.
            self.driver.input_stopped = False
            self._socket.set_reading(self.driver.connection.reading and not self._socket.stalled)
        return True

    def close(self) -> None:
        """End the connection; the socket is closed when the queued bytes have been written."""
        self.driver.close()

    def abort(self) -> None:
        """Close the socket at once."""
        self._socket.abort()

    def pause(self) -> None:
        """Stop reading: the node is about to stop."""
        self.driver.input_stopped = True
        self._socket.set_reading(False)

    # Deadlines and backpressure

    def apply_reading(self) -> None:
        """Begin to read, or stop, as the connection allows; unread bytes go first."""
        reading = self.driver.may_read()
        if not self._unread.waits:
            self._socket.set_reading(reading)
        elif reading:
            self._queue()

    def _drive(self, verb: Callable[..., Sequence[Command]], *arguments: object) -> None:
        """Call a rare method of the connection: end of the stream, deadline, drain."""
        began = self._now()
        try:
            commands = verb(*arguments, began)
        except Exception:  # as in `_take`
            self.driver.fault(verb.__name__)
            return
        self._carry_out(commands, began)

    def deadline_due(self) -> None:
        """The deadline timer has fired: do what is due now if this turn has time, else in a later turn."""
        if self.driver.finished:
            return
        intake = self._intake
        sends = self.sends and self.driver.connection.deadline() == 0
        if intake.open_for(self.host) and not (sends and not intake.may_send(self.host)):
            self._expire()
        else:
            self._expiring = True
        if self._expiring or self._unread.waits:
            self._queue()

    def _expire(self) -> None:
        """Expire the connection, or set the timer again if the deadline has moved. Counts as work of this turn."""
        if self.driver.finished:
            return
        if self.driver.throttled or self._unread.waits:
            self.driver.answer(ReadingResumed())
        deadline = self.driver.connection.deadline()
        if deadline is None:
            return
        began = self._now()
        if deadline > began:
            self.driver.deadline_timer.start(deadline)
            return
        if self._unread.waits and self.driver.may_read():
            # What has arrived waits for its turn: that it is not complete yet is not the peer's fault.
            self.driver.deadline_timer.start(began + limits.SECOND_NS)
            return
        self._drive(self.driver.connection.expire)

    def overdue(self) -> None:
        """Close the connection at once: its host leaves too much unread."""
        self.driver.overdue()


def _is_alone(command: Command) -> bool:
    """True for acknowledgements that leave the connection as it was: it needs no flush."""
    return isinstance(command, ConfirmDeliveries) and command.alone
