"""Streams of HTTP: readers that are slow, greedy or leave, and uploaders that send all they can, cost neighbours nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes
from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import TextMessage

from domain import limits
from domain.command import Command, Send
from domain.event import Event
from domain.message.message import Message
from gateway.connection.client_connection import ClientConnection
from tests.neighbours.node import SharedNode
from tests.neighbours.socket import KERNEL_BYTES, PeerStream
from tests.neighbours.test_http import post
from tests.store.faults.soak import SOAK

BODY = b"x" * 20_000
MESSAGES = 150
"""3 MB of messages, more than any buffer between the node and a reader holds."""
READERS = 20
HELD_BYTES_MAX = 1024 * 1024
"""What a reader that does not read may make the node hold for it."""
HOST = "10.0.0.8"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
TOPIC = "/v1/topics/live:consume?from=first"
GROUP = "/v1/groups/g/topics/live:consume?max=1024"
STREAMS = {
    f"{form}, HTTP/{version}": (form, version, target)
    for version in ("1.1", "2")
    for form, target in (("lines", TOPIC), ("events", TOPIC), ("socket", TOPIC + "&credit=100000"), ("leases", GROUP))
}


OFTEN = ("lines, HTTP/1.1", "socket, HTTP/2")
"""Those that are tried in each run; `SOAK=1` tries all."""
each_stream = pytest.mark.parametrize("kind", STREAMS if SOAK else OFTEN)


@pytest.fixture
def node() -> Iterator[SharedNode]:
    with SharedNode() as made:
        yield made


class Sender:
    """Another host, which stores messages in queue 0 by commands."""

    def __init__(self, node: SharedNode) -> None:
        self._node = node
        self._connection = ClientConnection("test", self)  # type: ignore[arg-type]
        self._answered = 0

    def answer(self, event: Event) -> None:
        """An event of the node."""
        self._answered += 1

    def send(self, count: int, body: bytes = BODY) -> None:
        """Store messages, and wait until they are."""
        asked: list[Command] = [Send(at, [Message("live", body, queue_id=0)]) for at in range(count)]
        wanted = self._answered + count
        for at, command in enumerate(asked):
            self._node.parts.gate.handle(self._connection, command)
            if at % 16 == 15:
                self._node.turn()
        for _ in range(500):
            if self._answered == wanted:
                return
            self._node.turn()
        raise AssertionError("not all are stored")


def fill(node: SharedNode, messages: int = MESSAGES) -> Sender:
    """Store messages that nobody has read."""
    sender = Sender(node)
    sender.send(messages)
    return sender


class Reader:
    """One stream on a connection of its own.

    window   HTTP/2: bytes that the client takes on the stream, all in all; None: it gives the window back as it reads
    """

    def __init__(self, node: SharedNode, form: str, version: str, target: str, window: int | None = None) -> None:
        self.peer = node.connect("http")
        self._h2: H2Connection | None = None
        accept = "text/event-stream" if form == "events" else "application/x-ndjson"
        if version == "1.1":
            head = [f"GET {target} HTTP/1.1", "Host: n", f"Accept: {accept}"]
            if form == "socket":
                head += ["Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {KEY}", "Sec-WebSocket-Version: 13"]
            self.peer.send("\r\n".join([*head, "", ""]).encode())
            return
        self.peer.kept_bytes = 1 << 24
        self._window = window
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._h2.initiate_connection()
        if window is not None:
            self._h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        self._h2.increment_flow_control_window(1 << 24)
        self.peer.send(self._h2.data_to_send())
        for _ in range(6):
            node.turn()
        self.read()
        fields = [(":method", "GET"), (":scheme", "http"), (":authority", "n"), (":path", target), ("accept", accept)]
        if form == "socket":
            self._h2.remote_settings[SettingCodes.ENABLE_CONNECT_PROTOCOL] = 1
            fields = [(":method", "CONNECT"), (":protocol", "websocket"), *fields[1:4], ("sec-websocket-version", "13")]
        self._h2.send_headers(1, fields, end_stream=form != "socket")
        self.peer.send(self._h2.data_to_send())

    def read(self) -> None:
        """HTTP/2: take what has come, and give the window back."""
        if self._h2 is None or self.peer.closed:
            return
        for event in self._h2.receive_data(bytes(self.peer.received)):
            size = getattr(event, "flow_controlled_length", 0)
            if size and self._window is None:
                self._h2.acknowledge_received_data(size, 1)
        self.peer.received.clear()
        self.peer.send(self._h2.data_to_send())


def held(node: SharedNode, readers: list[Reader]) -> int:
    """Bytes that wait in the node for a reader, at most."""
    return max(reader.peer.unread for reader in readers)


@each_stream
def test_a_greedy_reader_of_all_that_is_stored(node: SharedNode, kind: str) -> None:
    fill(node)
    reader = Reader(node, *STREAMS[kind])
    for _ in range(20):
        node.run(10).check()
        reader.read()
    assert reader.peer.taken > 40 * len(BODY)


@each_stream
def test_many_readers_that_do_not_read(node: SharedNode, kind: str) -> None:
    """Each leaves the node's bytes where they are; after 60 s the node ends the connection."""
    fill(node)
    readers = [Reader(node, *STREAMS[kind]) for _ in range(READERS)]
    node.run(10)
    for reader in readers:
        reader.peer.reads = False
    for _ in range(4):
        node.run(20).check()
        assert held(node, readers) <= HELD_BYTES_MAX
    node.idle(70)
    for _ in range(5):
        node.turn()
    assert held(node, readers) <= HELD_BYTES_MAX


