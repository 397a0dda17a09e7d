"""Gateway side of forwarding: sends the commands of clients to the node with the store, and its events to the clients."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain.access.principal import GATEWAY, Principal
from domain.admin.data_topic import JoinDataTopic, LeaveDataTopic
from domain.client.mqtt_session import Attach, EndsAt, SendOnce
from domain.command import Command, Disconnected, Extend, Receive, Send, Unwatch, Watch
from domain.errors import ErrorCode, Failure
from domain.event import Received, Refused
from domain.limits import SECOND_NS
from domain.ports import Clock
from domain.walk import Walk, Walks
from gateway.cluster.forwarding.forwarded_client import ForwardedClient, ForwarderClients
from gateway.cluster.forwarding.principal_numbers import PrincipalNumbers
from gateway.cluster.forwarding.space_copies import SpaceCopies
from gateway.cluster.forwarding.traffic import OwnTraffic, Traffic
from gateway.connection.client_connection import ClientConnection
from protocols.remoting.nodes.calls.octets import Reader, WireError
from protocols.remoting.nodes.forwarding import item
from protocols.remoting.nodes.forwarding.greeting import Greeting, Welcome, encode, welcome_of
from protocols.remoting.nodes.forwarding.item import ClientItem
from protocols.remoting.nodes.forwarding.kind import COMMAND_KINDS, Kind
from protocols.remoting.nodes.forwarding.stream import AWAY_NS, TICK_NS, UNSIZED, VERSIONS, ItemError, NodeStream, SizeError

HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""`held_bytes_max` of a gateway with one connection to its store; several share it."""
_OWN: Final = 1
_NEW_LIFE: Final = "the store has started again, or another replica leads"
"""The number of the gateway itself as a client."""
StoreLost = Callable[[str, Sequence[ClientConnection]], None]
"""Called with the reason and the clients that have to start again, since the store has dropped them."""
log = logging.getLogger("headgate.forwarding")


