"""A gRPC client on a shared node that does what it likes, within its HTTP/2 windows."""

from __future__ import annotations

from google.protobuf.message import Message
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamReset, TrailersReceived

from domain.command import Command
from domain.event import Event
from gateway.connection.client_connection import ClientConnection
from protocols.grpc.messages import messaging_pb2 as pb
from tests.neighbours.asker import METADATA, SERVICE
from tests.neighbours.node import SharedNode

FRAME_BYTES = 16_384
WINDOW_BYTES = 8 * 1024 * 1024


class GrpcPeer:
    """One connection.

    data     stream -> bytes of its answer
    status   stream -> its grpc-status
    """

    def __init__(self, node: SharedNode, client_id: str = "other") -> None:
        self._node = node
        self._http = H2Connection(H2Configuration(client_side=True))
        self._http.initiate_connection()
        self._http.increment_flow_control_window(WINDOW_BYTES)
        self._metadata = [*METADATA[:-1], ("x-mq-client-id", client_id)]
        self.stream = node.connect("grpc")
        self.stream.kept_bytes = 1 << 30
        self.data: dict[int, bytes] = {}
        self.status: dict[int, int] = {}
        self.exchange()

    def exchange(self, turns: int = 2) -> None:
        """Send what is to be sent, and read the answers; the turns that this takes keep the rule."""
        self.stream.send(self._http.data_to_send())
        self._node.run(turns).check()
        self.read()

    def read(self) -> None:
        """Read the answers that have come."""
        for event in self._http.receive_data(bytes(self.stream.received)):
            if isinstance(event, DataReceived):
                self.data[event.stream_id] = self.data.get(event.stream_id, b"") + event.data
                self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, TrailersReceived | ResponseReceived):
                for name, value in event.headers:
                    if name == b"grpc-status":
                        self.status[event.stream_id] = int(value)
            elif isinstance(event, StreamReset):
                self.status.setdefault(event.stream_id, -1)
        self.stream.received.clear()
        self.stream.send(self._http.data_to_send())

    def open(self, method: str, *metadata: tuple[str, str]) -> int:
        """Begin a call; returns its stream."""
        stream = self._http.get_next_available_stream_id()
        self._http.send_headers(stream, [(":path", SERVICE + method), *self._metadata, *metadata])
        return stream

    def send(self, stream: int, data: bytes, end: bool = False) -> None:
        """Send bytes of a request as the windows allow: until they are sent or the call has ended."""
        while data and stream not in self.status:
            size = min(len(data), self._http.local_flow_control_window(stream), FRAME_BYTES)
            if size:
                self._http.send_data(stream, data[:size])
                data = data[size:]
            else:
                self.exchange()
        if end and stream not in self.status:
            self._http.end_stream(stream)

    def send_some(self, stream: int, data: bytes) -> int:
        """Send bytes of a request as far as the windows allow, and its end with the last one -> how many."""
        sent = 0
        while sent < len(data) and stream not in self.status:
            size = min(len(data) - sent, self._http.local_flow_control_window(stream), FRAME_BYTES)
            if not size:
                break
            self._http.send_data(stream, data[sent : sent + size], end_stream=sent + size == len(data))
            sent += size
        return sent

    def take_output(self) -> bytes:
        """What is to be sent, for a test that lets turns pass itself."""
        return self._http.data_to_send()

    def call(self, method: str, request: Message, wait: bool = True, turns: int = 2) -> int:
        """Make a unary call; returns its stream. `wait`: until it is answered, `turns` between looks at it."""
        stream = self.open(method)
        self.send(stream, framed(request), end=True)
        for _ in range(100 if wait else 0):
            self.exchange(turns)
            if stream in self.status:
                return stream
        assert not wait, "no answer"
        return stream

    def code(self, stream: int) -> int:
        """The code of the Status of an answer."""
        answer = pb.HeartbeatResponse.FromString(self.data[stream][5 : 5 + int.from_bytes(self.data[stream][1:5], "big")])
        return int(answer.status.code)


def framed(message: Message) -> bytes:
    """A message with its prefix."""
    data: bytes = message.SerializeToString()
    return b"\0" + len(data).to_bytes(4, "big") + data


class Operator:
    """Who sets up what an attack needs."""

    def __init__(self, node: SharedNode) -> None:
        self._node = node
        self._answers: list[Event] = []
        self._connection = ClientConnection("test", self)  # type: ignore[arg-type]

    def answer(self, event: Event) -> None:
        """The answer of a command."""
        self._answers.append(event)

    def ask(self, command: Command) -> Event:
        """Carry out a command."""
        self._answers.clear()
        self._node.parts.gate.handle(self._connection, command)
        for _ in range(20):
            self._node.run(1)
        return self._answers[0]
