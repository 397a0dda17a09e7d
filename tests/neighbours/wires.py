"""One client on a shared node that speaks each protocol: it sends a request, and waits for the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from google.protobuf.message import Message as Proto
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded

from protocols.coap.message import message as coap
from protocols.coap.message import option
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.mqtt import property as props
from protocols.mqtt.connect import Connect, Will
from protocols.mqtt.packet import Decoder, Packet
from protocols.mqtt.packet import encode as mqtt
from protocols.mqtt.property import Properties
from protocols.remoting.wire.frame import Frame, FrameDecoder
from protocols.remoting.wire.frame import encode as frame
from protocols.remoting.wire.header import BINARY
from tests.neighbours.asker import METADATA, SERVICE
from tests.neighbours.node import SharedNode

TURNS_MAX = 2_000
"""Turns after which an answer is given up."""


class Answer(NamedTuple):
    """An answer of HTTP. `fields`: names in lower case."""

    status: int
    fields: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return orjson.loads(self.body)


class Wires:
    """The client. `sent`: bytes of all requests so far."""

    def __init__(self, node: SharedNode, host: str = "10.0.0.66") -> None:
        self.node = node
        self.host = host
        self.sent = 0
        self._number = 0
        self._coap_port = 5_000

    def _wait(self, come: Any) -> None:
        """Let turns pass until `come()`."""
        for _ in range(TURNS_MAX):
            self.node.turn()
            if come():
                return
        raise AssertionError("no answer has come")

    # HTTP

    def http(self, method: str, target: str, content: object = b"", fields: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own. `content`: bytes, or what becomes JSON."""
        body = content if isinstance(content, bytes) else orjson.dumps(content)
        names = {"host": "n", "content-length": str(len(body)), **(fields or {})}
        if not isinstance(content, bytes):
            names["content-type"] = "application/json"
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in names.items())
        stream = self.node.connect("http", self.host)
        stream.kept_bytes = 1 << 30
        data = head.encode() + b"\r\n" + body
        self.sent += len(data)
        stream.send(data)
        found: list[Answer] = []

        def come() -> bool:
            received = bytes(stream.received)
            start, end, rest = received.partition(b"\r\n\r\n")
            if not end:
                return False
            line, *lines = start.decode().split("\r\n")
            got = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
            if len(rest) < int(got.get("content-length", "0")):
                return False
            found.append(Answer(int(line.split()[1]), got, rest))
            return True

        self._wait(come)
        stream.hang_up()
        return found[0]

    # RocketMQ remoting

    def remoting(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> Frame:
        """One request on a connection of its own."""
        self._number += 1
        stream = self.node.connect("remoting", self.host)
        data = frame(code, self._number, fields=fields, body=body, serialize=BINARY)
        self.sent += len(data)
        stream.send(data)
        found: list[Frame] = []

        def come() -> bool:
            found[:] = [each for each in FrameDecoder().feed(bytes(stream.received)) if each.opaque == self._number]
            return bool(found)

        self._wait(come)
        stream.hang_up()
        return found[0]

    # gRPC

    def grpc(self, method: str, *requests: Proto, client_id: str = "client") -> bytes:
        """One call on a connection of its own -> the messages of its answer, with their prefixes."""
        stream = self.node.connect("grpc", self.host)
        http = H2Connection(H2Configuration(client_side=True))
        http.initiate_connection()
        stream_id = http.get_next_available_stream_id()
        http.send_headers(stream_id, [(":path", SERVICE + method), *METADATA[:-1], ("x-mq-client-id", client_id)])
        for request in requests:
            payload = request.SerializeToString()
            for at in range(0, len(payload) + 5, 16_384):
                http.send_data(stream_id, (b"\0" + len(payload).to_bytes(4, "big") + payload)[at : at + 16_384])
        http.end_stream(stream_id)
        data = http.data_to_send()
        self.sent += len(data)
        stream.send(data)
        body = b""

        def come() -> bool:
            nonlocal body
            ended = False
            for event in http.receive_data(bytes(stream.received)):
                if isinstance(event, DataReceived):
                    body += event.data
                ended = ended or isinstance(event, StreamEnded)
            stream.received.clear()
            stream.send(http.data_to_send())
            return ended

        self._wait(come)
        stream.hang_up()
        return body

    # CoAP

    def coap(
        self, code: int, path: Sequence[str], payload: bytes = b"", options: Sequence[tuple[int, bytes]] = ()
    ) -> coap.Packet:
        """One confirmable request from a port of its own."""
        self._coap_port += 1
        self._number += 1
        pairs = sorted([*((option.URI_PATH, each.encode()) for each in path), *options], key=lambda pair: pair[0])
        data = coap.encode(coap.CON, code, self._number & 0xFFFF, self._number.to_bytes(3, "big"), coap.join(pairs), payload)
        self.sent += len(data)
        port = self._coap_port
        self.node.datagram(data, self.host, port)
        found: list[coap.Packet] = []

        def come() -> bool:
            last = self.node.datagrams.last.get((self.host, port))
            packet = coap.decode(last) if last is not None else None
            if packet is None or packet.code == 0:
                return False
            found.append(packet)
            return True

        self._wait(come)
        return found[0]


class MqttWire:
    """One connection of an MQTT 5.0 client whose session is kept."""

    def __init__(self, wires: Wires, client_id: str, clean: bool = False, will: Will | None = None) -> None:
        self._wires = wires
        self._stream = wires.node.connect("mqtt", wires.host)
        self._stream.kept_bytes = 1 << 30
        self._decoder = Decoder(1 << 28, 5, client=True)
        properties = Properties()
        properties.numbers[props.SESSION_EXPIRY] = 1_000
        (self.connack,) = self.ask(Connect(5, client_id, clean, 0, will, None, None, properties))

    def ask(self, *packets: Packet, answers: int = 1) -> list[Packet]:
        """Send packets and return what comes, at least `answers` packets."""
        data = b"".join(mqtt(packet, 5) for packet in packets)
        self._wires.sent += len(data)
        self._stream.send(data)
        found: list[Packet] = []
        for _ in range(TURNS_MAX):
            if len(found) >= answers:
                break
            self._wires.node.turn()
            found += self._decoder.feed(bytes(self._stream.received))
            self._stream.received.clear()
        assert len(found) >= answers, (packets, found)
        return found

    def drop(self) -> None:
        """Lose the connection."""
        self._stream.hang_up()
        for _ in range(5):
            self._wires.node.turn()


def parsed(body: bytes, kind: type[Proto]) -> list[Any]:
    """The messages of a gRPC answer."""
    found: list[Any] = []
    while body:
        size = int.from_bytes(body[1:5], "big")
        each = kind()
        each.ParseFromString(body[5 : 5 + size])
        found.append(each)
        body = body[5 + size :]
    return found


def resource(name: str) -> pb.Resource:
    """A topic or group of gRPC."""
    return pb.Resource(name=name)