@final
class Forwarder:
    """Handler that forwards all commands.

    forwarded        its clients
    held_bytes_max   bytes of commands not yet received by the store, above which further ones are refused
    """

    def __init__(
        self,
        clock: Clock,
        cluster: str,
        node: str,
        life: bytes,
        on_store_lost: StoreLost,
        traffic: OwnTraffic,
        versions: tuple[int, ...] = VERSIONS,
        first: Forwarder | None = None,
    ) -> None:
        """`life`: 16 random bytes that identify this stream. `traffic`: that of the gateway, over all its connections; it is
        reported to the store's node. `versions`: of the frames, the newest first.

        `first`: the forwarder over another connection to the same store, which keeps the copies; None: this one.
        """
        self._clock = clock
        self._cluster = cluster
        self._node = node
        self._life = life.hex()
        self._versions = versions
        self._first = first or self
        self._walks: Walks = Walks(clock) if first is None else first._walks
        self._facts: Welcome | None = None
        self.state = SpaceCopies()
        self._store_lost = on_store_lost
        self.held_bytes_max = HELD_BYTES_MAX
        self._stream: NodeStream
        self._stream_with = ""
        self._welcome: Welcome | None = None
        self.linked = False
        self._away_since_ns = clock.monotonic_ns()
        self.forwarded = ForwarderClients(clock, self._give_back)
        self._clients, self._numbered = self.forwarded.of, self.forwarded.numbered
        self._client_number = _OWN
        self._traffic = traffic
        self._reported = Traffic()
        self._principals: PrincipalNumbers
        self._kinds = COMMAND_KINDS.of
        self._take: dict[int, Callable[[Reader], None]] = {
            item.VALUE: self.state.value,
            item.COMPLETE: self.state.complete,
            **self.forwarded.items(),
        }
        self._unwatched: list[tuple[ClientConnection, Watch | JoinDataTopic]] = []
        self._begin()
        self._tick()

    # The connection to the store's node

    @property
    def facts(self) -> Welcome | None:
        """The last answer of the store's node to a greeting; None: it was not reached yet."""
        return self._first._facts

    @property
    def clients(self) -> int:
        """Number of forwarded clients."""
        return len(self._clients)

    def unanswered_bytes(self) -> int:
        """Bytes of commands that the store's node has not received yet."""
        return self._stream.unacknowledged_bytes

    def greeting(self) -> bytes:
        """The body of the first request on a connection, code 30010."""
        received = self._stream.received
        copies = self._first is self
        return encode(Greeting(self._cluster, self._node, self._life, self._stream_with, received, self._versions, copies))

    def greeted(self, body: bytes) -> None:
        """Process the answer to the greeting. Raises WireError when it is malformed or from another cluster; the connection has
        to be closed."""
        welcome = welcome_of(body)
        if welcome.cluster != self._cluster:
            raise WireError(f"the store is of cluster {welcome.cluster!r}, and this gateway of {self._cluster!r}")
        if welcome.version not in self._versions:
            raise WireError(f"the store speaks version {welcome.version} of frames, and this gateway {self._versions}")
        known = self.facts
        if known is not None and welcome.text != known.text:
            raise WireError(f"the store is {welcome.text}, and was {known.text}: start this gateway again")
        if known is not None and 0 < welcome.epoch < known.epoch:
            raise WireError(f"it leads in epoch {welcome.epoch}, and another replica in epoch {known.epoch}")
        self._welcome = welcome

    def connected(self, send: Callable[[bytes], None]) -> None:
        """Start sending frames: `send` writes the body of one to the connection. Raises WireError, as `greeted`."""
        welcome = self._welcome
        assert welcome is not None
        self._first._facts = welcome
        if not welcome.resumed:
            if self._stream_with:
                again = welcome.life != self._stream_with
                self._forget(_NEW_LIFE if again else "the store has given up this gateway")
            self.state.begin()
        try:
            self._stream.connected(send, welcome.received, welcome.version)
        except WireError as error:
            self._forget(f"the store does not know what it has got: {error}")
            raise
        self._stream_with = welcome.life
        self._traffic.with_store(welcome.life)
        self.linked = True
        unwatched, self._unwatched = self._unwatched, []
        for connection, watch in unwatched:
            self.handle(connection, watch)

    def received(self, body: bytes) -> None:
        """Process a frame. Raises WireError: the connection has to be closed.

        If it is no ItemError, nobody knows which clients wait for what was not read: all begin again.
        """
        try:
            self._stream.take_all(body, self._take, self._unread)
        except ItemError:
            raise
        except WireError as error:
            self._forget(f"what the store has sent cannot be read ({error})")
            raise

    def doubt(self) -> str:
        """NodeSpeaker.doubt."""
        return self.forwarded.take_doubt()

    def lost(self) -> None:
        """The connection has ended."""
        self._stream.lost()
        if self.linked:
            self.linked = False
            self._away_since_ns = self._clock.monotonic_ns()

    def _tick(self) -> None:
        now = self._clock.monotonic_ns()
        if self.linked:
            self._tell_traffic()
            self._stream.notify()
        elif self._numbered and now - self._away_since_ns > AWAY_NS:
            self._forget(f"the store has not been reached for {AWAY_NS // SECOND_NS} s")
        self._clock.call_at(now + TICK_NS, self._tick)

    def _tell_traffic(self) -> None:
        now = self._traffic.now()
        if now != self._reported and self._stream.sized:
            self._reported = now
            self._stream.put([bytes((item.TRAFFIC,)), item.TRAFFIC_FIELDS.pack(self._traffic.life, *now)])

    def _begin(self) -> None:
        """Start a new stream, which the store's node does not know."""
        self._stream = NodeStream(self._clock)
        self._stream_with = ""
        self._clients.clear()
        self._numbered.clear()
        self._reported = Traffic()
        self._principals = PrincipalNumbers(self._stream.put)
        self._stream.put(item.put_client(ClientItem(_OWN, "gateway", "", True)))

    def _forget(self, why: str) -> None:
        """Refuse all unanswered commands, and make the clients start again: the store has dropped, or will drop, them."""
        clients = [client for client in self._numbered.values() if not client.departed]
        failure = Failure(ErrorCode.STORE_UNAVAILABLE, f"{why}: ask again")
        self._stream.lost()
        self._begin()
        for client in clients:
            if client.connection.shared:
                self._unwatched += [(client.connection, watch) for watch in client.watches.values()]
            elif client.tickets:
                client.connection.stop_messages(failure)
        if clients:
            self._walks.begin(self._start_again(failure, why, clients))

    def _start_again(self, failure: Failure, why: str, clients: Sequence[ForwardedClient]) -> Walk:
        """Refuse what the clients of a stream that was given up wait for, then make them start again."""
        for client in clients:
            client.resume_reading()
            for number, ticket in client.tickets.items():
                if number not in client.watches:
                    client.refuse(ticket, failure)
            yield
        self._store_lost(why, [client.connection for client in clients])

    # Commands

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Send a command to the store's node. It is refused with STORE_UNAVAILABLE or OVERLOADED when that is not possible."""
        kind = self._kinds.get(type(command))
        if type(command) is Disconnected:
            self._leave(connection, command)
            return
        failure = self._obstacle(connection, kind, command)
        if failure is not None:
            ticket = getattr(command, "ticket", None)
            if ticket is not None and getattr(command, "wait", True):
                self._refuse(connection, command, failure)
            return
        assert kind is not None
        client = self._clients.get(connection) or self._enter(connection, command)
        number = self.forwarded.ticket(client, kind, command)
        try:
            self._post(client.number, number, command, kind, getattr(command, "principal", None))
        except (struct.error, UnicodeEncodeError) as error:
            self._unsent(
                client, number, command, ErrorCode.ARGUMENT_ILLEGAL, f"a value of the request is out of its range: {error}"
            )
        except SizeError as error:
            self._unsent(client, number, command, ErrorCode.MESSAGE_TOO_LARGE, f"the request has {error}")

    def _unsent(self, client: ForwardedClient, number: int, command: Command, code: ErrorCode, text: str) -> None:
        """Refuse a command that cannot be encoded."""
        client.unwatch(number)
        if client.tickets.pop(number, None) is not None:
            self._refuse(client.connection, command, Failure(code, text))

    def _refuse(self, connection: ClientConnection, command: Command, failure: Failure) -> None:
        if isinstance(command, Send | SendOnce):
            connection.refuse(command.ticket, failure)
        else:
            connection.answer(Refused(getattr(command, "ticket", None), failure))

    def _obstacle(self, connection: ClientConnection, kind: Kind | None, command: Command) -> Failure | None:
        if kind is None:
            return Failure(ErrorCode.NOT_SUPPORTED, f"{type(command).__name__} is not served by a gateway")
        if connection.refusal is not None and isinstance(command, Send | SendOnce):
            return connection.refusal
        if self._stream.unacknowledged_bytes > self.held_bytes_max:
            return Failure(ErrorCode.OVERLOADED, "too many requests wait for the store: ask again")
        if not self.linked and self._clock.monotonic_ns() - self._away_since_ns > AWAY_NS:
            return Failure(ErrorCode.STORE_UNAVAILABLE, "the store is not reached: ask again")
        return None

    def _enter(self, connection: ClientConnection, command: Command) -> ForwardedClient:
        if isinstance(command, Attach):
            connection.ends_at = command.ends_at
        # A stream that no store has greeted yet may become one of the version whose items have no length.
        sized = self._welcome is not None and self._welcome.version != UNSIZED
        self._client_number += 1
        client = ForwardedClient(self._client_number, connection)
        self._clients[connection] = self._numbered[client.number] = client
        ends_at = connection.ends_at if sized else EndsAt.NONE
        described = ClientItem(client.number, connection.protocol, connection.host, connection.shared, ends_at)
        self._stream.put(item.put_client(described))
        connection.on_stalled = partial(self._stalled, client, True)
        connection.on_writable = partial(self._stalled, client, False)
        if connection.stalled:
            self._stalled(client, True)
        return client

    def _post(self, client: int, ticket: int, command: Command, kind: Kind, principal: Principal | None) -> None:
        out = [item.COMMAND_HEAD.pack(item.COMMAND, client, ticket, self._principals.of(principal))]
        kind.put(out, command, self._stream.sized)
        self._stream.put(out)

    def _leave(self, connection: ClientConnection, command: Disconnected) -> None:
        client = self._clients.pop(connection, None)
        if client is not None:
            client.departed = True
            self._post(client.number, item.NO_TICKET, command, self._kinds[Disconnected], None)
        connection.on_stalled = None
        connection.end()

    def _stalled(self, client: ForwardedClient, stalled: bool) -> None:
        """Report that the client does not read, or reads again."""
        if client.number in self._numbered:
            self._stream.put([item.CLIENT_HEAD.pack(item.STALLED, client.number), b"\x01" if stalled else b"\x00"])

    # Events

    def _unread(self, reader: Reader, error: WireError) -> None:
        """Answer the client of an unreadable event with a failure. Raises WireError when the client is unknown."""
        if reader.take(1)[0] != item.EVENT:
            raise error
        number, ticket_number = reader.unpack(item.OF_EVENT)
        client = self._numbered.get(number)
        if client is None or client.departed:
            return
        watch = client.watches.get(ticket_number)
        if watch is not None and client.connection.shared:
            ended = Unwatch(watch.ticket) if isinstance(watch, Watch) else LeaveDataTopic(watch.ticket)
            self.handle(client.connection, ended)
            self.handle(client.connection, watch)
        elif watch is not None or not ticket_number:
            if not client.connection.shared:
                client.connection.driver.close()
        else:
            ticket = client.tickets.pop(ticket_number, None)
            if ticket is not None:
                failure = Failure(ErrorCode.INTERNAL, f"the answer of the store's node could not be read: {error}")
                client.refuse(ticket, failure)

    def _give_back(self, asked: Receive, event: Received) -> None:
        """Withdraw the leases of messages whose client has gone: no delivery is counted."""
        receipts = [each.receipt for each in event.messages]
        command = Extend(None, asked.group, asked.topic, receipts, 0, untold=True)
        self._post(_OWN, item.NO_TICKET, command, self._kinds[Extend], GATEWAY)
