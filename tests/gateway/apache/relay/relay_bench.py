"""A relay with scripted servers and clients, under virtual time: real frames, pumps and sessions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from domain.access.access import Authority
from domain.address import endpoint_text
from domain.errors import ConfigError
from domain.limits import SECOND_NS
from domain.nameserver.route import BrokerAddresses
from gateway.apache.relay.brokers import RelayBrokers
from gateway.apache.relay.relay import Relay
from gateway.apache.relay.servers import RelayServers
from gateway.apache.relay.settings import RelaySettings
from gateway.apache.relay.uplink import FULL_BYTES
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.link.dialer import SocketWire
from gateway.link.wire import Wire, WireUser
from gateway.observe.counters import CounterRegistry
from protocols.remoting.relayed.connection import RelayAdapter
from protocols.remoting.settings import RemotingSettings
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import FLAG_ONEWAY, FLAG_RESPONSE, JSON
from protocols.setting import Setting
from tests.gateway.scripted import FakeTransport
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.entropy import FixedEntropy

NAMESERVER_PORT, REMOTING_PORT, FIRST_PORT = 9876, 10911, 10921
A, B = "10.0.0.1:10911", "10.0.0.2:10911"
NAMESERVERS = (("10.0.0.9", 9876), ("10.0.0.8", 9876))


@dataclass
class Server:
    """One connection to a server, as the server sees it."""

    where: str
    wire: SocketWire
    transport: FakeTransport = field(default_factory=FakeTransport)

    def refuse(self, reason: str) -> None:
        self.wire._end(reason)

    @property
    def stopped(self) -> bool:
        return self.wire._ended

    def accept(self) -> Server:
        self.wire.connection_made(cast(asyncio.Transport, self.transport))
        return self

    def got(self) -> list[Frame]:
        """The frames that have come since the last call."""
        data, self.transport.writes = b"".join(self.transport.writes), []
        return FrameDecoder().feed(data)

    def say(self, data: bytes) -> None:
        self.wire.data_received(data)

    def answer(self, request: Frame, code: int = 0, body: bytes = b"", remark: str = "") -> None:
        self.say(encode(code, request.opaque, flag=FLAG_RESPONSE, body=body, remark=remark, serialize=request.serialize))

    def lose(self) -> None:
        self.wire.connection_lost(None)


class Client:
    """One connection of a client."""

    def __init__(self, bench: RelayBench, port: int, host: str) -> None:
        self._bench = bench
        self.transport = FakeTransport(host, port)
        self.pump = Pump(bench.context, "remoting", bench.adapter.connect)
        self.pump.connection_made(self.transport)
        self._decoder = FrameDecoder()
        self._numbers = itertools.count(1)

    def ask(
        self, code: int, body: bytes = b"", oneway: bool = False, serialize: int = JSON, version: int = 513, **fields: str
    ) -> int:
        """Send a request; returns its number."""
        opaque = next(self._numbers)
        flag = FLAG_ONEWAY if oneway else 0
        self.send(encode(code, opaque, fields=fields, body=body, flag=flag, serialize=serialize, version=version))
        return opaque

    def send(self, data: bytes) -> None:
        """Bytes, in chunks as a loop reads them."""
        for at in range(0, len(data), 65_536):
            self.pump.data_received(data[at : at + 65_536])
            self._bench.clock.run_ns(1)

    def got(self) -> list[Frame]:
        """The frames that have come since the last call."""
        self._bench.clock.run_turn()
        data, self.transport.writes = b"".join(self.transport.writes), []
        return self._decoder.feed(data)

    @property
    def closed(self) -> bool:
        self._bench.clock.run_turn()
        return self.transport.closing or self.transport.aborted


class RelayBench:
    """A relay before two name servers and the brokers `broker-a` at A and `broker-b` at B."""

    def __init__(self, kept: dict[str, int] | None = None, authority: Authority | None = None, **settings: object) -> None:
        """`authority` checks signatures, as with the setting check_signatures; `settings` are of RelaySettings."""
        self.clock = VirtualClock()
        self.servers: list[Server] = []
        self.opened: list[int] = []
        self.taken: set[int] = set()
        self.kept: dict[str, int] = {}
        chosen = RelaySettings(**{"broker_ports": FIRST_PORT, **settings})  # type: ignore[arg-type]
        self.brokers = RelayBrokers("gw", chosen, kept or {}, self.kept.__setitem__)
        self.ports = {"nameserver": NAMESERVER_PORT, "remoting": REMOTING_PORT}
        servers = RelayServers(NAMESERVERS, self.brokers, self.ports, self, self.clock, chosen, 16 * 1024 * 1024)
        self.relay = Relay(servers)
        self.passed: list[object] = []
        counters = CounterRegistry()
        self.context = ConnectionContext(self.relay.before(self), self.clock, counters, ConnectionLimits(1_000))
        self.setting = Setting("C", "b", "gw", self.ports, FixedEntropy(), self.clock.wall_ms, authority)
        self.adapter = RelayAdapter(self.setting, RemotingSettings(), checked=authority is not None)

    def handle(self, connection: object, command: object) -> None:
        self.passed.append(command)

    def dial(self, host: str, port: int, user: WireUser, on_full: Callable[[bool], None] | None = None) -> Wire:
        server = Server(endpoint_text(host, port), SocketWire(host, port, user, FULL_BYTES, on_full))
        self.servers.append(server)
        return server.wire

    def open_port(self, port: int) -> int:
        if port in self.taken:
            raise ConfigError(f"port {port} is taken")
        self.opened.append(port)
        return port

    def start(self, *names: str) -> RelayBench:
        """Start, and tell of the brokers."""
        self.relay.start(self.open_port)
        self.notify(*(names or ("broker-a", "broker-b")))
        return self

    def notify(self, *names: str) -> None:
        """The name servers know these brokers, and no others."""
        self.relay.notified([BrokerAddresses("C", name, {0: WHERE[name]}) for name in names])

    def next(self) -> Server:
        """The connection that was asked for last."""
        return self.servers[-1]

    def to(self, where: str) -> Server:
        """The last connection to an address."""
        return [each for each in self.servers if each.where == where][-1]

    def client(self, port: int, host: str = "10.1.2.3") -> Client:
        return Client(self, port, host)

    def second(self, count: int = 1) -> None:
        self.clock.run_ns(count * SECOND_NS)


WHERE = {"broker-a": A, "broker-b": B}


def broker(name: str, cluster: str = "C") -> dict[str, object]:
    return {"brokerAddrs": {"0": WHERE[name]}, "brokerName": name, "cluster": cluster, "enableActingMaster": False}


def cluster_info(*names: str, cluster: str = "C") -> bytes:
    table = {name: broker(name, cluster) for name in names}
    return fastjson.dumps({"brokerAddrTable": table, "clusterAddrTable": {cluster: list(names)}})


def route(*names: str, cluster: str = "C") -> bytes:
    queues = [{"brokerName": name, "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4} for name in names]
    return fastjson.dumps(
        {"brokerDatas": [broker(name, cluster) for name in names], "filterServerTable": {}, "queueDatas": queues, "kept": [1]}
    )
