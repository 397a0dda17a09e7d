"""Peers that misbehave: each sends prepared bytes to one port for some seconds (`benchmarks.neighbours` runs them).

They connect from 127.0.0.66, so that limits by address do not meet the neighbours.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from hpack import Encoder

from protocols.coap.message import message as coap
from protocols.coap.message import option
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.mqtt.connect import Connect
from protocols.mqtt.packet import Packet, Ping, encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Publish
from protocols.mqtt.subscribe import Subscribe, Unsubscribe
from protocols.remoting.wire.frame import encode as remoting
from protocols.remoting.wire.header import JSON

SOURCE = "127.0.0.66"
GET_BROKER_CLUSTER_INFO, PULL, SEND_V2 = 106, 11, 310
DRIBBLE_S = 0.001
"""Pause between two bytes of a dribbling connection."""


@dataclass(frozen=True)
class Attack:
    """What one attacker sends.

    first        sent once on each connection
    again        sent again and again afterwards; b"": nothing more is sent
    connections  connections that are open at a time
    reads        answers are read and thrown away; False: never read
    renews       a connection ends when `first` has been sent, and the next one follows when the node has closed it
    dribbles     bytes are sent one by one
    breaks       a connection is reset when `first` has been sent, and the next one follows
    """

    port: str
    first: bytes
    again: bytes = b""
    connections: int = 1
    reads: bool = True
    renews: bool = False
    dribbles: bool = False
    breaks: bool = False


def _client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def _mqtt(*packets: Packet) -> bytes:
    return b"".join([encode(packet, 4) for packet in packets])


def _publish(topic: str, size: int, qos: int = 0, retain: bool = False) -> bytes:
    return _mqtt(Publish(topic.encode(), b"x" * size, qos, retain, False, qos, NONE))


def _event(text: bytes) -> bytes:
    return _mqtt(Publish(b"flood/a", text, 0, False, False, 0, NONE))


def _h2(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """One frame (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream_id.to_bytes(4, "big") + payload


def _heads(count: int, ends: bool, *fields: tuple[str, str], reset: bool = False) -> bytes:
    """HEADERS of `count` streams, each cancelled at once if `reset` is set."""
    encoder = Encoder()
    pairs = [(":method", "POST"), (":scheme", "http"), (":authority", "n"), (":path", "/nothing"), *fields]
    return b"".join([
        _h2(1, 5 if ends else 4, number, encoder.encode(pairs)) + (_h2(3, 0, number, b"\0\0\0\x08") if reset else b"")
        for number in range(1, 2 * count, 2)
    ])  # fmt: skip


def _post(path: str, body: bytes, *fields: str) -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: n", *fields, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(head).encode() + body


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def _coap(code: int, number: int, path: str, *pairs: tuple[int, bytes], body: bytes = b"") -> bytes:
    options = [(option.URI_PATH, level.encode()) for level in path.split("/")]
    token = number.to_bytes(3, "big")
    return coap.encode(coap.CON, code, number & 0xFFFF, token, coap.join([*options, *pairs]), body)


_ASK = remoting(GET_BROKER_CLUSTER_INFO, 7, serialize=JSON)
_SEND_VALUES = ("p", "flood", "TBW102", "4", "0", "0", "0", "0", "", "0", "false", "false")
_SEND_FIELDS = dict(zip("abcdefghijkm", _SEND_VALUES, strict=True))
_SEND = remoting(SEND_V2, 8, fields=_SEND_FIELDS, body=b"x" * 100, serialize=JSON)
_CONNECT = _mqtt(Connect(4, "bad", True, 0, None, None, None, NONE))
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _h2(4, 0, 0) + _h2(4, 1, 0)
_GRPC = (("content-type", "application/grpc"), ("te", "trailers"))
_EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
_BOMB = gzip.compress(bytes(64 << 20))
_EVENTS = gzip.compress(json.dumps([{**_EVENT, **{f"a{at}": "v" for at in range(90)}}] * 1_500).encode())
_ZIPPED = ("Content-Type: application/cloudevents-batch+json", "Content-Encoding: gzip")
_BODY = b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\n"
_CALL = b"\x01" + len(_BOMB).to_bytes(4, "big") + _BOMB
_UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\nsec-websocket-protocol: mqtt\r\n\r\n"
)

