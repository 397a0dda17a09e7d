"""A broker in memory: the real adapter, use cases and store, on a virtual clock, with clients that send and receive bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from domain.client.mqtt_session import AT_MOST_ONCE
from domain.command import Disconnected, Send
from domain.errors import Failure
from domain.event import Event
from domain.message.message import LOCAL_HOST, Message
from domain.store.store_event import unheard
from domain.store.store_ports import MessageLog, ReadResult
from domain.store.store_request import ReadRequest
from gateway.connection.client_connection import ClientConnection
from gateway.node.settings_tables import read
from gateway.usecase.consume.watch import Watches
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.publish.latest import LatestValues
from gateway.usecase.sessions.attached_sessions import AttachedSessions
from gateway.usecase.sessions.sessions import Sessions
from gateway.usecase.topics_and_groups.policy import NodePolicy
from protocols.adapter import Peer
from protocols.mqtt import property as props
from protocols.mqtt.adapter import MqttAdapter
from protocols.mqtt.connect import Connack, Connect, Disconnect, Will
from protocols.mqtt.packet import Decoder, Packet, encode
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.settings import MqttSettings
from protocols.mqtt.subscribe import Suback, Subscribe
from protocols.setting import Setting
from store.engine import open_store
from store.settings import StoreSettings
from tests.connection_driver import StrictDriver
from tests.late_store import reached
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import SeededEntropy

Kind = TypeVar("Kind", bound=Packet)
PEER = Peer("127.0.0.1", 40_000, b"\x7f\x00\x00\x01\x00\x00\x9c\x40")


class CountedLog:
    """The messages of a store, with the number of records that were read in `records`."""

    def __init__(self, log: MessageLog) -> None:
        self._log = log
        self.records = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def read(self, request: ReadRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """MessageLog.read."""

        def counted(result: ReadResult | Failure) -> None:
            if not isinstance(result, Failure):
                self.records += len(result.records)
            done(result)

        self._log.read(request, counted)


class Broker:
    """One node. `kill` discards everything that is not on the disk, and starts the node again with what is."""

    def __init__(self, **options: object) -> None:
        self.clock = VirtualClock()
        self.disk = MemoryDisk(self.clock)
        self.entropy = SeededEntropy(1)
        self.options = options
        self.clients: list[Client] = []
        self.start()

    def start(self) -> None:
        clock, entropy = self.clock, self.entropy
        self.store = open_store(self.disk, clock, StoreSettings(segment_bytes=1024 * 1024), unheard)
        self.log = CountedLog(self.store.log)
        self.store.log = cast("MessageLog", self.log)
        store = reached(self.store, clock)
        self.policy = NodePolicy()
        self.handler = Dispatcher(
            store=store, clock=clock, entropy=entropy, cluster="c", broker="b",
            policy=self.policy,
        )  # fmt: skip
        self.attached = AttachedSessions()
        self.sessions = Sessions(store, clock, self.handler, self.policy, self.attached)
        watches = Watches(clock)
        self.handler.add(watches, self.sessions, LatestValues(store.state, clock, self.handler.reads, ()))
        store.log.listen(watches)
        store.log.listen(self.sessions)
        setting = Setting("c", "b", "127.0.0.1", {}, entropy, clock.wall_ms)
        self.adapter = MqttAdapter(setting, read(MqttSettings, "mqtt", self.options, {}))
        self.clock.run_for(1)

    def kill(self) -> None:
        """Kill the process and start a new one on its files."""
        for client in self.clients:
            client.gone = True
        self.clients.clear()
        self.disk = self.disk.killed(self.clock)
        self.start()

    def run(self, milliseconds: float = 50) -> None:
        """Advance the virtual clock."""
        self.clock.run_for(milliseconds)
        for client in list(self.clients):
            client.poll()

    def client(self, version: int = 4) -> Client:
        """A new network connection."""
        client = Client(self, version)
        self.clients.append(client)
        return client

    def joined(self, client_id: str, version: int = 4, pattern: str = "", options: int = 1, **terms: Any) -> Client:
        """A client that has connected, and subscribed to `pattern` unless that is empty."""
        client = self.client(version)
        client.connect(client_id, **terms)
        if pattern:
            client.subscribe(pattern, options)
        return client

    def publish(self, topic: str, body: bytes, properties: bytes = b"") -> None:
        """Store a message as an SDK sends it."""
        deaf = Deaf()
        self.handler.handle(
            ClientConnection("remoting", deaf), Send(1, [Message(topic, body, properties, born_host=LOCAL_HOST)])
        )
        self.run()


class Deaf(StrictDriver):
    """A shell whose output is discarded."""


class Client(StrictDriver):
    """One network connection of a client, with the packets it has received. `stalled`: the client does not read."""

    def __init__(self, broker: Broker, version: int) -> None:
        self.broker = broker
        self.version = version
        self.connection = broker.adapter.connect(PEER, broker.clock.monotonic_ns())
        self.client_connection = ClientConnection("mqtt", self)
        self.decoder = Decoder(1 << 28, version, client=True)
        self.inbox: list[Packet] = []
        self.reason = ""
        self.gone = False
        self.stalled = False
        self._armed: int | None = None

    # The shell

    def answer(self, event: Event) -> None:
        if not self.gone:
            self.connection.answer(event, self.broker.clock.monotonic_ns())
            self.broker.clock.call_soon(self.poll)

    def close(self) -> None:
        self.drop()

    def poll(self) -> None:
        """Take the server's bytes, as the pump does at the end of a turn."""
        if self.gone:
            return
        if not self.stalled:
            for data in self.connection.outgoing():
                self.hear(data)
        if self.connection.closed:
            self._end()
            return
        deadline = self.connection.deadline()
        if deadline is not None and deadline != self._armed:
            self._armed = deadline
            self.broker.clock.call_at(deadline, self._due)

    def hear(self, data: bytes) -> None:
        """Decode bytes of the server into the inbox."""
        self.inbox += self.decoder.feed(data)
        assert self.decoder.fault is None, self.decoder.fault

    def _due(self) -> None:
        self._armed = None
        if self.gone:
            return
        deadline = self.connection.deadline()
        now = self.broker.clock.monotonic_ns()
        if deadline is not None and deadline <= now:
            self._drive(lambda: self.connection.expire(now))
        self.poll()

    def _drive(self, verb: Callable[[], object]) -> None:
        for command in verb():  # type: ignore[attr-defined]
            if isinstance(command, Disconnected):
                self.reason = command.reason
            self.broker.handler.handle(self.client_connection, command)
        self.poll()

    def _end(self) -> None:
        self.gone = True
        self.client_connection.end()
        if self in self.broker.clients:
            self.broker.clients.remove(self)

    # The client

    def send(self, data: bytes, wait: bool = True) -> None:
        """Send bytes."""
        if data and not self.gone:
            self._drive(lambda: self.connection.receive(data, self.broker.clock.monotonic_ns()))
        if wait:
            self.broker.run()

    def put(self, *packets: Packet, wait: bool = True) -> None:
        """Send packets in one piece."""
        self.send(b"".join(encode(packet, self.version) for packet in packets), wait)

    def drop(self) -> None:
        """Lose the connection without DISCONNECT."""
        if not self.gone:
            self._drive(lambda: self.connection.receive(b"", self.broker.clock.monotonic_ns()))
            self._end()
        self.broker.run()

    def leave(self, code: int = 0, properties: Properties = NONE) -> None:
        """Send DISCONNECT."""
        self.put(Disconnect(code, properties))

    def connect(
        self,
        client_id: str = "c",
        clean: bool = True,
        keep_alive_s: int = 0,
        will: Will | None = None,
        properties: Properties = NONE,
        expiry_s: int | None = None,
    ) -> Connack:
        """Send CONNECT and return its answer."""
        if expiry_s is not None:
            properties = Properties()
            properties.numbers[props.SESSION_EXPIRY] = expiry_s
        self.put(Connect(self.version, client_id, clean, keep_alive_s, will, None, None, properties))
        answer = self.inbox.pop(0)
        assert isinstance(answer, Connack)
        return answer

    def subscribe(self, pattern: str, options: int = 1, properties: Properties = NONE) -> int:
        """Send SUBSCRIBE with one filter and return its reason code."""
        self.put(Subscribe(7, [(pattern, options)], properties))
        answer = next(packet for packet in self.inbox if isinstance(packet, Suback))
        self.inbox.remove(answer)
        return answer.codes[0]

    def publish(
        self,
        topic: str,
        body: bytes = b"x",
        qos: int = 1,
        packet_id: int = 1,
        retain: bool = False,
        properties: Properties = NONE,
        dup: bool = False,
        wait: bool = True,
    ) -> None:
        """Send PUBLISH; `take` returns its acknowledgement."""
        self.put(Publish(topic.encode(), body, qos, retain, dup, packet_id if qos else 0, properties), wait=wait)

    def take(self) -> list[Packet]:
        """Packets received since the last call."""
        inbox, self.inbox = self.inbox, []
        return inbox

    def only(self, kind: type[Kind]) -> Kind:
        """The one packet received since the last call, which is of this kind."""
        (packet,) = self.take()
        assert isinstance(packet, kind)
        return packet

    def messages(self, answer: bool = True) -> list[Publish]:
        """PUBLISH packets received since the last call; they are acknowledged completely unless `answer` is False."""
        out: list[Publish] = []
        while True:
            got = self.take()
            acks: list[Packet] = []
            for packet in got:
                if isinstance(packet, Publish):
                    out.append(packet)
                    if packet.qos > AT_MOST_ONCE:
                        acks.append(Ack(3 + packet.qos, packet.packet_id))
                elif isinstance(packet, Ack) and packet.kind == 6:
                    acks.append(Ack(7, packet.packet_id))
            if not answer or not acks:
                return out
            self.put(*acks)


def bodies(messages: list[Publish]) -> list[bytes]:
    """Payloads of the messages."""
    return [message.body for message in messages]


def with_number(name: int, number: int) -> Properties:
    out = Properties()
    out.numbers[name] = number
    return out


def away(broker: Broker, version: int = 4, qos: int = 1, pattern: str = "t/#") -> None:
    """Make a session whose client is not connected."""
    client = broker.client(version)
    client.connect("away", clean=False, expiry_s=1000 if version == 5 else None)
    assert client.subscribe(pattern, qos) == qos
    client.leave()


def back(broker: Broker, version: int = 4) -> Client:
    """Connect the client of that session again."""
    client = broker.client(version)
    assert client.connect("away", clean=False, expiry_s=1000 if version == 5 else None).present
    return client
