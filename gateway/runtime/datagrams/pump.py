"""Datagram ports: one pump for the sockets of a port and all their peers."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final, final

from domain.address import host_bytes, network_of_host
from domain.command import Command, Disconnected, Send
from domain.errors import ErrorCode, Failure
from domain.event import Event, Pulled, Received, Refused, Sent, WatchedMessages
from domain.limits import MILLISECOND_NS
from domain.ports import Timer
from gateway.connection.client_connection import ClientConnection
from gateway.connection.context import ConnectionContext
from gateway.runtime.datagrams.calls import calls_for
from gateway.runtime.datagrams.group import Floodgate
from gateway.runtime.datagrams.inbox import Inbox
from protocols.adapter import DrainedEndpoint, Endpoint, Peer

DATAGRAMS_PER_TURN: Final = 64
"""Datagrams that are handled in one turn of the loop."""
READ_PER_TURN: Final = 1_024
"""Datagrams that are read in one turn: more than are handled, so that one peer's flood does not hide the others behind it."""
READ_PER_SOCKET: Final = 256
"""The same for one of several sockets, whose floods hide few others."""
PEERS_CACHED_MAX: Final = 4_096
UNSENT_MAX: Final = 4_096
"""Datagrams that wait while the socket's buffer is full; further ones are dropped, as the network would."""
BUFFER_BYTES: Final = 4 * 1024 * 1024
"""Receive buffer of a lone socket, and send buffer."""
SHARED_BUFFER_BYTES: Final = 2 * 1024 * 1024
"""Receive buffer of each of several sockets."""

TOO_MANY: Final = Failure(ErrorCode.OVERLOADED, "too many messages wait to be stored: send again later, and fewer")
"""Refusal of a message: a socket for all peers cannot be left unread, as a connection is."""

BELIEVED_BYTES: Final = 32 * 1024
"""Bytes of messages of one host for which the store is not asked again whether it has room: asking is not cheap."""

ROOM_WAITS_MAX: Final = 20
"""Milliseconds for which messages of one host wait in the inbox for room in the store; then they are refused. A refusal costs
two thirds of the time of a message, and most syncs are shorter."""

log = logging.getLogger("headgate.datagram")