_SERVICE = "/apache.rocketmq.v2.MessagingService/"


def _calls(method: str, *messages: bytes, ends: bool = True, fields: tuple[tuple[str, str], ...] = ()) -> bytes:
    """One connection with a gRPC call for each message, after HELLO and a wide window for answers."""
    encoder = Encoder()
    pairs = [(":method", "POST"), (":scheme", "http"), (":authority", "n"), (":path", _SERVICE + method), *_GRPC, *fields]
    pairs.append(("x-mq-client-id", "bad"))
    flag = 1 if fields else 0
    parts = [_HELLO, _h2(8, 0, 0, b"\x3f\xff\0\0")]
    for at, message in enumerate(messages):
        data = bytes([flag]) + len(message).to_bytes(4, "big") + message
        pieces = [data[start : start + 16_384] for start in range(0, len(data), 16_384)]
        parts.append(_h2(1, 4, 2 * at + 1, encoder.encode(pairs)))
        parts += [_h2(0, 0, 2 * at + 1, piece) for piece in pieces[:-1]]
        parts.append(_h2(0, 1 if ends else 0, 2 * at + 1, pieces[-1]))
    return b"".join(parts)


def _batch(count: int, body: bytes = b"x", packed: bool = False, keys: int = 0) -> bytes:
    request = pb.SendMessageRequest()
    for number in range(count):
        sent = request.messages.add(body=body)
        sent.topic.name = "flood"
        sent.system_properties.message_id = f"{number:032x}"
        sent.system_properties.keys.extend(["k"] * keys)
        if packed:
            sent.system_properties.body_encoding = pb.GZIP
    return bytes(request.SerializeToString())


def _settings(subscriptions: int, expression: str = "") -> bytes:
    command = pb.TelemetryCommand()
    command.settings.client_type = pb.SIMPLE_CONSUMER
    command.settings.subscription.group.name = "bad"
    for number in range(subscriptions):
        entry = command.settings.subscription.subscriptions.add()
        entry.topic.name = f"s{number}"
        entry.expression.type = pb.SQL if expression else pb.TAG
        entry.expression.expression = expression or "*"
    return bytes(command.SerializeToString())


def _poll(expression: str) -> bytes:
    request = pb.ReceiveMessageRequest(batch_size=32)
    request.group.name = "bad"
    request.message_queue.topic.name = "flood"
    request.invisible_duration.seconds = 30
    request.filter_expression.type = pb.SQL
    request.filter_expression.expression = expression
    return bytes(request.SerializeToString())


def _acknowledgement(entries: int) -> bytes:
    request = pb.AckMessageRequest()
    request.group.name = request.topic.name = "flood"
    for number in range(entries):
        request.entries.add(message_id="m", receipt_handle=f"h{number}")
    return bytes(request.SerializeToString())


_CONNECT_UNNAMED = _mqtt(Connect(4, "", True, 0, None, None, None, NONE))
_LARGE = remoting(SEND_V2, 8, fields={**_SEND_FIELDS, "b": "large", "e": "0"}, body=b"x" * 100_000, serialize=JSON)
_PULL_FIELDS = {
    "consumerGroup": "bad", "topic": "large", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
    "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*", "expressionType": "TAG",
    "maxMsgBytes": "4194304",
}  # fmt: skip
_PULLS = remoting(PULL, 9, fields=_PULL_FIELDS, serialize=JSON) * 300
_VAST = json.dumps({**_EVENT, "data_base64": base64.b64encode(bytes(4 << 20)).decode()}).encode()
_LARGEST = json.dumps({**_EVENT, "data_base64": base64.b64encode(bytes(3 << 20)).decode()}).encode()
"""The largest event that fits a packet of MQTT."""
_FOUR = bytes(4 << 20)
_SPACES = b" " * (512 << 10)
_REPEATED = (
    b'{"datacontenttype":"text/plain","data":"%sa%s"%s,' % (_SPACES, _SPACES, _SPACES * 4) + json.dumps(_EVENT).encode()[1:]
)
_FAT = _post("/v1/topics/fat/messages", b"x" * 100_000, "mq-queue: 0")
_ZEROS = gzip.compress(bytes(4 << 20))

