"""Store side of forwarding: handles the commands of gateways' clients, each client on a ClientConnection of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, final

from domain.access.principal import Principal
from domain.client.mqtt_session import AccessRevoked, ReadingResumed
from domain.client.node import GreetNode, NodeFrame, NodeFrameOut, NodeGreeted
from domain.command import Command, Disconnected
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused
from domain.limits import SECOND_NS
from domain.ports import Clock
from domain.store.store_ports import State
from gateway.cluster.forwarding.space_source import SpaceSource
from gateway.cluster.forwarding.traffic import GatewaysTraffic, Traffic
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import CommandEntry
from protocols.remoting.nodes.calls.octets import BOOL, I64, Out, Reader, WireError
from protocols.remoting.nodes.calls.values import FAILURE
from protocols.remoting.nodes.forwarding import item
from protocols.remoting.nodes.forwarding.greeting import Greeting, Welcome, encode, greeting_of
from protocols.remoting.nodes.forwarding.kind import COMMAND_KINDS, EVENT_KINDS
from protocols.remoting.nodes.forwarding.stream import AWAY_NS, TICK_NS, VERSIONS, ItemError, NodeStream, SizeError

STALLED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of events that a gateway has not got, above which what can wait is not sent to its clients."""
DROPPED_BYTES: Final = 128 * 1024 * 1024
"""Bytes of events that a gateway has not got, above which it is given up."""
HEAD_BYTES: Final = 29
"""Bytes of a frame of the remoting protocol that holds a frame between nodes, beside that."""
_FAILED: Final = Failure(ErrorCode.INTERNAL, "the request failed at the store's node: its log says why")
log = logging.getLogger("headgate.forwarding")


@final
class _Client:
    """Driver of the connection that stands for one client of a gateway."""

    __slots__ = ("connection", "node", "number", "waits")

    def __init__(self, node: _Gateway, client_item: item.ClientItem) -> None:
        self.node = node
        self.number = client_item.number
        self.waits = False
        self.connection = ClientConnection(client_item.protocol, self, shared=client_item.shared)
        self.connection.host = client_item.host
        self.connection.forwarded = True

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

    def reads_wait(self, waits: bool) -> None:
        """Reads of the client wait for a later turn (True), or do not any more (False)."""
        if waits is not self.waits:
            self.waits = waits
            out: Out = [item.CLIENT_HEAD.pack(item.READS_WAIT, self.number)]
            BOOL.put(out, waits)
            self.node.put(out)


@final
class _Gateway:
    """One life of a gateway.

    away_ns      time since which it has none, monotonic
    newest       highest number of a client so far
    stalled      True: it does not read its events
    """

    def __init__(self, greeting: Greeting, clock: Clock, entry: CommandEntry, traffic: GatewaysTraffic) -> None:
        self._traffic = traffic
        self.name = greeting.node
        self.life = greeting.life
        self.copies = greeting.copies
        self._clock = clock
        self._entry = entry
        self.stream = NodeStream(clock)
        self.connection: ClientConnection | None = None
        self.away_ns = clock.monotonic_ns()
        self.clients: dict[int, _Client] = {}
        self.newest = 0
        self.principals: dict[int, Principal | None] = item.known_principals()
        self.stalled = False
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
        self.stream.put(out)
        if not self.stalled and self.stream.unacknowledged_bytes > STALLED_BYTES:
            self._stall(True)

    def _stall(self, stalled: bool) -> None:
        self.stalled = stalled
        for client in list(self.clients.values()):
            if stalled:
                client.connection.became_stalled()
            else:
                client.connection.became_writable()

    def received(self, body: bytes) -> None:
        """Process a frame. Raises WireError; unless it is an ItemError, the gateway has to be dropped."""
        self.stream.take_all(body, self._take, self._unread)
        if self.stalled and self.stream.unacknowledged_bytes < STALLED_BYTES // 2:
            self._stall(False)

    def _client(self, reader: Reader) -> None:
        client_item = item.get_client(reader)
        if client_item.number in self.clients:
            raise WireError(f"client {client_item.number} is there already")
        client = self.clients[client_item.number] = _Client(self, client_item)
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

    def _end(self, client: _Client) -> None:
        del self.clients[client.number]
        client.connection.end()
        self.stream.put([item.CLIENT_HEAD.pack(item.GONE, client.number)])

    def _stalled(self, reader: Reader) -> None:
        client = self.clients.get(I64.get(reader))
        stalled = BOOL.get(reader)
        if client is None:
            return
        if stalled:
            client.connection.became_stalled()
        elif not self.stalled:
            client.connection.became_writable()

    def _told_traffic(self, reader: Reader) -> None:
        life, *counts = reader.unpack(item.TRAFFIC_FIELDS)
        self._traffic.notified(life, Traffic(*counts))

    def end(self) -> None:
        """End all clients, since the gateway is lost."""
        self.stream.lost()
        for client in list(self.clients.values()):
            self._entry.handler.handle(client.connection, Disconnected("lost"))
            client.connection.end()
        self.clients.clear()