@final
class DatagramPump:
    """Drives one `Endpoint` over the sockets of one port (`group`). One ClientConnection stands for all peers."""

    def __init__(
        self,
        context: ConnectionContext,
        bound: Sequence[socket.socket],
        endpoint: Endpoint,
        protocol: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._sockets = bound
        self._sender = bound[0]
        self._calls = calls_for(bound[0])
        self._endpoint = endpoint
        self._counters = context.counter_registry.of(protocol)
        self._counters.dropped = endpoint.counts
        self._context = context
        self._intake = context.intake
        self._clock = context.clock
        self._turn_flush = context.turn_flush
        self._loop = loop
        self._local: tuple[str, int] = bound[0].getsockname()[:2]
        self._peers: dict[tuple[str, int], Peer] = {}
        self._inbox = Inbox()
        self._floodgate = Floodgate()
        self._direct = 0  # datagrams of this turn that were handled without the inbox
        self._working = False  # `_work` will run in a later turn
        self._room_waits = 0  # how often it has waited since the store had room
        self._believed_host = ""
        self._believed_bytes = 0
        self._unsent: deque[tuple[bytes, tuple[str, int]]] = deque()
        self._deadline_timer: Timer | None = None
        self._timer_at = 0
        self._dirty = False
        self._open = False
        self.client = ClientConnection(protocol, self, shared=True)

    def open(self) -> None:
        """Start receiving datagrams."""
        alone = len(self._sockets) == 1
        self._sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        for bound in self._sockets:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES if alone else SHARED_BUFFER_BYTES)
            self._loop.add_reader(bound, self._readable, bound, READ_PER_TURN if alone else READ_PER_SOCKET)
        self._open = True
        self._schedule_flush()

    def answer(self, event: Event) -> None:
        """Give `event` to the endpoint; its datagrams leave at the end of this turn."""
        if type(event) is not Sent:
            self._count(event)
        try:
            self._endpoint.answer(event, self._clock.monotonic_ns())
        except Exception:  # a bug of an adapter loses this answer only
            self._fault("answer")
        if not self._dirty:
            self._schedule_flush()

    def _count(self, event: Event) -> None:
        if isinstance(event, (Pulled, WatchedMessages)):
            self._counters.messages_out += len(event.records)
        elif isinstance(event, Received):
            self._counters.messages_out += len(event.messages)
        elif isinstance(event, Refused):
            self._counters.refused(event.failure.code.value)

    def close(self) -> None:
        """Send queued datagrams, notify peers with sessions of the end, and close the socket."""
        if not self._open:
            self._close_sockets()
            return
        self.flush()
        if isinstance(self._endpoint, DrainedEndpoint):
            try:
                self._endpoint.drain(self._clock.monotonic_ns())
            except Exception:  # as in `answer`
                self._fault("drain")
            self.flush()
        self.pause()
        self._open = False
        if self._unsent:
            self._loop.remove_writer(self._sender)
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._context.handler.handle(self.client, Disconnected("closed-by-node"))
        self.client.end()
        self._close_sockets()

    def _close_sockets(self) -> None:
        for bound in self._sockets:
            bound.close()

    def throttle(self, until_ns: int) -> None:
        """Does nothing: the socket serves all peers, so that a peer above its rate gets refusals."""

    def revoke_access(self, failure: Failure) -> None:
        """Does nothing: access is checked for each datagram."""

    def pause(self) -> None:
        """Stop receiving: the node is about to stop."""
        if self._open:
            for bound in self._sockets:
                self._loop.remove_reader(bound)

    def flush(self) -> None:
        """End of the turn: send the output and set the deadline timer."""
        self._dirty = False
        self._direct = 0
        if not self._open:
            return
        try:
            datagrams = self._endpoint.outgoing()
            deadline = self._endpoint.deadline()
        except Exception:  # as in `answer`
            self._fault("outgoing")
            return
        self._send_all(datagrams)
        if deadline is not None and (self._deadline_timer is None or deadline < self._timer_at):
            if self._deadline_timer is not None:
                self._deadline_timer.cancel()
            self._timer_at = deadline
            self._deadline_timer = self._clock.call_at(deadline, self._deadline_due)

    def _readable(self, bound: socket.socket, most: int) -> None:
        """Read up to `most` datagrams of one socket.

        Up to DATAGRAMS_PER_TURN are handled in order; of more, each peer has its turn in the inbox.
        """
        read = self._calls.read(bound, most)
        self._counters.bytes_in += sum([len(data) for data, _ in read])
        inbox = self._inbox
        if not inbox.count and self._direct + len(read) <= DATAGRAMS_PER_TURN:
            self._direct += len(read)
            self._receive(read)
            return
        dropped = inbox.add_all(read)
        for _ in range(dropped):
            self._counters.refused("datagram-flood")
        if dropped:
            self._floodgate.shut(bound, read, inbox.full or 2 * dropped > most)
        if not self._working:
            self._work()

    def _work(self) -> None:
        """Handle the next datagrams of the inbox, and go on in the next turn of the loop.

        Datagrams of one host wait while the store has no room, for ROOM_WAITS_MAX ms, unless those of another host wait too.
        """
        self._working = False
        inbox = self._inbox
        if self._intake.has_room():
            self._room_waits = 0
        elif self._room_waits < ROOM_WAITS_MAX and inbox.is_of_one_host:
            self._room_waits += 1
            self._work_later(MILLISECOND_NS)
            return
        taken = inbox.take_some(DATAGRAMS_PER_TURN)
        self._floodgate.let_in(inbox)
        self._receive(taken)
        if inbox.count and self._open:
            self._work_later(0)

    def _work_later(self, wait_ns: int) -> None:
        self._working = True
        self._clock.call_at(self._clock.monotonic_ns() + wait_ns, self._work)

    def _receive(self, datagrams: list[tuple[bytes, tuple[str, int]]]) -> None:
        if not self._open:
            return
        now = self._clock.monotonic_ns()
        self._believed_bytes = 0
        receive, known = self._endpoint.receive, self._peers.get
        for data, address in datagrams:
            try:
                peer = known(address) or self._peer(address)
                for command in receive(data, peer, now):
                    if type(command) is not Send:
                        self.client.sender = peer.born_host
                        self._handle(command)
                        self.client.sender = b""
                    elif (self._believed_bytes > 0 and address[0] == self._believed_host) or self._takes(address[0]):
                        self._believed_bytes -= len(command.messages[0].body)
                        self._counters.messages_in += len(command.messages)
                        self._context.handler.handle(self.client, command)
                    else:
                        self.answer(Refused(command.ticket, TOO_MANY))
            except Exception:  # as in `answer`
                self._fault("receive")
        if not self._dirty:
            self._schedule_flush()

    def _takes(self, host: str) -> bool:
        """True when the store takes messages of `host`. That it does is believed for BELIEVED_BYTES of it in the same turn."""
        if not self._intake.takes_from(network_of_host(host)):
            self._believed_bytes = 0
            return False
        self._believed_host = host
        self._believed_bytes = 0 if self._intake.crowded else BELIEVED_BYTES
        return True

    def _handle(self, command: Command) -> None:
        if type(command) is Send:
            self._counters.messages_in += len(command.messages)
        elif type(command) is Disconnected:
            self._counters.disconnected(command.reason)
            return
        self._context.handler.handle(self.client, command)

    def _peer(self, address: tuple[str, int]) -> Peer:
        peer = self._peers.get(address)
        if peer is None:
            if len(self._peers) >= PEERS_CACHED_MAX:
                self._peers.clear()
            host, port = address
            peer = self._peers[address] = Peer(host, port, host_bytes(host, port), *self._local)
        return peer

    def _send_all(self, datagrams: Sequence[tuple[bytes, tuple[str, int]]]) -> None:
        if not datagrams:
            return
        done = 0
        if not self._unsent:
            calls = self._calls
            done = calls.write(self._sender, datagrams)
            self._counters.bytes_out += calls.written
            for _ in range(calls.lost):
                self._counters.refused("datagram-not-sent")
            if done < len(datagrams):
                self._loop.add_writer(self._sender, self._writable)
        for datagram in datagrams[done:]:
            self._keep(datagram)

    def _keep(self, datagram: tuple[bytes, tuple[str, int]]) -> None:
        if len(self._unsent) >= UNSENT_MAX:
            self._counters.refused("datagram-dropped")
            return
        self._unsent.append(datagram)

    def _writable(self) -> None:
        waiting = list(self._unsent)
        self._unsent.clear()
        self._loop.remove_writer(self._sender)
        self._send_all(waiting)

    def _deadline_due(self) -> None:
        self._deadline_timer = None
        if not self._open:
            return
        now = self._clock.monotonic_ns()
        try:
            deadline = self._endpoint.deadline()
            if deadline is not None and deadline <= now:
                for command in self._endpoint.expire(now):
                    self._handle(command)
        except Exception:  # as in `answer`
            self._fault("expire")
        if not self._dirty:
            self._schedule_flush()

    def _schedule_flush(self) -> None:
        self._dirty = True
        self._turn_flush.add(self)

    def _fault(self, where: str) -> None:
        log.exception("%s: %s failed; the datagram is dropped", self._counters.protocol, where)
        self._counters.refused("adapter-fault")