ATTACKS: dict[str, Attack] = {
    "remoting: requests": Attack("remoting", b"", _ASK * 2_000),
    "remoting: answers never read": Attack("remoting", b"", _ASK * 2_000, 20, reads=False),
    "remoting: messages": Attack("remoting", b"", _SEND * 500, 4),
    "remoting: large answers never read": Attack("remoting", _LARGE, _PULLS, 100, reads=False),
    "remoting: connections that break": Attack("remoting", _SEND * 300, b"", 100, reads=False, breaks=True),
    "remoting: half frames": Attack("remoting", b"\0\xff\xff\0\0\0\0\x60" + b"x" * 60, b"", 1_000),
    "remoting: large half frames": Attack("remoting", remoting(SEND_V2, 8, fields=_SEND_FIELDS, body=_FOUR)[:-9], b"", 100),
    "remoting: a byte at a time": Attack("remoting", b"", _ASK, 50, dribbles=True),
    "gRPC: streams": Attack("grpc", _HELLO + _heads(3_000, True, *_GRPC), renews=True),
    "gRPC: streams reset at once": Attack("grpc", _HELLO + _heads(10_000, True, *_GRPC, reset=True), renews=True),
    "gRPC: settings and pings": Attack("grpc", _HELLO, _h2(4, 0, 0) * 1_000 + _h2(6, 0, 0, bytes(8)) * 1_000, reads=False),
    "gRPC: a header block without end": Attack("grpc", _HELLO + _h2(1, 1, 1, b"\x82"), _h2(9, 0, 1) * 5_000),
    "gRPC: one-byte data": Attack("grpc", _HELLO + _heads(1, False, *_GRPC), _h2(0, 0, 1, b"x") * 5_000),
    "gRPC: inflated body": Attack("grpc", _HELLO + _heads(1, False, *_GRPC, ("grpc-encoding", "gzip")) + b"".join(
        [_h2(0, 0, 1, _CALL[at : at + 16_000]) for at in range(0, len(_CALL), 16_000)]), renews=True),
    "gRPC: settings of many subscriptions": Attack("grpc", _calls("Telemetry", *[_settings(1_000)] * 60), renews=True),
    "gRPC: settings with long expressions": Attack(
        "grpc", _calls("Telemetry", *[_settings(1, f"a > {each} AND " * 200 + "b = 1") for each in range(60)]), renews=True),
    "gRPC: small settings on one stream": Attack("grpc", _calls("Telemetry", b"", ends=False) + b"".join(
        [_h2(0, 0, 1, (b"\0" + len(_settings(0)).to_bytes(4, "big") + _settings(0)) * 400)] * 60), renews=True),
    "gRPC: batches": Attack("grpc", _calls("SendMessage", *[_batch(512)] * 40), b"", 4, renews=True),
    "gRPC: batches over the bound": Attack("grpc", _calls("SendMessage", *[_batch(15_000)] * 7), renews=True),
    "gRPC: compressed bodies": Attack("grpc", _calls("SendMessage", *[_batch(1, _ZEROS, True)] * 60), b"", 4, renews=True),
    "gRPC: compressed requests without an end": Attack("grpc", _calls(
        "SendMessage", *[gzip.compress(_batch(1, bytes(4 << 20)))] * 100, ends=False, fields=(("grpc-encoding", "gzip"),)),
        b"", 20),
    "gRPC: acknowledgements": Attack("grpc", _calls("AckMessage", *[_acknowledgement(500)] * 60), renews=True),
    "gRPC: polls with long expressions": Attack("grpc", _calls(
        "ReceiveMessage", *[_poll(f"a > {each} AND " * 200 + "b = 1") for each in range(100)]), b"", 4, renews=True),
    "MQTT: tiny messages": Attack("mqtt", _CONNECT, _publish("flood/a", 1) * 2_000),
    "MQTT: topics made for one message": Attack("mqtt", _CONNECT + b"".join(
        [_publish(f"made{number}/x", 1) for number in range(1_000)]), _publish("made1/x", 1)),
    "MQTT: retained values": Attack("mqtt", _CONNECT, b"".join(
        [_publish(f"kept/{number}", 100, retain=True) for number in range(3_000)])),
    "MQTT: pings never answered": Attack("mqtt", _CONNECT, _mqtt(Ping(12)) * 20_000, reads=False),
    "MQTT: subscriptions": Attack("mqtt", _CONNECT, b"".join(
        [_mqtt(Subscribe(1, [(f"s/{number}/+/#", 1)]), Unsubscribe(2, [f"s/{number}/+/#"])) for number in range(2_000)])),
    "MQTT: deliveries never read": Attack(
        "mqtt", _CONNECT_UNNAMED + _mqtt(Subscribe(1, [("fat/#", 1)])), _publish("fat/a", 60_000), 100, reads=False),
    "MQTT: large events": Attack("mqtt", _CONNECT, _event(_LARGEST), 4),
    "MQTT: events that repeat themselves": Attack("mqtt", _CONNECT, _event(_REPEATED), 4),
    "MQTT: half a CONNECT": Attack("mqtt", _CONNECT[:9], b"", 1_000),
    "MQTT: large half packets": Attack("mqtt", _CONNECT_UNNAMED + _publish("flood/a", len(_FOUR))[:-9], b"", 100),
    "MQTT: a byte at a time": Attack("mqtt", b"", _CONNECT + _publish("a/b", 60) * 9, 50, dribbles=True),
    "MQTT: messages over a WebSocket": Attack("websocket", _UPGRADE, b"\x89\x80\0\0\0\0" * 10_000),
    "TLS: six bytes of a ClientHello": Attack("mqtts", _client_hello()[:6], b"", 4_000),
    "TLS: handshakes that are not ended": Attack("mqtts", _client_hello(), b"", 4_000),
    "CoAP: requests": Attack("coap", b"", _coap(coap.GET, 0, ".well-known/core")),
    "CoAP: messages": Attack("coap", b"", _coap(coap.POST, 0, "mq/t/flood", body=b"x")),
    "CoAP: observers and messages": Attack("coap", b"", b""),
    "CoAP: bodies without end": Attack("coap", b"", b""),
    "CoAP: nonsense": Attack("coap", b"", b"\x5f" + b"\xff" * 40),
    "HTTP: requests": Attack("http", b"", _get("/v1/topics/nothing") * 1_000),
    "HTTP: answers never read": Attack("http", b"", _get("/v1/topics/nothing") * 1_000, 20, reads=False),
    "HTTP: large answers never read": Attack(
        "http", _FAT, _get("/v1/topics/fat/queues/0?offset=0&max=32") * 300, 100, reads=False),
    "HTTP: messages": Attack("http", b"", _post("/v1/topics/flood/messages", b"x") * 1_000, 4),
    "HTTP: half requests": Attack("http", _BODY + b"Content-Length: 4000000\r\n\r\nx", b"", 1_000),
    "HTTP: a byte at a time": Attack("http", b"", _get("/v1/topics/nothing"), 50, dribbles=True),
    "HTTP: one-byte chunks": Attack("http", _BODY + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10_000),
    "HTTP: inflated zeros": Attack("http", b"", _post("/ce/flood", _BOMB, *_ZIPPED)),
    "HTTP: inflated events": Attack("http", b"", _post("/ce/flood", _EVENTS, *_ZIPPED)),
    "HTTP: large events": Attack("http", b"", _post("/ce/flood", _VAST, "Content-Type: application/cloudevents+json"), 4),
    "HTTP: large answers": Attack("http", _post("/v1/topics/vast/messages", bytes(4 << 20), "mq-queue: 0"),
        _get("/v1/topics/vast/queues/0?offset=0&max=1") * 100, 4),
    "admin: metrics": Attack("admin", _get("/metrics"), b"", 20, renews=True),
    "admin: half requests": Attack("admin", b"GET /metrics HTTP/1.1\r\nHost", b"", 1_000),
}  # fmt: skip
"""Name -> attack. The two without bytes count their datagrams: see `DATAGRAMS`."""


