"""Relay of a node: resources shared by the sessions of its client connections, in front of the other use cases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from domain.command import Command
from domain.nameserver.route import BrokerAddresses
from gateway.apache.relay.brokers import OpenPort
from gateway.apache.relay.servers import NAMESERVER, RelayServers
from gateway.apache.relay.session import RelaySession
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from protocols.remoting.relayed.exchange import RelayFrames


@final
class Relay:
    """Use case of RelayFrames of all connections."""

    def __init__(self, servers: RelayServers) -> None:
        self.servers = servers
        self._sessions: dict[ClientConnection, RelaySession] = {}

    def before(self, handler: Handler) -> Handler:
        """A handler that passes RelayFrames to this relay, and all other commands to `handler`."""
        return RelayFirst(self, handler)

    def start(self, open_port: OpenPort) -> None:
        """Serve clients from now on. `open_port` opens the port of a broker."""
        self.servers.brokers.open_port = open_port

    def stop(self) -> None:
        """Open no more ports."""
        self.servers.brokers.open_port = None

    def notified(self, brokers: Iterable[BrokerAddresses]) -> None:
        """Learn all brokers: the port of each is opened before a client queries a route."""
        found = sorted(brokers, key=lambda each: each.broker)
        for each in found:
            self.servers.brokers.learn(each.broker, each.addresses)
            for _, where in sorted(each.addresses.items()):
                self.servers.brokers.reached_at(where)
        if found:
            self.servers.brokers.forget_others({each.broker for each in found})

    def take(self, connection: ClientConnection, command: RelayFrames) -> None:
        """Process frames of a client."""
        session = self._sessions.get(connection)
        if session is None:
            nameserver = command.local_port == self.servers.ports.get("nameserver")
            pin = NAMESERVER if nameserver else self.servers.brokers.pin(command.local_port)
            session = self._sessions[connection] = RelaySession(self.servers, connection, pin)
            connection.known_elsewhere = True
            connection.on_close.append(lambda: self._end(connection))
        session.take(command.frames)

    def _end(self, connection: ClientConnection) -> None:
        del self._sessions[connection]

    def unanswered_bytes(self) -> int:
        """Bytes of requests in flight to servers."""
        return sum(each.unanswered_bytes() for each in self._sessions.values())

    def figures(self) -> dict[str, float]:
        """Metrics, by name."""
        return {
            "relay_clients": len(self._sessions),
            "relay_unanswered_bytes": self.unanswered_bytes(),
            "relay_losses_total": self.servers.losses,
            "relay_brokers": len(self.servers.brokers.ports),
        }


@final
class RelayFirst:
    """Handler that passes RelayFrames to the relay, and other commands to the next handler."""

    def __init__(self, relay: Relay, handler: Handler) -> None:
        self._take = relay.take
        self._handle = handler.handle

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Pass a command to the relay or to the next handler."""
        if type(command) is RelayFrames:
            self._take(connection, command)
        else:
            self._handle(connection, command)