@pytest.mark.parametrize("kind", [each for each in STREAMS if each.endswith("/2") and (SOAK or each in OFTEN)])
def test_many_readers_whose_windows_are_small(node: SharedNode, kind: str) -> None:
    """They read the connection, and never give back the window of the stream."""
    fill(node)
    readers = [Reader(node, *STREAMS[kind], window=1_000) for _ in range(READERS)]
    for _ in range(4):
        node.run(10).check()
        for reader in readers:
            reader.read()
        assert held(node, readers) <= HELD_BYTES_MAX


@each_stream
def test_messages_for_many_readers(node: SharedNode, kind: str) -> None:
    """What is sent goes to all of them, and the neighbours are served between."""
    form, version, target = STREAMS[kind]
    fill(node, 20)
    readers = [Reader(node, form, version, target.replace("from=first", "from=last")) for _ in range(6 * READERS)]
    for _ in range(20):
        node.turn()
    for reader in readers:
        reader.read()
    before = [reader.peer.taken for reader in readers]
    sender = node.connect("http", HOST)
    sender.send(post("/v1/topics/live/messages", b"y" * 1_000, "mq-queue: 0") * 40)
    for _ in range(4):
        node.run(20).check()
        for reader in readers:
            reader.read()
    more = [reader.peer.taken - at for reader, at in zip(readers, before, strict=True)]
    if form == "leases":
        assert sum(more) > 40 * 1_000
    else:
        assert min(more) > 40 * 1_000


@each_stream
def test_readers_that_come_and_go(node: SharedNode, kind: str) -> None:
    fill(node, 50)
    for _ in range(3):
        readers = [Reader(node, *STREAMS[kind]) for _ in range(2 * READERS)]
        node.run(4).check()
        for reader in readers:
            reader.peer.hang_up(reset=True)
        node.run(4).check()
    assert node.parts.uploads.bytes_held == 0


def test_a_flood_of_words_in_a_socket(node: SharedNode) -> None:
    """Credit and settlements, as small and as many as can be."""
    fill(node, 20)
    words = ['{"type":"credit","messages":1}', '{"type":"ack","receipts":["x"]}', "nonsense"]
    for word in words:
        reader = Reader(node, "socket", "1.1", GROUP + "&credit=1")
        node.run(10)
        frames = Frames(ConnectionType.CLIENT)
        reader.peer.send(frames.send(TextMessage(word)) * 2_000)
        for _ in range(2):
            node.run(20).check()


UPLOADS = {
    "records": json.dumps({"text": "x" * 100}).encode() + b"\n",
    "tiny records": b'{"text":"x"}\n',
    "keyed records": b'{"text":"x","idempotencyKey":"%06d"}\n',
    "bad records": b"[]\n",
    "empty lines": b"\n",
    "no line": b"x",
}
SENT_BYTES = 1_000_000
UPLOADED = [
    ("keyed records", "1.1", True), ("bad records", "2", False), ("empty lines", "1.1", True), ("no line", "1.1", False),
]  # fmt: skip
if SOAK:
    UPLOADED = [(kind, version, reads) for kind in UPLOADS for version in ("1.1", "2") for reads in (True, False)]


def content(kind: str) -> bytes:
    """The content of an upload."""
    one = UPLOADS[kind]
    if b"%" in one:
        return b"".join(one % at for at in range(SENT_BYTES // len(one)))
    return one * (SENT_BYTES // len(one))


def uploads(node: SharedNode, version: str, data: bytes, count: int = 1) -> list[PeerStream]:
    """Peers that send all of `data` at once, over HTTP/2 as the window allows at first."""
    peers = []
    for _ in range(count):
        peer = node.connect("http")
        if version == "1.1":
            head = ["POST /v1/topics/flood/messages:stream HTTP/1.1", "Host: n", "Content-Type: application/x-ndjson"]
            peer.send("\r\n".join([*head, "Transfer-Encoding: chunked", "", ""]).encode())
            size = 16_384
            for at in range(0, len(data), size):
                part = data[at : at + size]
                peer.send(b"%x\r\n%b\r\n" % (len(part), part))
        else:
            client = H2Connection(H2Configuration(client_side=True, header_encoding=None))
            client.initiate_connection()
            fields = [
                (":method", "POST"),
                (":scheme", "http"),
                (":authority", "n"),
                (":path", "/v1/topics/flood/messages:stream"),
            ]
            client.send_headers(1, [*fields, ("content-type", "application/x-ndjson")])
            peer.send(client.data_to_send())
            peer.kept_bytes = 1 << 24
            for _ in range(10):
                node.turn()
            client.receive_data(bytes(peer.received))
            peer.received.clear()
            room = min(client.local_flow_control_window(1), len(data))
            for at in range(0, room, 16_384):
                client.send_data(1, data[at : min(at + 16_384, room)])
            peer.send(client.data_to_send())
        peers.append(peer)
    return peers


@pytest.mark.parametrize(("kind", "version", "reads"), UPLOADED)
def test_a_greedy_upload(node: SharedNode, kind: str, version: str, reads: bool) -> None:
    (peer,) = uploads(node, version, content(kind))
    peer.reads = reads
    for _ in range(3):
        node.run(20).check()
    assert peer.unread + node.parts.uploads.bytes_held <= limits.ENVELOPE_BYTES_MAX + KERNEL_BYTES


@pytest.mark.parametrize("version", ["1.1", "2"] if SOAK else ["1.1"])
def test_many_uploads_whose_records_never_end(node: SharedNode, version: str) -> None:
    """Each holds what it has sent until its record is late; all of one host share the bound of unfinished requests."""
    peers = uploads(node, version, b'{"text":"' + b"x" * 3_000_000, READERS)
    for _ in range(3):
        node.run(20).check()
    node.idle(130)
    assert node.parts.uploads.bytes_held == 0
    for peer in peers:
        peer.hang_up(reset=True)