def _observe(number: int) -> bytes:
    """Registrations of 2,000 observers of one topic, and a message to it after each 20."""
    if number % 20 == 0:
        return _coap(coap.POST, number, "mq/t/seen", body=b"x" * 500)
    return _coap(coap.GET, number % 2_000, "mq/t/seen", (option.OBSERVE, b""))


def _unfinished(number: int) -> bytes:
    """The first block of a body that never continues (RFC 7959)."""
    pairs = ((option.BLOCK1, b"\x0e"), (option.REQUEST_TAG, (number & 0xFFFF).to_bytes(2, "big")))
    return _coap(coap.PUT, number, "mq/t/large", *pairs, body=b"x" * 1_024)


DATAGRAMS: dict[str, Callable[[int], bytes]] = {
    "CoAP: observers and messages": _observe,
    "CoAP: bodies without end": _unfinished,
}


def _numbered(datagram: bytes, number: int) -> bytes:
    """The same request with another message ID, so that it is no duplicate (RFC 7252, 4.5)."""
    return datagram[:2] + (number & 0xFFFF).to_bytes(2, "big") + datagram[4:]


def send_datagrams(name: str, address: tuple[str, int], end: float) -> None:
    """Send from 50 ports, as fast as possible."""
    sockets = []
    for _ in range(50):
        sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sockets[-1].bind((SOURCE, 0))
        sockets[-1].connect(address)
        sockets[-1].setblocking(False)
    made, fixed, sent = DATAGRAMS.get(name), ATTACKS[name].again, 0
    while time.monotonic() < end:
        for peer in sockets:
            sent += 1
            try:
                peer.send(made(sent) if made else _numbered(fixed, sent))
                if sent % 500 == 0:
                    peer.recv(65_536)
            except OSError:
                continue