@final
class ForwardedClients:
    """The use case of GreetNode and NodeFrame."""

    def __init__(
        self,
        entry: CommandEntry,
        clock: Clock,
        state: State,
        cluster: str,
        broker: str,
        life: bytes,
        controlled: bool,
        versions: Sequence[int] = VERSIONS,
    ) -> None:
        """`entry`: where the commands of clients go. `life`: 16 random bytes that identify this run of the process.
        `versions`: of the frames, the newest first."""
        self._entry = entry
        self._clock = clock
        self._versions = versions
        self._welcome = Welcome(cluster, broker, life.hex(), controlled)
        self._gateways: dict[str, _Gateway] = {}
        self._greeted: dict[ClientConnection, _Gateway] = {}
        self._ticking = False
        self._traffic = GatewaysTraffic()
        self._link_bytes = [0, 0]
        self._spaces = SpaceSource(state, self._copy)
        self.verbs: Mapping[type[Command], Callable[[ClientConnection, Any], None]] = {
            GreetNode: self._greet,
            NodeFrame: self._frame,
        }

    @property
    def gateways(self) -> Sequence[tuple[str, int, bool]]:
        """(name, number of clients, True while it is connected) of each gateway."""
        return [(each.name, len(each.clients), each.connection is not None) for each in self._gateways.values()]

    @property
    def traffic(self) -> Traffic:
        """Traffic on the ports of all gateways, less what their connections have brought to a port of this node."""
        bytes_in, bytes_out = self._link_bytes
        total = self._traffic.total
        return total._replace(bytes_in=total.bytes_in - bytes_in, bytes_out=total.bytes_out - bytes_out)

    def _greet(self, connection: ClientConnection, command: GreetNode) -> None:
        try:
            greeting = greeting_of(command.greeting)
            welcome, gateway = self._welcomed(greeting, connection)
        except WireError as error:
            connection.answer(Refused(command.ticket, Failure(ErrorCode.ARGUMENT_ILLEGAL, str(error))))
            return
        self._greeted[connection] = gateway
        connection.on_close.append(partial(self._lost, connection))
        connection.answer(NodeGreeted(command.ticket, encode(welcome)))
        gateway.connection = connection
        try:
            came = greeting.received if welcome.resumed else 0
            gateway.stream.connected(partial(self._send, connection), came, welcome.version)
        except WireError as error:
            self._refuse(gateway, error)
            return
        if not welcome.resumed:
            for out in self._spaces.items() if gateway.copies else ():
                gateway.put(out)
            gateway.put([bytes((item.COMPLETE,))])
        if not self._ticking:
            self._ticking = True
            self._clock.call_at(self._clock.monotonic_ns() + TICK_NS, self._tick)

    def _welcomed(self, greeting: Greeting, connection: ClientConnection) -> tuple[Welcome, _Gateway]:
        mine = self._welcome
        if greeting.cluster != mine.cluster:
            raise WireError(f"this store is of cluster {mine.cluster!r}, and the gateway of {greeting.cluster!r}")
        version = next((each for each in self._versions if each in greeting.versions), 0)
        if not version:
            raise WireError(f"this store speaks versions {self._versions} of frames, and the gateway {greeting.versions}")
        known = self._gateways.get(greeting.life)
        if known is not None:
            self._unlink(known)
            if greeting.store_life == mine.life:
                return replace(mine, resumed=True, received=known.stream.received, version=version), known
            self._drop(known, "it has begun anew")
        gateway = self._gateways[greeting.life] = _Gateway(greeting, self._clock, self._entry, self._traffic)
        log.info("gateway %s at %s is connected, with frames of version %d", greeting.node, connection.host, version)
        return replace(mine, version=version), gateway

    def _copy(self, value: Out) -> None:
        """Send a value of a copied space to all gateways."""
        for gateway in self._gateways.values():
            if gateway.copies:
                gateway.put(value)

    def _frame(self, connection: ClientConnection, command: NodeFrame) -> None:
        gateway = self._greeted.get(connection)
        if gateway is None:
            connection.driver.close()
            return
        self._link_bytes[0] += HEAD_BYTES + len(command.body)
        try:
            gateway.received(command.body)
        except WireError as error:
            self._refuse(gateway, error)

    def _send(self, connection: ClientConnection, body: bytes) -> None:
        self._link_bytes[1] += HEAD_BYTES + len(body)
        connection.answer(NodeFrameOut(None, body))

    def _refuse(self, gateway: _Gateway, error: WireError) -> None:
        """Close the gateway's connection; also end its clients unless `error` is an ItemError, which concerns one item."""
        log.warning("gateway %s has sent what is no frame: %s; its connection is closed", gateway.name, error)
        if not isinstance(error, ItemError):
            self._drop(gateway, "what it has sent cannot be read")
        self._unlink(gateway)

    def _lost(self, connection: ClientConnection) -> None:
        gateway = self._greeted.pop(connection, None)
        if gateway is not None and gateway.connection is connection:
            gateway.connection = None
            gateway.stream.lost()
            gateway.away_ns = self._clock.monotonic_ns()

    def _unlink(self, gateway: _Gateway) -> None:
        """The gateway's connection is closed, if it has one."""
        old, gateway.connection = gateway.connection, None
        gateway.stream.lost()
        gateway.away_ns = self._clock.monotonic_ns()
        if old is not None:
            self._greeted.pop(old, None)
            old.driver.close()

    def _tick(self) -> None:
        now = self._clock.monotonic_ns()
        for gateway in list(self._gateways.values()):
            if gateway.connection is None:
                if now - gateway.away_ns > AWAY_NS:
                    self._drop(gateway, f"it has had no connection for {AWAY_NS // SECOND_NS} s")
            elif gateway.stream.unacknowledged_bytes > DROPPED_BYTES:
                self._unlink(gateway)
                self._drop(gateway, "it does not read")
            else:
                gateway.stream.notify()
        self._ticking = bool(self._gateways)
        if self._ticking:
            self._clock.call_at(now + TICK_NS, self._tick)

    def _drop(self, gateway: _Gateway, why: str) -> None:
        log.warning("gateway %s is lost, with %d clients: %s", gateway.name, len(gateway.clients), why)
        self._gateways.pop(gateway.life, None)
        gateway.end()
