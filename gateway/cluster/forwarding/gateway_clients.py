"""Store side of forwarding: handles the commands of gateways' clients, each client on a ClientConnection of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, final

from domain.client.node import GreetNode, NodeFrame, NodeFrameOut, NodeGreeted
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.limits import SECOND_NS
from domain.store.message_store import MessageStore
from domain.walk import Walks
from gateway.cluster.forwarding.gateway_life import GatewayLife
from gateway.cluster.forwarding.space_source import SpaceSource
from gateway.cluster.forwarding.traffic import GatewaysTraffic, Traffic
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import CommandEntry
from protocols.remoting.nodes.calls.octets import Out, WireError
from protocols.remoting.nodes.forwarding import item
from protocols.remoting.nodes.forwarding.greeting import Greeting, Welcome, encode, greeting_of
from protocols.remoting.nodes.forwarding.stream import AWAY_NS, TICK_NS, VERSIONS, ItemError

DROPPED_BYTES: Final = 128 * 1024 * 1024
"""Bytes of events that a gateway has not got, above which it is given up."""
HEAD_BYTES: Final = 29
"""Bytes of a frame of the remoting protocol that holds a frame between nodes, beside that."""
log = logging.getLogger("headgate.forwarding")


class GatewaySeen(NamedTuple):
    """A gateway, as this node sees it.

    life       hexadecimal name of this life of its process
    clients    number of its clients
    connected  True: it has a connection
    quiet_ns   nanoseconds since its last frame; it sends one each second
    """

    life: str
    name: str
    clients: int
    connected: bool
    quiet_ns: int


@final
class ForwardedClients:
    """The use case of GreetNode and NodeFrame."""

    def __init__(
        self,
        entry: CommandEntry,
        walks: Walks,
        store: MessageStore,
        welcome: Welcome,
        versions: Sequence[int] = VERSIONS,
    ) -> None:
        """`entry`: where the commands of clients go. `welcome`: of a gateway that is not known yet. `versions`: of the frames,
        the newest first."""
        self._entry = entry
        self._walks = walks
        self._clock = walks.clock
        self._versions = versions
        self._welcome = welcome
        self._unanswered_bytes = store.unanswered_bytes
        self._gateways: dict[str, GatewayLife] = {}
        self._greeted: dict[ClientConnection, GatewayLife] = {}
        self._ticking = False
        self._traffic = GatewaysTraffic()
        self._link_bytes = [0, 0]
        self._spaces = SpaceSource(store.state, self._copy)
        self.verbs: Mapping[type[Command], Callable[[ClientConnection, Any], None]] = {
            GreetNode: self._greet,
            NodeFrame: self._frame,
        }

    @property
    def gateways(self) -> Sequence[GatewaySeen]:
        """The gateways, those too that have had no connection for a short time."""
        now = self._clock.monotonic_ns()
        return [
            GatewaySeen(each.life, each.name, len(each.clients), each.connection is not None, now - each.heard_ns)
            for each in self._gateways.values()
        ]

    @property
    def traffic(self) -> Traffic:
        """Traffic on the ports of all gateways, less what their connections have brought to a port of this node."""
        bytes_in, bytes_out = self._link_bytes
        total = self._traffic.total
        return total._replace(bytes_in=total.bytes_in - bytes_in, bytes_out=total.bytes_out - bytes_out)

    def report(self, space: str, key: bytes, value: bytes) -> None:
        """Set a value of a space of this node; all gateways get it, later ones too."""
        self._spaces.report(space, key, value)

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

    def _welcomed(self, greeting: Greeting, connection: ClientConnection) -> tuple[Welcome, GatewayLife]:
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
        gateway = self._gateways[greeting.life] = GatewayLife(greeting, self._walks, self._entry, self._traffic)
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

    def _refuse(self, gateway: GatewayLife, error: WireError) -> None:
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

    def _unlink(self, gateway: GatewayLife) -> None:
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

    def _drop(self, gateway: GatewayLife, why: str) -> None:
        log.warning("gateway %s is lost, with %d clients: %s", gateway.name, len(gateway.clients), why)
        self._gateways.pop(gateway.life, None)
        self._walks.begin(gateway.end(self._unanswered_bytes))
