"""One life of a gateway at the node with the store: its stream, and its clients, each on a ClientConnection of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, final

from domain.access.principal import Principal
from domain.client.mqtt_session import AccessRevoked, EndsAt, ReadingResumed
from domain.command import Command, Disconnected
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused
from domain.walk import UNANSWERED_BYTES, PausingWalk, Walk, Walks
from gateway.cluster.forwarding.traffic import GatewaysTraffic, Traffic
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import CommandEntry
from protocols.remoting.nodes.calls.octets import BOOL, I64, Out, Reader, WireError
from protocols.remoting.nodes.calls.values import FAILURE
from protocols.remoting.nodes.forwarding import item
from protocols.remoting.nodes.forwarding.greeting import Greeting
from protocols.remoting.nodes.forwarding.kind import COMMAND_KINDS, EVENT_KINDS
from protocols.remoting.nodes.forwarding.stream import UNSIZED, NodeStream, SizeError

STALLED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of events that a gateway has not got, above which what can wait is not sent to its clients."""
REGULATED: Final = 8
"""Clients that one step notifies of a gateway that does not read, or reads again."""
_ENDS: Final = frozenset(EndsAt)
_FAILED: Final = Failure(ErrorCode.INTERNAL, "the request failed at the store's node: its log says why")
log = logging.getLogger("headgate.forwarding")


@final
class GatewayClient:
    """Driver of the connection that stands for one client of a gateway.

    stalled   True: the client does not read; its connection is stalled also while the gateway is
    """

    __slots__ = ("connection", "node", "number", "stalled", "waits")

    def __init__(self, node: GatewayLife, client_item: item.ClientItem) -> None:
        self.node = node
        self.number = client_item.number
        self.waits = False
        self.stalled = False
        self.connection = ClientConnection(client_item.protocol, self, shared=client_item.shared)
        self.connection.host = client_item.host
        self.connection.forwarded = True
        if client_item.ends_at in _ENDS:
            self.connection.ends_at = EndsAt(client_item.ends_at)

    def answer(self, event: Event) -> None:
        """Send an event to the client."""
        if type(event) is ReadingResumed:
            self.reads_wait(False)
            return
        if type(event) is AccessRevoked:
            return  # `revoke_access` reports it
        ticket = getattr(event, "ticket", None)
        out = [item.EVENT_HEAD.pack(item.EVENT, self.number, ticket if isinstance(ticket, int) else item.NO_TICKET)]
        EVENT_KINDS.of[type(event)].put(out, event)
        try:
            self.node.put(out)
        except SizeError as error:
            log.warning("%s for a client of gateway %s has %s", type(event).__name__, self.node.name, error)
            failure = Failure(ErrorCode.MESSAGE_TOO_LARGE, f"the answer has {error}: ask for less")
            self.fail(ticket if isinstance(ticket, int) else item.NO_TICKET, failure)

    def close(self) -> None:
        """Make the gateway close the client's connection."""
        self.node.put([item.CLIENT_HEAD.pack(item.CLOSE, self.number)])

    def throttle(self, until_ns: int) -> None:
        """Make the gateway stop reading from the client until monotonic `until_ns`."""
        out: Out = [item.CLIENT_HEAD.pack(item.THROTTLE, self.number)]
        I64.put(out, until_ns - self.node.now())
        self.node.put(out)

    def revoke_access(self, failure: Failure) -> None:
        """Make the gateway notify the client that it has lost its access, and close the connection."""
        out: Out = [item.CLIENT_HEAD.pack(item.REVOKE, self.number)]
        FAILURE.put(out, failure)
        self.node.put(out)

    def fail(self, ticket: int, failure: Failure) -> bool:
        """Answer a command with a failure. False: it expects no answer, so the client has to end."""
        if ticket:
            self.answer(Refused(ticket, failure))
        elif not self.connection.shared:
            self.close()
            return False
        return True

    def regulate(self) -> None:
        """Stall its connection while the client or the gateway does not read, and end that when both do."""
        stalled = self.stalled or self.node.stalled
        if stalled is self.connection.stalled:
            return
        if stalled:
            self.connection.became_stalled()
        else:
            self.connection.became_writable()

    def reads_wait(self, waits: bool) -> None:
        """Reads of the client wait for a later turn (True), or do not any more (False)."""
        if waits is not self.waits:
            self.waits = waits
            out: Out = [item.CLIENT_HEAD.pack(item.READS_WAIT, self.number)]
            BOOL.put(out, waits)
            self.node.put(out)


