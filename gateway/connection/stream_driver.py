"""The driver of one stream connection: carries out the commands of its protocol, and writes the output at the end of a turn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol, cast, final

from domain.access.principal import GATEWAY
from domain.address import network_of_host
from domain.client.mqtt_session import AccessRevoked, ReadingResumed, SendOnce
from domain.command import Command, Disconnected, Send
from domain.errors import Failure
from domain.event import Event, Refused, Sent
from domain.refusal import Ending
from gateway.connection.client_connection import ClientConnection
from gateway.connection.client_socket import ClientSocket
from gateway.connection.connection_limits import ConnectionAdmission
from gateway.connection.context import ConnectionContext, DeadlineTimer, write
from gateway.connection.transport import Recognition, Transport
from gateway.observe.counters import ProtocolCounters
from protocols.adapter import Connection, Peer

log = logging.getLogger("headgate.pump")


class StreamOwner(Protocol):
    """The owner of the bytes of a connection, seen from its driver."""

    def apply_reading(self) -> None:
        """A turn has ended after which reading is to begin or to stop."""

    def deadline_due(self) -> None:
        """The deadline timer has fired."""

    def handled_all(self) -> None:
        """A turn has ended. The socket is closed, and no input waits in the connection any more."""


@final
class StreamDriver:
    """Drives the connection of a protocol, and ends it once.

    connection      the connection; with `labels`, one that recognises its protocol first
    socket          the node's side of the socket
    deadline_timer  set for the connection's deadline at the end of a turn
    dirty           True: the output is written at the end of this turn
    finished        True: the connection has ended, and its commands are not carried out any more
    input_stopped   True: nothing more is read, since the node is about to stop
    held            True: commands of the connection wait for their turn, behind which it may end
    _throttle_timer set while reading is paused because of the client's rate; None: it never was
    refused         True: the last answer to the bytes that are handled was a refusal
    recognition     the connection while its protocol is not known; None: it is
    _owner          handles what is read; None: the socket is closed, and all that came from it is handled
    """

    __slots__ = (
        "_admission", "_connect", "_context", "_labels", "_owner", "_throttle_timer", "_turn_flush", "client",
        "connection", "counters", "deadline_timer", "dirty", "finished", "held", "input_stopped", "now", "recognition",
        "refused", "socket",
    )  # fmt: skip

    def __init__(
        self,
        context: ConnectionContext,
        protocol: str,
        connect: Callable[[Peer, int], Connection],
        labels: Mapping[str, str] | None,
        owner: StreamOwner,
    ) -> None:
        """`labels`: protocol -> label, of a connection that recognises its protocol; None: the protocol is known."""
        self._context = context
        self._turn_flush = context.turn_flush
        self.now = context.clock.monotonic_ns
        self._connect = connect
        self._labels = labels
        self._owner: StreamOwner | None = owner
        self.connection: Connection
        self.recognition: Recognition | None = None
        self.counters: ProtocolCounters = context.counter_registry.of(protocol)
        self.socket = ClientSocket(context, self)
        self.deadline_timer = DeadlineTimer(context.clock, owner.deadline_due)
        self._throttle_timer: DeadlineTimer | None = None
        self._admission = ConnectionAdmission(context.limits)
        self.dirty = self.finished = self.input_stopped = self.refused = self.held = False
        self.client = ClientConnection(protocol, self)

    def open(self, transport: Transport) -> bool:
        """The socket is open: check admission, make the connection and start its handshake deadline. True: it is made."""
        now = self.now()
        peer = self._context.accept(transport)
        self.socket.transport = transport
        if peer is None:
            # Its bytes could be read. Nothing is done for a peer without an address: rights and shares are by address.
            self.finished = True
            self.counters.disconnected("reset")
            self.abort()
            return False
        self.client.host = network_of_host(peer.host)
        if self._refuse_admission("connections-max" if self._context.full else self._admission.enter(peer.host, now)):
            return False
        try:
            self.connection = self._connect(peer, now)
        except Exception:  # a bug of an adapter ends its own connection only
            self.socket.input_ended = True
            self.fault("connect")
            return False
        if self._labels is not None:
            self.recognition = cast(Recognition, self.connection)
        self.counters.opened()
        self.schedule_flush()
        return True

    def recognise(self, recognition: Recognition) -> bool:
        """If the protocol is known by now, drive its connection and count under its label. False: it is refused."""
        self.connection = recognition.chosen
        if recognition.protocol == "" or self._labels is None:
            return True
        if self._refuse_admission(self._admission.enter(recognition.peer.host, self.now())):
            return False
        self.client.host = network_of_host(recognition.peer.host)
        label = self.client.protocol = self._labels[recognition.protocol]
        self.counters = self._context.counter_registry.move_connection(self.counters, label)
        self.recognition = None
        return True

    def _refuse_admission(self, reason: str) -> bool:
        """Abort the connection without an answer when `reason` is not "": a refused connection costs as little as possible."""
        if reason:
            self.finished = True
            self.counters.refused(reason)
            self.abort()
        return self.finished

    # Commands

    def handle(self, command: Command) -> None:
        """Carry out one command."""
        if self._admission.unknown is not None and (self.client.known_elsewhere or _is_authenticated(command)):
            self._admission.unknown = None
        if isinstance(command, (Send, SendOnce)):
            self.counters.messages_in += len(command.messages)
        elif type(command) is Disconnected:
            if self.finished:
                return
            self.finished = True
            self.counters.disconnected(command.reason, self.refused)
        try:
            self._context.handler.handle(self.client, command)
            if self.finished:
                self.client.end()
        except Exception:  # a bug of a use case ends the connection, like one of an adapter
            self.fault("handle")

    def disconnect(self, reason: str) -> None:
        """End the connection; the socket is closed when the queued bytes have been written."""
        if not self.finished:
            self.handle(Disconnected(reason))
            self.schedule_flush()

    def fault(self, where: str) -> None:
        """A bug in the gateway: log its traceback, count it, and abort the connection."""
        log.exception("%s: %s failed; the connection is closed", self.client.protocol, where)
        self.counters.refused("adapter-fault")
        if not self.finished:
            self.finished = True
            self.counters.disconnected("adapter-fault", True)
            self.client.end()
        self.abort()

    # ConnectionDriver

    def answer(self, event: Event) -> None:
        """Give `event` to the protocol; its bytes are written at the end of this turn."""
        if type(event) is not Sent:
            self.counters.answered(event)
            self.refused = type(event) is Refused
        try:
            self.connection.answer(event, self.now())
        except Exception:  # as in `open`
            self.fault("answer")
            return
        if not self.dirty:
            self.schedule_flush()

    def close(self) -> None:
        """End the connection; the socket is closed when the queued bytes have been written."""
        self.disconnect("closed-by-node")

    def revoke_access(self, failure: Failure) -> None:
        """Notify the client, if the protocol can, that its principal has lost access, and end the connection."""
        if not self.finished:
            self.answer(AccessRevoked(failure))
            self.disconnect(Ending.REVOKED.value)

    def throttle(self, until_ns: int) -> None:
        """Pause reading until monotonic `until_ns`. Commands that are read already are carried out."""
        if self.finished:
            return
        if self._throttle_timer is None:
            self._throttle_timer = DeadlineTimer(self._context.clock, self._throttle_over)
        if self._throttle_timer.extend(until_ns):
            self.socket.set_reading(False)

    @property
    def throttled(self) -> bool:
        """True while reading is paused because of the client's rate."""
        return self._throttle_timer is not None and self._throttle_timer.pending

    def _throttle_over(self) -> None:
        if not self.finished:
            self.answer(ReadingResumed())

    # The socket

    @property
    def unhandled(self) -> bool:
        """True while input of the peer waits in the connection (`protocols.adapter.Parking`), and the node does not stop."""
        if self.finished or self.input_stopped:
            return False
        waits: bool = getattr(self.connection, "unhandled", False)
        return waits

    def may_read(self) -> bool:
        """True when the node may read from the peer: the protocol and the rate allow it, and the peer reads its answers."""
        return (
            self.connection.reading
            and not self.finished
            and not self.socket.stalled
            and self.client.reads_waiting == 0
            and not self.input_stopped
            and not self.throttled
        )

    def schedule_flush(self) -> None:
        """Have the output written at the end of this turn."""
        self.dirty = True
        self._turn_flush.add(self)

    def flush(self) -> None:
        """End of the turn: write the output, set the deadline timer, apply backpressure, close if the connection asks."""
        self.dirty = False
        socket = self.socket
        transport = socket.transport
        if transport is None and self._owner is None:
            return
        connection = self.connection
        try:
            finished = self.finished or (connection.closed and not self.held)
            if transport is None:
                connection.outgoing()  # discarded: the socket is closed
            elif finished or not socket.stalled:
                write(transport, connection.outgoing(), self.counters)
            if not finished:
                deadline = connection.deadline()
                if deadline is not None and (not self.deadline_timer.pending or deadline < self.deadline_timer.when):
                    self.deadline_timer.start(deadline)
        except Exception:  # as in `open`
            self.fault("outgoing")
            return
        if finished:
            if not self.finished:
                self.handle(Disconnected("closed"))
            socket.finish()
        elif connection.reading is socket.paused and self._owner is not None:
            self._owner.apply_reading()
        if transport is None and self._owner is not None and not self.unhandled:
            self._owner.handled_all()

    def overdue(self) -> None:
        """Close the connection at once: the peer has not read, or not closed its side, in time."""
        if self.socket.stalled:
            self.disconnect(Ending.SLOW_READER.value)
        self.abort()

    def abort(self) -> None:
        """Close the socket at once."""
        self.socket.abort()

    def socket_closed(self) -> None:
        """The socket is closed, by either side."""
        self.socket.closed()

    def leave(self) -> None:
        """All that came from the closed socket is handled: the connection does not count any more.

        Drops the timers and the owner, which refers to the driver.
        """
        self.socket.input_ended = True
        self.deadline_timer.close()
        if self._throttle_timer is not None:
            self._throttle_timer.close()
        self._owner = None
        self._admission.leave()


def _is_authenticated(command: Command) -> bool:
    """True for a command that somebody is known to have sent."""
    principal = getattr(command, "principal", None)
    return principal is not None and principal is not GATEWAY