class Stream:
    """One connection of an attacker."""

    def __init__(self, attack: Attack, address: tuple[str, int]) -> None:
        self._attack = attack
        self._rest = memoryview(attack.first or attack.again)
        self.socket = socket.socket()
        self.socket.bind((SOURCE, 0))
        self.socket.setblocking(False)
        self.socket.connect_ex(address)

    @property
    def sends(self) -> bool:
        """Bytes remain to be sent."""
        return bool(self._rest)

    def turn(self, readable: bool, writable: bool) -> int:
        """Read and send what is possible. Returns the bytes sent; -1: the connection is over."""
        try:
            if readable and not self.socket.recv(65_536):
                return -1
            if not writable or not self._rest:
                return 0
            sent = self.socket.send(self._rest[:1] if self._attack.dribbles else self._rest)
        except BlockingIOError:
            return 0
        except OSError:
            return -1
        self._rest = self._rest[sent:]
        if not self._rest:
            if self._attack.breaks:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return -1
            if self._attack.renews:
                self.socket.shutdown(socket.SHUT_WR)  # the node handles what was sent, and closes
                return sent
            self._rest = memoryview(self._attack.again)
        return sent


def send_streams(attack: Attack, address: tuple[str, int], end: float) -> None:
    """Keep `attack.connections` connections sending."""
    waiting = selectors.DefaultSelector()

    def open_one() -> None:
        stream = Stream(attack, address)
        waiting.register(stream.socket, selectors.EVENT_WRITE | (selectors.EVENT_READ if attack.reads else 0), stream)

    for _ in range(attack.connections):
        open_one()
    while time.monotonic() < end:
        for key, events in waiting.select(0.05):
            stream: Stream = key.data
            sent = stream.turn(bool(events & selectors.EVENT_READ), bool(events & selectors.EVENT_WRITE))
            if sent < 0:
                waiting.unregister(key.fileobj)
                stream.socket.close()
                open_one()
            elif not stream.sends:
                waiting.modify(key.fileobj, selectors.EVENT_READ, stream)
        if attack.dribbles:
            time.sleep(DRIBBLE_S)


def attack(name: str, port: int, seconds: float) -> None:
    """Attack a port of 127.0.0.1 for some seconds."""
    made, address, end = ATTACKS[name], ("127.0.0.1", port), time.monotonic() + seconds
    if made.port == "coap":
        send_datagrams(name, address, end)
    else:
        send_streams(made, address, end)
