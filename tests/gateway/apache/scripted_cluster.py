"""Servers of a cluster that do as they are told: real frames, no sockets, virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from domain.errors import GatewayError
from gateway.link.wire import WireUser
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import FLAG_RESPONSE
from tests.simulation.kit.clock import VirtualClock

WAY_NS = 500_000
"""Time that bytes take in one direction."""

Reply = tuple[int, Mapping[str, str], bytes] | tuple[int, Mapping[str, str], bytes, str] | None
"""(response code, ext fields, body); None: no answer."""


class ScriptedServer:
    """One server. What it answers is set by `on`.

    requests   all that it was sent, in order
    up         False: connections are refused, and those that there are end when it is set by `stop`
    silent     True: it takes requests and says nothing
    """

    def __init__(self, name: str, clock: VirtualClock) -> None:
        self.name = name
        self.clock = clock
        self.requests: list[Frame] = []
        self.up = True
        self.silent = False
        self.connections: list[ScriptedWire] = []
        self._answers: dict[int, Callable[[Frame], Reply]] = {}

    def on(self, code: int, answer: Callable[[Frame], Reply]) -> None:
        """Answer requests of a code. Others are answered as not supported."""
        self._answers[code] = answer

    def codes(self) -> list[int]:
        """The codes of all requests."""
        return [frame.code for frame in self.requests]

    def stop(self) -> None:
        """Refuse connections, and end those that there are."""
        self.up = False
        for each in self.connections[:]:
            each.end("the connection was closed")

    def take(self, wire: ScriptedWire, frame: Frame) -> None:
        """A request."""
        self.requests.append(frame)
        if self.silent or frame.oneway or frame.response:
            return
        answer = self._answers.get(frame.code)
        found = (codes.NOT_SUPPORTED, {"a": "b"}, b"") if answer is None else answer(frame)
        if found is not None:
            wire.notify(reply_to(frame, *found))


def reply_to(frame: Frame, code: int, fields: Mapping[str, str], body: bytes = b"", remark: str = "") -> bytes:
    """The frame that answers a request."""
    return encode(code, frame.opaque, fields=fields, body=body, flag=FLAG_RESPONSE, serialize=frame.serialize, remark=remark)


class ScriptedWire:
    """One connection to a server."""

    def __init__(self, server: ScriptedServer | None, clock: VirtualClock, user: WireUser) -> None:
        self._server = server
        self._clock = clock
        self._user = user
        self._decoder = FrameDecoder()
        self.closed = False
        self._later(self._open)

    def _later(self, what: Callable[[], None]) -> None:
        self._clock.call_at(self._clock.monotonic_ns() + WAY_NS, what)

    def _open(self) -> None:
        if self.closed:
            return
        if self._server is None or not self._server.up:
            self.end("no connection (Connection refused)")
            return
        self._server.connections.append(self)
        self._user.opened()

    def write(self, data: bytes) -> None:
        """Wire.write."""
        if not self.closed:
            self._later(lambda: self._arrive(data))

    def _arrive(self, data: bytes) -> None:
        if self._server is not None and not self.closed:
            for frame in self._decoder.feed(data):
                self._server.take(self, frame)

    def notify(self, data: bytes) -> None:
        """Bytes of the server."""
        self._later(lambda: self._hear(data))

    def _hear(self, data: bytes) -> None:
        if self.closed:
            return
        try:
            self._user.received(data)
        except GatewayError as error:
            self.end(str(error))

    def set_reading(self, reading: bool) -> None:
        """Wire.set_reading: bytes on their way arrive all the same."""

    def close(self) -> None:
        """Wire.close."""
        self.closed = True
        if self._server is not None and self in self._server.connections:
            self._server.connections.remove(self)

    def end(self, reason: str) -> None:
        """The connection ends."""
        if not self.closed:
            self.close()
            self._user.ended(reason)


class ScriptedCluster:
    """Servers by address: the `Dialer` port.

    topics   topic -> broker -> (read queues, write queues, perm); what the name server tells
    zones    broker -> zone
    """

    def __init__(self, clock: VirtualClock, brokers: int = 2) -> None:
        self.clock = clock
        self.servers: dict[tuple[str, int], ScriptedServer] = {}
        self.topics: dict[str, dict[str, tuple[int, int, int]]] = {}
        self.zones: dict[str, str] = {}
        self.nameserver = self.add("ns", "10.0.0.9", 9876)
        self.brokers = {
            name: self.add(name, f"10.0.0.{at + 1}", 10911)
            for at, name in enumerate(f"broker-{'abcdefgh'[each]}" for each in range(brokers))
        }
        self.listed = set(self.brokers)
        self.tell_routes(self.nameserver)

    def add(self, name: str, host: str, port: int) -> ScriptedServer:
        """A server at an address."""
        server = self.servers[host, port] = ScriptedServer(name, self.clock)
        return server

    def tell_routes(self, server: ScriptedServer) -> None:
        """Let a server answer as a name server."""
        server.on(codes.GET_ROUTE, self._route)
        server.on(codes.GET_CLUSTER, self._cluster)

    def dial(self, host: str, port: int, user: WireUser, on_full: Callable[[bool], None] | None = None) -> ScriptedWire:
        """Dialer.dial."""
        return ScriptedWire(self.servers.get((host, port)), self.clock, user)

    def address(self, broker: str) -> str:
        """host:port of a broker."""
        return next(f"{host}:{port}" for (host, port), each in self.servers.items() if each.name == broker)

    def _data(self, broker: str) -> dict[str, Any]:
        found: dict[str, Any] = {"brokerAddrs": {"0": self.address(broker)}, "brokerName": broker, "cluster": "DefaultCluster"}
        if broker in self.zones:
            found["zoneName"] = self.zones[broker]
        return found

    def _route(self, frame: Frame) -> Reply:
        topic = (frame.fields() or {})["topic"]
        queues = {broker: each for broker, each in self.topics.get(topic, {}).items() if broker in self.listed}
        if not queues:
            return codes.TOPIC_NOT_EXIST, {"a": "b"}, b""
        body = {
            "brokerDatas": [self._data(broker) for broker in queues],
            "filterServerTable": {},
            "queueDatas": [
                {"brokerName": broker, "readQueueNums": read, "writeQueueNums": write, "perm": perm, "topicSysFlag": 0}
                for broker, (read, write, perm) in queues.items()
            ],
        }
        return codes.SUCCESS, {}, orjson.dumps(body)

    def _cluster(self, frame: Frame) -> Reply:
        table = {broker: self._data(broker) for broker in sorted(self.listed)}
        return codes.SUCCESS, {}, orjson.dumps({"brokerAddrTable": table, "clusterAddrTable": {}})