@final
class GatewayLife:
    """One life of a gateway.

    away_ns      time since which it has none, monotonic
    heard_ns     time of its last frame, or of its first greeting, monotonic
    newest       highest number of a client so far
    stalled      True: it does not read its events
    ended        True: it was given up; what is said to its clients is discarded
    """

    def __init__(self, greeting: Greeting, walks: Walks, entry: CommandEntry, traffic: GatewaysTraffic) -> None:
        self._traffic = traffic
        self.name = greeting.node
        self.life = greeting.life
        self.copies = greeting.copies
        self._walks = walks
        self._clock = clock = walks.clock
        self._entry = entry
        self.stream = NodeStream(clock)
        self.connection: ClientConnection | None = None
        self.away_ns = self.heard_ns = clock.monotonic_ns()
        self.clients: dict[int, GatewayClient] = {}
        self.newest = 0
        self.principals: dict[int, Principal | None] = item.known_principals()
        self.stalled = self.ended = False
        self._regulating = False
        self._take: dict[int, Callable[[Reader], None]] = {
            item.CLIENT: self._client,
            item.PRINCIPAL: self._principal,
            item.COMMAND: self._command,
            item.STALLED: self._stalled,
            item.TRAFFIC: self._told_traffic,
        }

    def now(self) -> int:
        """Monotonic time in nanoseconds."""
        return self._clock.monotonic_ns()

    def put(self, out: Out) -> None:
        """Add an item to the stream to the gateway."""
        if self.ended:
            return
        self.stream.put(out)
        if not self.stalled and self.stream.unacknowledged_bytes > STALLED_BYTES:
            self._stall(True)

    def _stall(self, stalled: bool) -> None:
        self.stalled = stalled
        if not self._regulating:
            self._regulating = True
            self._walks.begin(self._regulate())

    def _regulate(self) -> Walk:
        """Regulate all clients by `stalled` as it is then; once more when it has changed meanwhile."""
        done: bool | None = None
        while done is not self.stalled and not self.ended:
            done = self.stalled
            for number, client in enumerate(list(self.clients.values())):
                client.regulate()
                if number % REGULATED == REGULATED - 1:
                    yield
                    if done is not self.stalled:
                        break
        self._regulating = False

    def received(self, body: bytes) -> None:
        """Process a frame. Raises WireError; unless it is an ItemError, the gateway has to be dropped."""
        self.heard_ns = self.now()
        self.stream.take_all(body, self._take, self._unread)
        if self.stalled and self.stream.unacknowledged_bytes < STALLED_BYTES // 2:
            self._stall(False)

    def _client(self, reader: Reader) -> None:
        client_item = item.get_client(reader, self.stream.version != UNSIZED)
        if client_item.number in self.clients:
            raise WireError(f"client {client_item.number} is there already")
        client = self.clients[client_item.number] = GatewayClient(self, client_item)
        self.newest = max(self.newest, client_item.number)
        client.connection.stalled = self.stalled

    def _principal(self, reader: Reader) -> None:
        number, principal = item.get_principal(reader)
        self.principals[number] = principal

    def _command(self, reader: Reader) -> None:
        number, ticket, principal = reader.unpack(item.OF_COMMAND)
        command: Command = COMMAND_KINDS.get(reader)
        client = self.clients.get(number)
        if client is None:
            if number > self.newest:
                raise WireError(f"there is no client {number}")
            return  # it was ended here, and its gateway did not know
        if principal:
            if principal not in self.principals:
                raise WireError(f"there is no principal {principal}")
            command.principal = self.principals[principal]
        if COMMAND_KINDS.of[type(command)].ticketed:
            asked: Any = command
            asked.ticket = ticket
        try:
            self._entry.handler.handle(client.connection, command)
        except Exception:  # a bug of the gateway's or of this node's ends one client, not all of a gateway
            log.exception("%s: a command of a client of gateway %s failed", type(command).__name__, self.name)
            if client.connection.shared:
                client.fail(ticket, _FAILED)
            else:
                client.close()
                self._end(client)
            return
        if type(command) is Disconnected:
            self._end(client)
        elif client.connection.reads_waiting > 0:
            client.reads_wait(True)

    def _unread(self, reader: Reader, error: WireError) -> None:
        """Answer the client of an unreadable command with a failure. Raises WireError when the client is unknown."""
        if reader.take(1)[0] != item.COMMAND:
            raise error
        number, ticket, _ = reader.unpack(item.OF_COMMAND)
        client = self.clients.get(number)
        if client is None:
            if number > self.newest:
                raise error
            return
        failure = Failure(ErrorCode.INTERNAL, f"the store's node could not read the request: {error}")
        if not client.fail(ticket, failure):
            self._entry.handler.handle(client.connection, Disconnected("lost"))
            self._end(client)

    def _end(self, client: GatewayClient) -> None:
        del self.clients[client.number]
        client.connection.end()
        self.stream.put([item.CLIENT_HEAD.pack(item.GONE, client.number)])

    def _stalled(self, reader: Reader) -> None:
        client = self.clients.get(I64.get(reader))
        stalled = BOOL.get(reader)
        if client is None:
            return
        client.stalled = stalled
        client.regulate()

    def _told_traffic(self, reader: Reader) -> None:
        life, *counts = reader.unpack(item.TRAFFIC_FIELDS)
        self._traffic.notified(life, Traffic(*counts))

    def end(self, unanswered_bytes: Callable[[], int]) -> PausingWalk:
        """End all clients, since the gateway is lost. One that comes over another gateway meanwhile takes its session over.

        `unanswered_bytes`: of the store, which is asked to store sessions and wills.
        """
        self.ended = True
        self.stream.lost()
        for number, client in list(self.clients.items()):
            del self.clients[number]
            try:
                self._entry.handler.handle(client.connection, Disconnected("lost"))
                client.connection.end()
            except Exception:  # a bug of this node's: the other clients are ended too
                log.exception("a client of lost gateway %s has not ended as it should", self.name)
            yield unanswered_bytes() > UNANSWERED_BYTES
