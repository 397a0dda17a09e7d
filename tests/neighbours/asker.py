"""Neighbours that behave: each sends a small request of its protocol, waits for the answer, and asks again."""

from __future__ import annotations

from collections.abc import Callable

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded

from protocols.coap.message.message import CON, GET, join
from protocols.coap.message.message import encode as coap
from protocols.coap.message.option import URI_PATH
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.mqtt.connect import Connect
from protocols.mqtt.packet import Ping, encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Publish
from protocols.remoting.wire.frame import encode as frame
from protocols.remoting.wire.header import JSON
from tests.neighbours.socket import PeerStream

GET_BROKER_CLUSTER_INFO = 106
METADATA = [
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "n"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
    ("x-mq-client-id", "n"),
]
SERVICE = "/apache.rocketmq.v2.MessagingService/"


class InternalClient:
    """One neighbour on a stream. `ask` sends the next request; `answered` says whether its answer has come."""

    def __init__(self, name: str, stream: PeerStream) -> None:
        self.name = name
        self.stream = stream

    def ask(self) -> None:
        """Send one request."""
        raise NotImplementedError

    def answered(self) -> bool:
        """True when the answer has arrived."""
        return self.stream.taken > self._before

    _before = 0

    def _send(self, data: bytes) -> None:
        self._before = self.stream.taken
        self.stream.send(data)


class MqttAsker(InternalClient):
    """A PINGREQ."""

    def __init__(self, stream: PeerStream) -> None:
        super().__init__("mqtt", stream)
        stream.send(encode(Connect(4, "neighbour", True, 0, None, None, None, NONE), 4))

    def ask(self) -> None:
        """Send PINGREQ."""
        self._send(encode(Ping(12), 4))


class MqttSender(InternalClient):
    """A PUBLISH at QoS 1: its answer waits for the store."""

    def __init__(self, stream: PeerStream) -> None:
        super().__init__("mqtt-publish", stream)
        stream.send(encode(Connect(4, "sender", True, 0, None, None, None, NONE), 4))

    def ask(self) -> None:
        """Send one message."""
        self._send(encode(Publish(b"neighbour/alone", b"x", 1, False, False, 1, NONE), 4))


class HttpAsker(InternalClient):
    """A GET of a topic."""

    def __init__(self, stream: PeerStream) -> None:
        super().__init__("http", stream)

    def ask(self) -> None:
        """Send one request."""
        self._send(b"GET /v1/topics/neighbour HTTP/1.1\r\nHost: n\r\n\r\n")


class RemotingAsker(InternalClient):
    """A name server's question."""

    def __init__(self, stream: PeerStream) -> None:
        super().__init__("remoting", stream)

    def ask(self) -> None:
        """Send one request."""
        self._send(frame(GET_BROKER_CLUSTER_INFO, 7, serialize=JSON))


class GrpcAsker(InternalClient):
    """QueryRoute over HTTP/2."""

    def __init__(self, stream: PeerStream) -> None:
        super().__init__("grpc", stream)
        self._http = H2Connection(H2Configuration(client_side=True))
        self._http.initiate_connection()
        self._http.increment_flow_control_window(1 << 30)
        self._ended = True
        stream.send(self._http.data_to_send())

    def ask(self) -> None:
        """Make one call, when the one before is answered."""
        if not self._ended:
            return
        request = pb.QueryRouteRequest()
        request.topic.name = "neighbour"
        payload = request.SerializeToString()
        stream_id = self._http.get_next_available_stream_id()
        self._http.send_headers(stream_id, [(":path", SERVICE + "QueryRoute"), *METADATA])
        self._http.send_data(stream_id, b"\0" + len(payload).to_bytes(4, "big") + payload, end_stream=True)
        self._ended = False
        self._send(self._http.data_to_send())

    def answered(self) -> bool:
        """True when the call has ended."""
        for event in self._http.receive_data(bytes(self.stream.received)):
            if isinstance(event, DataReceived):
                self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            self._ended = self._ended or isinstance(event, StreamEnded)
        self.stream.received.clear()
        self.stream.send(self._http.data_to_send())
        return self._ended


class CoapAsker:
    """A confirmable GET of /.well-known/core from an address of its own."""

    name = "coap"

    def __init__(self, send: Callable[[bytes], None], count: Callable[[], int]) -> None:
        self._send, self._count = send, count
        self._serial = 0
        self._before = 0

    def ask(self) -> None:
        """Send one request."""
        self._serial += 1
        self._before = self._count()
        self._send(get(self._serial))

    def answered(self) -> bool:
        """True when a datagram has come back."""
        return self._count() > self._before


def get(message_id: int) -> bytes:
    """A confirmable GET of /.well-known/core (RFC 7252)."""
    path = join([(URI_PATH, b".well-known"), (URI_PATH, b"core")])
    return coap(CON, GET, message_id, message_id.to_bytes(2, "big"), path, b"")
