"""What was accepted and waits for a disk that takes nothing holds up nobody: the next send of every protocol is answered at
once, with the reason. It comes from the same address as what waits, on a new connection or on one that has sent before.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection

from domain.limits import MILLISECOND_NS
from protocols.coap.message import message as coap_message
from protocols.coap.message import option, signal
from protocols.coap.message.frame import StreamFraming
from protocols.mqtt.connect import Connect
from protocols.mqtt.packet import Ping, encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Publish
from protocols.remoting import codes
from tests.neighbours.grpc_peer import GrpcPeer, framed
from tests.neighbours.node import SharedNode
from tests.neighbours.socket import PeerStream
from tests.neighbours.test_coap import request as datagram
from tests.neighbours.test_grpc import batch
from tests.neighbours.test_http import UPGRADE, post
from tests.neighbours.test_remoting import SEND_FIELDS
from tests.neighbours.test_remoting import request as frame
from tests.simulation.kit.disk import Operation

HOST = "10.0.0.66"
LARGE = bytes(3_000_000)
SMALL, MEDIUM = b"x", bytes(700_000)
FLUSH_S = 5
NDJSON = "Content-Type: application/x-ndjson"
WAITS = {"full": b"found the disk full", "failed": b"a write of the log failed", "hangs": b"has not ended a sync"}
"""What happens to the disk, and words of the reason that senders get from then on."""


def pass_time(node: SharedNode, ms: int, until: Callable[[], bool] = lambda: False) -> int:
    """Let at most `ms` of virtual time pass, in turns of a millisecond; the time that has passed, in ms."""
    begun = node.clock.monotonic_ns()
    while not until() and node.clock.monotonic_ns() < begun + ms * MILLISECOND_NS:
        node.clock.advance(MILLISECOND_NS)
        node.turn()
    return (node.clock.monotonic_ns() - begun) // MILLISECOND_NS


class Disk:
    """The disk of a node, on which something goes wrong."""

    def __init__(self, node: SharedNode) -> None:
        self._node = node
        self._errno = 0
        node.disk.watch = self._watch

    def _watch(self, operation: Operation) -> None:
        if self._errno and operation.kind in ("append", "create", "replace"):
            raise OSError(self._errno, os.strerror(self._errno))

    def fill(self) -> None:
        """There is no room from now on."""
        self._errno = errno.ENOSPC

    def begin(self, fault: str) -> PeerStream:
        """Have 3 MB accepted that the disk does not take; who has sent them."""
        node = self._node
        sender = node.connect("http", HOST)
        sender.send(post("/v1/topics/flood/messages", b"the topic is there"))
        pass_time(node, 200)
        self._errno = {"full": errno.ENOSPC, "failed": errno.EIO}.get(fault, 0)
        node.disk.hold_syncs = fault == "hangs"
        sender.send(post("/v1/topics/flood/messages", LARGE))
        pass_time(node, 300)
        if fault == "hangs":
            pass_time(node, FLUSH_S * 1_000)
        return sender

    def mend(self) -> None:
        """The disk works again."""
        self._errno = 0
        if self._node.disk.hold_syncs:
            self._node.disk.release()


class Peer:
    """A client: `send` sends one message of a size, `heard` is what has come back since."""

    def __init__(self, node: SharedNode) -> None:
        self.node = node

    def send(self, body: bytes) -> None:
        raise NotImplementedError

    def heard(self) -> bytes:
        raise NotImplementedError

    def forget(self) -> None:
        """What was heard does not count."""
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        return False


class StreamPeer(Peer):
    """A client over one stream."""

    listener = "http"

    def __init__(self, node: SharedNode) -> None:
        super().__init__(node)
        self.stream: PeerStream = node.connect(self.listener, HOST)

    def heard(self) -> bytes:
        return bytes(self.stream.received)

    def forget(self) -> None:
        self.stream.received.clear()

    @property
    def closed(self) -> bool:
        return self.stream.closed or self.stream.ended


class MqttPeer(StreamPeer):
    listener = "mqtt"
    version = 5
    qos = 1

    def __init__(self, node: SharedNode) -> None:
        super().__init__(node)
        self._packet_id = 0
        self.say(encode(Connect(self.version, "c", True, 0, None, None, None, NONE), self.version))
        pass_time(node, 20)
        self.forget()

    def say(self, data: bytes) -> None:
        self.stream.send(data)

    def send(self, body: bytes) -> None:
        self._packet_id += 1
        self.say(
            encode(Publish(b"flood/a", body, self.qos, False, False, self._packet_id if self.qos else 0, NONE), self.version)
        )


class Mqtt2(MqttPeer):
    qos = 2


class Mqtt311(MqttPeer):
    version = 4


class MqttOverWebSocket(MqttPeer):
    listener = "websocket"

    def __init__(self, node: SharedNode) -> None:
        self._upgraded = False
        super().__init__(node)

    def say(self, data: bytes) -> None:
        if not self._upgraded:
            self._upgraded = True
            self.stream.send(UPGRADE)
        head = b"\x82\xff" + len(data).to_bytes(8, "big") if len(data) > 125 else bytes((0x82, 0x80 | len(data)))
        self.stream.send(head + bytes(4) + data)


class Remoting(StreamPeer):
    listener = "remoting"

    def send(self, body: bytes) -> None:
        self.stream.send(frame(codes.SEND, 8, SEND_FIELDS, body))


class Http(StreamPeer):
    path = "/v1/topics/flood/messages"
    fields: tuple[str, ...] = ()

    def content(self, body: bytes) -> bytes:
        return body

    def send(self, body: bytes) -> None:
        self.stream.send(post(self.path, self.content(body), *self.fields))


class HttpNewTopic(Http):
    path = "/v1/topics/not-there-yet/messages"


class HttpBatch(Http):
    path = "/v1/topics/flood/messages:batch"
    fields = ("Content-Type: application/json",)

    def content(self, body: bytes) -> bytes:
        one = b'{"text":"%b"}' % body.replace(b"\0", b"x")
        return b"[%b,%b]" % (one, one)


class HttpRecords(Http):
    path = "/v1/topics/flood/messages:stream"
    fields = (NDJSON,)

    def content(self, body: bytes) -> bytes:
        return b'{"text":"%b"}\n' % body.replace(b"\0", b"x")


class Event(Http):
    path = "/ce/flood"
    fields = ("ce-specversion: 1.0", "ce-id: 1", "ce-source: /s", "ce-type: t", "Content-Type: application/octet-stream")


class Http2(StreamPeer):
    """Over HTTP/2, each message as a request of its own."""

    def __init__(self, node: SharedNode) -> None:
        super().__init__(node)
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._http.initiate_connection()
        self.stream.send(self._http.data_to_send())
        self._left: dict[int, bytes] = {}
        self._heard = b""

    def send(self, body: bytes) -> None:
        stream = self._http.get_next_available_stream_id()
        fields = [(":method", "POST"), (":scheme", "http"), (":authority", "n"), (":path", "/v1/topics/flood/messages")]
        self._http.send_headers(stream, fields)
        self._left[stream] = body
        self.heard()

    def heard(self) -> bytes:
        data = bytes(self.stream.received)
        self.stream.received.clear()
        self._http.receive_data(data)
        self._heard += data
        for stream, rest in list(self._left.items()):
            sent = 0
            while size := min(len(rest) - sent, self._http.local_flow_control_window(stream), 16_384):
                self._http.send_data(stream, rest[sent : sent + size], end_stream=sent + size == len(rest))
                sent += size
            self._left[stream] = rest[sent:]
            if sent == len(rest):
                del self._left[stream]
        self.stream.send(self._http.data_to_send())
        return self._heard

    def forget(self) -> None:
        self._heard = b""


class Grpc(Peer):
    def __init__(self, node: SharedNode) -> None:
        super().__init__(node)
        self.peer = GrpcPeer(node)
        self._left: list[tuple[int, bytes]] = []

    def send(self, body: bytes) -> None:
        self._left.append((self.peer.open("SendMessage"), framed(batch(1, body))))
        self.heard()

    def heard(self) -> bytes:
        self.peer.read()
        while self._left:
            stream, rest = self._left.pop(0)
            sent = self.peer.send_some(stream, rest)
            if sent < len(rest):
                self._left.insert(0, (stream, rest[sent:]))
                break
        self.peer.stream.send(self.peer.take_output())
        return b"".join(self.peer.data.values())

    def forget(self) -> None:
        self.peer.data.clear()


class Coap(Peer):
    """Over UDP. A body above one block is sent in one datagram: no IP fragment is too many in memory."""

    kind = coap_message.CON

    def __init__(self, node: SharedNode) -> None:
        super().__init__(node)
        self._mid = 0

    def send(self, body: bytes) -> None:
        self._mid += 1
        self.node.datagram(datagram(self.kind, coap_message.POST, self._mid, "mq/t/flood", body[:1_000], b"tk"), HOST)

    def heard(self) -> bytes:
        return self.node.datagrams.last.get((HOST, 5_000), b"")

    def forget(self) -> None:
        self.node.datagrams.last.clear()


class CoapNon(Coap):
    kind = coap_message.NON


class CoapTcp(StreamPeer):
    listener = "coap-tcp"

    def __init__(self, node: SharedNode) -> None:
        super().__init__(node)
        self._framing = StreamFraming(1 << 24)
        self.stream.send(self._framing.encode(signal.CSM, b"", b"", b""))
        pass_time(node, 20)
        self.forget()

    def send(self, body: bytes) -> None:
        pairs = [(option.URI_PATH, level) for level in (b"mq", b"t", b"flood")]
        self.stream.send(self._framing.encode(coap_message.POST, b"tk", coap_message.join(pairs), body[:1_000]))


PEERS = {
    "mqtt 5, qos 1": MqttPeer, "mqtt 5, qos 2": Mqtt2, "mqtt 3.1.1": Mqtt311, "mqtt over websocket": MqttOverWebSocket,
    "remoting": Remoting, "http": Http, "http, new topic": HttpNewTopic, "http, batch": HttpBatch, "http, upload": HttpRecords,
    "cloudevents": Event, "http/2": Http2, "grpc": Grpc, "coap": Coap, "coap, non": CoapNon, "coap over tcp": CoapTcp,
}  # fmt: skip
CASES = [
    pytest.param(make, used, fault, id=f"{name}, {fault}{', one that has sent' if used else ''}")
    for name, make in PEERS.items()
    for fault in WAITS
    for used in ((False, True) if fault == "full" else (False,))
]


@pytest.fixture
def node() -> Iterator[SharedNode]:
    with SharedNode(measures=False) as made:
        yield made


def check_refused(peer: Peer, words: bytes) -> None:
    """A refusal with `words` comes within a second. MQTT 3.1.1 has none: the connection ends."""

    def answered() -> bool:
        return peer.closed if isinstance(peer, Mqtt311) else words in peer.heard()

    took_ms = pass_time(peer.node, 1_000, answered)
    assert answered(), (took_ms, peer.heard()[-300:])


@pytest.mark.parametrize(("make", "used", "fault"), CASES)
def test_the_next_send_is_answered_at_once_with_its_reason(
    node: SharedNode, make: Callable[[SharedNode], Peer], used: bool, fault: str
) -> None:
    peer = make(node) if used else None
    if peer is not None:
        peer.send(SMALL)
        pass_time(node, 300)
    Disk(node).begin(fault)
    if peer is None:
        peer = make(node)
    for body in (SMALL, MEDIUM):
        if peer.closed:
            peer = make(node)
        pass_time(node, 20)
        peer.forget()
        peer.send(body)
        check_refused(peer, WAITS[fault])


class Qos0(MqttPeer):
    qos = 0


@pytest.mark.parametrize("fault", list(WAITS))
def test_a_message_that_nobody_answers_is_read_and_so_is_what_follows(node: SharedNode, fault: str) -> None:
    """At QoS 0 a client hears nothing of its message; its PINGREQ behind it is answered."""
    Disk(node).begin(fault)
    peer = Qos0(node)
    for body in (SMALL, MEDIUM, SMALL):
        peer.send(body)
    peer.say(encode(Ping(12), 5))
    pass_time(node, 1_000, lambda: bool(peer.heard()))
    assert peer.heard() == bytes((13 << 4, 0))
    assert node.parts.unfinished_bytes() == 0


def test_messages_nobody_waits_for_do_not_stop_the_others_when_a_sync_hangs(node: SharedNode) -> None:
    """No append has a callback here that could be answered with a time-out."""
    flood = Qos0(node)
    flood.send(SMALL)
    pass_time(node, 100)
    node.disk.hold_syncs = True
    for _ in range(4):
        flood.send(MEDIUM)
    pass_time(node, FLUSH_S * 1_000 + 100)
    peer = Http(node)
    peer.send(SMALL)
    check_refused(peer, WAITS["hangs"])


def test_a_topic_whose_making_waits_holds_up_neither_its_own_senders_nor_others(node: SharedNode) -> None:
    disk = Disk(node)
    disk.fill()
    waits = HttpNewTopic(node)
    waits.send(LARGE)
    pass_time(node, 200)
    assert waits.heard() == b"", "it is accepted, and waits for room"
    for make in (HttpNewTopic, Http):
        for _ in range(2):
            peer = make(node)
            peer.send(SMALL)
            check_refused(peer, WAITS["full"])
    disk.mend()
    pass_time(node, 1_500, lambda: b"201" in waits.heard())
    assert b"HTTP/1.1 201" in waits.heard()


@pytest.mark.parametrize("fault", ["full", "hangs"])
def test_everything_goes_on_when_the_disk_does(node: SharedNode, fault: str) -> None:
    disk = Disk(node)
    before = node.parts.store.figures()["messages_total"]
    sender = disk.begin(fault)
    refused = Http(node)
    refused.send(SMALL)
    check_refused(refused, WAITS[fault])
    disk.mend()
    pass_time(node, 1_500)
    peers = [make(node) for name, make in PEERS.items() if name in ("mqtt 5, qos 1", "remoting", "http", "http/2", "coap")]
    for peer in peers:
        peer.send(SMALL)
    pass_time(node, 500)
    assert all(peer.heard() for peer in peers)
    assert not [peer for peer in peers if WAITS[fault] in peer.heard()]
    stored = node.parts.store.figures()["messages_total"] - before
    assert stored == 2 + len(peers), "what waited was stored, what was refused was not"
    assert (b"HTTP/1.1 504" if fault == "hangs" else b"HTTP/1.1 201") in bytes(sender.received)
