"""A whole node in memory, with clients of CoAP over UDP and over a stream: virtual time, and a disk that survives kills."""

from __future__ import annotations

from collections.abc import Sequence

from domain.access.access import Credentials
from domain.address import host_bytes
from domain.command import Command, Disconnected
from domain.event import Event
from gateway.connection.client_connection import ClientConnection
from gateway.node.composition import Parts, StorePlace, compose
from gateway.node.settings import Config
from protocols.adapter import Connection, Endpoint, Peer
from protocols.coap.message import message, option, signal
from protocols.coap.message.frame import Frame, StreamFraming
from protocols.coap.message.message import Packet, Pairs
from tests.connection_driver import StrictDriver
from tests.place import place_of
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import SeededEntropy
from tests.simulation.world import PORTS


class Broker:
    """A node that can be killed and started again. `config`: of all its lives."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config(tables={"coap": {"amplification": 0}})
        self.clock = VirtualClock()
        self.disk = MemoryDisk(self.clock)
        self.lives = 0
        self.start()

    def start(self) -> None:
        """Compose a node with the files on the disk."""
        self.lives += 1
        place = place_of(self.config, PORTS, "10.0.0.1", self.clock, SeededEntropy(self.lives))
        self.parts = compose(place, StorePlace(self.disk, 1 << 30))
        self.clock.run_for(100)
        self.devices = Devices(self.parts, self.clock)

    def kill(self) -> None:
        """kill -9, and a new start."""
        clock = VirtualClock(self.clock.wall_ms())
        self.clock = clock
        self.disk = self.disk.killed(clock)
        self.start()


class Served(StrictDriver):
    """What a node serves over UDP or over one stream, `machine`, and the connection whose events it is given."""

    def __init__(self, parts: Parts, clock: VirtualClock, machine: Endpoint | Connection, shared: bool) -> None:
        self.clock, self.gate, self.machine = clock, parts.gate, machine
        self.connection = ClientConnection("coap", self, shared=shared)

    def answer(self, event: Event) -> None:
        self.machine.answer(event, self.clock.monotonic_ns())

    def carry_out(self, commands: Sequence[Command]) -> None:
        """Hand over commands, and let time pass until the answers are there."""
        for command in commands:
            if not isinstance(command, Disconnected):
                self.gate.handle(self.connection, command)
        self.run(20)

    def run(self, milliseconds: int) -> None:
        """Let time pass for the node and for what it serves: the deadlines of both are kept."""
        for _ in range(milliseconds):
            self.clock.run_for(1)
            while (due := self.machine.deadline()) is not None and due <= self.clock.monotonic_ns():
                for command in self.machine.expire(self.clock.monotonic_ns()):
                    self.gate.handle(self.connection, command)
                self.clock.run_turn()


class Devices(Served):
    """The UDP endpoint, and what it sends to its peers."""

    def __init__(self, parts: Parts, clock: VirtualClock) -> None:
        self.endpoint: Endpoint = parts.adapters.datagrams["coap"].bind(clock.monotonic_ns())
        super().__init__(parts, clock, self.endpoint, True)
        self.mail: dict[tuple[str, int], list[Packet]] = {}
        self.mid = 0

    def device(self, port: int = 40_000, host: str = "192.0.2.1", credentials: Credentials | None = None) -> Device:
        """A device; with credentials it has a session, as by DTLS."""
        source = host_bytes(host, port + (1 << 16)) if credentials is not None else b""
        return Device(self, Peer(host, port, host_bytes(host, port))._replace(source=source, credentials=credentials))

    def sent_to(self, address: tuple[str, int]) -> list[Packet]:
        """Take what has been sent to one address."""
        for data, to in self.endpoint.outgoing():
            packet = message.decode(data)
            assert packet is not None
            self.mail.setdefault(to, []).append(packet)
        return self.mail.pop(address, [])


class Device:
    """One peer of the UDP endpoint."""

    def __init__(self, devices: Devices, peer: Peer) -> None:
        self.devices = devices
        self.peer = peer
        self.kept: list[Packet] = []

    def ask(
        self, code: int, path: str, payload: bytes = b"", *, token: bytes = b"tk", pairs: Pairs | None = None,
        query: Sequence[str] = (), kind: int = message.CON,
    ) -> Packet:  # fmt: skip
        """The response to one request. Notifications that come meanwhile are kept."""
        found = self.say(code, path, payload, token=token, pairs=pairs, query=query, kind=kind)
        [answer] = [each for each in found if each.kind == message.ACK or (kind == message.NON and each.token == token)]
        self.kept += [each for each in found if each is not answer]
        return answer

    def say(
        self, code: int, path: str, payload: bytes = b"", *, token: bytes = b"tk", pairs: Pairs | None = None,
        query: Sequence[str] = (), kind: int = message.CON,
    ) -> list[Packet]:  # fmt: skip
        """All that comes upon one request."""
        options: Pairs = [(option.URI_PATH, level.encode()) for level in path.strip("/").split("/")]
        options += [(option.URI_QUERY, text.encode()) for text in query] + (pairs or [])
        self.devices.mid += 1
        self.push(message.encode(kind, code, self.devices.mid, token, message.join(options), payload))
        return self.take()

    def response(self, code: int, path: str, payload: bytes, pairs: Pairs, query: Sequence[str] = ()) -> Packet:
        """The response to one request, however late; where it demands an Echo (RFC 9175), that to the request with it."""
        token = (self.devices.mid + 1).to_bytes(4, "big")
        found = self.say(code, path, payload, token=token, pairs=pairs, query=query)
        for _ in range(1_000):
            if any(each.code and each.token == token for each in found):
                break
            self.devices.run(5)
            found += self.take()
        answer = next(each for each in found if each.code and each.token == token)
        echo = [(number, value) for number, value in answer.options if number == option.ECHO]
        if answer.code != message.UNAUTHORIZED or not echo or any(number == option.ECHO for number, _ in pairs):
            return answer
        return self.response(code, path, payload, [*pairs, *echo], query)

    def push(self, data: bytes) -> None:
        """One datagram, carried out."""
        now = self.devices.clock.monotonic_ns()
        self.devices.carry_out(self.devices.endpoint.receive(data, self.peer, now))

    def take(self) -> list[Packet]:
        """What has been sent to it."""
        return self.devices.sent_to((self.peer.host, self.peer.port))

    def notes(self) -> list[Packet]:
        """The notifications that wait, each acknowledged; those that came twice, since nobody had acknowledged them, once."""
        found: dict[int, Packet] = {}
        waiting = [*self.kept, *self.take()]
        self.kept = []
        while waiting:
            packet = waiting.pop(0)
            if packet.mid not in found:
                found[packet.mid] = packet
                self.push(message.empty(message.ACK, packet.mid))
            waiting += self.take()
        return list(found.values())


class Streamed(Served):
    """A client over TCP."""

    def __init__(self, parts: Parts, clock: VirtualClock, peer: Peer) -> None:
        self.wire: Connection = parts.adapters.streams["coap"].connect(peer, clock.monotonic_ns())
        super().__init__(parts, clock, self.wire, False)
        self.connection.host = peer.host
        self.framing = StreamFraming(1 << 24)
        self.frames()
        self.ask(signal.CSM)

    def ask(
        self, code: int, path: str = "", payload: bytes = b"", token: bytes = b"tk", pairs: Pairs | None = None
    ) -> list[Frame]:
        """What comes upon one request."""
        options: Pairs = [(option.URI_PATH, level.encode()) for level in path.split("/") if level] + (pairs or [])
        data = self.framing.encode(code, token, message.join(options), payload)
        self.carry_out(self.wire.receive(data, self.clock.monotonic_ns()))
        return self.frames()

    def frames(self) -> list[Frame]:
        """What has been written to it."""
        for data in self.wire.outgoing():
            self.framing.feed(data)
        return list(iter(self.framing.take, None))

    def close(self) -> None:
        """It goes away."""
        self.carry_out(self.wire.receive(b"", self.clock.monotonic_ns()))
        self.connection.end()
