"""The ports of a node for its clients, and the connections there."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from domain.ports import Clock
from domain.walk import Walk, Walks
from gateway.connection.client_connection import ClientConnection
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.guard.admission import Admission
from gateway.guard.descriptors import CLIENTS
from gateway.guard.proxies import Proxies
from gateway.guard.settings import ProxySettings
from gateway.node.client_side import ClientSide
from gateway.node.protocols import Protocols
from gateway.node.roles.follower_port import FollowerPort
from gateway.node.roles.role import Role
from gateway.node.roles.role_names import READERS
from gateway.node.settings import Config
from gateway.runtime.address import bind
from gateway.runtime.datagrams.group import share_by_host
from gateway.runtime.datagrams.pump import DatagramPump
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.security import openssl
from gateway.runtime.security.dtls_endpoint import DtlsEndpoint
from gateway.runtime.stream import StreamListener, end_in_order, reset_when_killed
from gateway.runtime.tls import TlsContexts
from protocols.adapter import Endpoint, Peer, SecuredEndpoint
from protocols.declaration import Listener
from protocols.proxy.connection import ProxiedConnection
from protocols.registry import Opening

LAST_ANSWERS_S: Final = 10.0
"""Seconds that clients have to take their last answers."""
log = logging.getLogger("headgate.node")


@final
class ClientPorts:
    """Serves the clients of an open role.

    room      connections for which there are file descriptors
    context   what all connections share, but those of readers
    """

    def __init__(
        self, config: Config, protocols: Protocols, clock: Clock, role: Role, tls: TlsContexts, room: Mapping[str, int],
        ports: dict[str, int],
    ) -> None:  # fmt: skip
        """`room`: CLIENTS and each part of the process -> its share. `ports`: listener -> bound port; ports that cannot be
        served leave it."""
        self._config = config
        self._protocols = protocols
        self._clock = clock
        self._role = role
        self._side = role.client_side
        self._tls = tls
        self._ports = ports
        self._reader_room = room[CLIENTS]
        self._proxies = Proxies(config.part(ProxySettings, "proxy"))
        self._walks = Walks(clock)
        self._streams: list[StreamListener] = []
        self._datagrams: list[DatagramPump] = []
        self._readers: FollowerPort | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self.room = room.get(config.roles, room[CLIENTS])
        self.context = self._context(self._side, role.unfinished_bytes, self.room)

    def _context(self, side: ClientSide, unfinished_bytes: Callable[[], int], room: int) -> ConnectionContext:
        most = min(self._config.connections_max, room)
        limits = ConnectionLimits(most, Admission(side.limits, most), self._proxies.holds, side.access is not None)
        return ConnectionContext(
            side.gate, self._clock, side.counter_registry, limits, end_in_order, side.limits.output_bytes_max, unfinished_bytes,
            side.unread,
        )  # fmt: skip

    async def open(self, name: str, bound: socket.socket) -> None:
        """Serve the port of a listener. Closes it when no protocol that it accepts is available."""
        listener, adapters = self._protocols.listeners[name], self._side.adapters
        if listener.resets:
            reset_when_killed(bound)
        if name == READERS:
            self._serve_readers(listener, bound)
        elif listener.datagrams and listener.secure and openssl.library() is None:
            log.warning("port %s is not opened: there is no libssl.so.3 on this system, and DTLS needs it", name)
            self._leave_out(name, bound)
        elif listener.datagrams:
            endpoint: Endpoint = adapters.datagrams[self._protocols.owners[name]].bind(self._clock.monotonic_ns())
            if listener.secure:
                endpoint = self._inside_dtls(endpoint)
            pump = DatagramPump(self.context, share_by_host(bound), endpoint, name, asyncio.get_running_loop())
            pump.open()
            self._datagrams.append(pump)
        elif self._protocols.taken(listener, adapters.streams):
            stream = StreamListener(name, bound)
            await stream.open(self._pump_of(listener, self._side, self.context))
            self._streams.append(stream)
        else:
            self._leave_out(name, bound)

    def _leave_out(self, name: str, bound: socket.socket) -> None:
        bound.close()
        del self._ports[name]

    def open_port(self, name: str, port: int) -> int:
        """Serve one more port, 0 for any, as that of the listener `name` -> the port. Raises ConfigError when it is taken."""
        bound = bind(name, self._config.host, port)
        stream = StreamListener(name, bound)
        self._streams.append(stream)
        make = self._pump_of(self._protocols.listeners[name], self._side, self.context)
        opening = asyncio.get_running_loop().create_task(stream.open(make))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        return int(bound.getsockname()[1])

    def _serve_readers(self, listener: Listener, bound: socket.socket) -> None:
        """Have a replica open its port of readers, while it follows."""
        self._readers = FollowerPort(
            bound,
            lambda side: self._context(side, lambda: 0, self._reader_room),
            lambda *served: self._pump_of(listener, *served),
        )
        self._role.serve_readers(self._readers.serve)

    def _inside_dtls(self, endpoint: Endpoint) -> DtlsEndpoint:
        """The endpoint with DTLS around it; users prove themselves by certificates, or by their passwords as keys."""
        assert isinstance(endpoint, SecuredEndpoint)
        access = self._side.access
        entropy = SystemEntropy()
        context = self._tls.for_datagrams(_nobody if access is None else access.shared_key, entropy.token)
        return DtlsEndpoint(endpoint, context, entropy.token(16), None if access is None else access.wrong_key)

    def _pump_of(self, listener: Listener, side: ClientSide, context: ConnectionContext) -> Callable[[], Pump]:
        """The function that makes a pump for each connection to one listener."""
        adapters = self._protocols.taken(listener, side.adapters.streams)
        recogniser, secure = self._protocols.recogniser, self._tls.secure(adapters)
        plain = {} if listener.secure or self._config.tls_only else adapters
        proxies = self._proxies
        labels = self._protocols.labels(listener)

        def direct(peer: Peer, now: int) -> Opening:
            return Opening(recogniser, plain, secure, peer, now)

        def connect(peer: Peer, now: int) -> Opening | ProxiedConnection:
            return ProxiedConnection(direct, proxies.required, peer, now) if proxies.holds(peer.host) else direct(peer, now)

        def make() -> Pump:
            return Pump(context, listener.name, connect if proxies else direct, labels)

        return make

    def end_clients(self, reason: str, clients: Sequence[ClientConnection]) -> None:
        """End connections, each in the words of its protocol; clients come back, here or elsewhere."""
        log.warning("%d clients are told to come back later: %s", len(clients), reason)
        self._walks.begin(self._end({client for client in clients if not client.shared}))

    def _end(self, left: set[ClientConnection]) -> Walk:
        for pump in list(self.context.pumps):
            if pump.client in left:
                left.discard(pump.client)
                if not pump.drain():
                    pump.close()
                yield
        for channel in list(left):
            channel.driver.close()
            yield

    def kept(self) -> dict[str, socket.socket]:
        """Copies of the listening stream sockets, by listener: connections wait there after these ports are closed."""
        return {each.name: each.socket.dup() for each in self._streams}

    # Stop, in this order

    def pause(self) -> None:
        """Accept and read nothing more."""
        if self._readers is not None:
            self._readers.close()
        for listener in self._streams:
            listener.close()
        for pump in self.context.pumps:
            pump.pause()
        for datagrams in self._datagrams:
            datagrams.pause()

    def drain(self) -> Sequence[Pump]:
        """End all connections as their protocols do when a node stops -> those that have no such end."""
        for datagrams in self._datagrams:
            datagrams.close()
        return [pump for pump in list(self.context.pumps) if not pump.drain()]

    async def close(self, others: Sequence[Pump]) -> None:
        """Close `others`, and abort what is open after LAST_ANSWERS_S."""
        for pump in others:
            pump.close()
        pumps = self.context.pumps
        loop = asyncio.get_running_loop()
        limit = loop.time() + LAST_ANSWERS_S
        while pumps and loop.time() < limit:
            await asyncio.sleep(0.005)
        for pump in list(pumps):
            pump.abort()


def _nobody(_identity: str, _host: str) -> None:
    """The key of a user where access is not controlled: there are no users."""
