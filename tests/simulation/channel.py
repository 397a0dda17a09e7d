"""A gRPC client: HTTP/2 by hyper-h2 over the simulated network, unary and streamed calls, and one Telemetry stream."""

from __future__ import annotations

import hashlib
import hmac
import random
from typing import TypeVar

from google.protobuf.message import Message as Proto
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived

from domain.limits import MILLISECOND_NS
from protocols.grpc.access import ALGORITHM
from protocols.grpc.messages import messaging_pb2 as pb
from tests.simulation.kit.links import Link
from tests.simulation.world import World

SERVICE = "/apache.rocketmq.v2.MessagingService/"
Answer = TypeVar("Answer", bound=Proto)


class Channel:
    """One client id on one connection, which is opened again when it is lost. Each connection has a Telemetry stream.

    user       user that signs the calls; "": calls are not signed
    password   password of the user
    """

    user = ""
    password = ""

    def __init__(self, world: World, name: str, settings: pb.Settings | None = None) -> None:
        self.world, self.name, self.settings = world, name, settings
        self.chance = random.Random(f"{world.seed} {name}")
        self.link: Link | None = None
        self.notified: list[pb.TelemetryCommand] = []
        self._away = False
        self._start()

    def _start(self) -> None:
        if not self._away:
            self.world.dial("http2", self)

    def connected(self, link: Link) -> None:
        self.link = link
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._http.initiate_connection()
        self._data: dict[int, bytes] = {}
        self._owed: dict[int, tuple[bytes, bool]] = {}
        self._ended: set[int] = set()
        self._status: dict[int, int] = {}
        self._telemetry = 0
        if self.settings is not None:
            self._telemetry = self._open("Telemetry")
            self._put(self._telemetry, pb.TelemetryCommand(settings=self.settings), end=False)
        self._flush()

    def lost(self) -> None:
        self.link = None
        clock = self.world.clock
        clock.call_at(clock.monotonic_ns() + self.chance.randrange(1, 200) * MILLISECOND_NS, self._start)

    def hang_up(self) -> None:
        """Break the connection; the client does not connect again."""
        self._away = True
        if self.link is not None:
            self.link.reset()

    def received(self, data: bytes) -> None:
        for event in self._http.receive_data(data):
            if isinstance(event, DataReceived):
                self._data[event.stream_id] = self._data.get(event.stream_id, b"") + event.data
                if event.flow_controlled_length:
                    self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, ResponseReceived | TrailersReceived):
                status = dict(event.headers).get(b"grpc-status")
                if status is not None:
                    self._status[event.stream_id] = int(status)
            elif isinstance(event, StreamEnded | StreamReset):
                self._ended.add(event.stream_id)
        if self._telemetry:
            for piece in self._take(self._telemetry):
                self.notified.append(pb.TelemetryCommand.FromString(piece))
        self._flush()

    def _take(self, stream: int) -> list[bytes]:
        """Complete messages that have arrived on a stream."""
        data, out = self._data.get(stream, b""), []
        while len(data) >= 5 and len(data) >= 5 + int.from_bytes(data[1:5], "big"):
            size = int.from_bytes(data[1:5], "big")
            out.append(data[5 : 5 + size])
            data = data[5 + size :]
        self._data[stream] = data
        return out

    def _flush(self) -> None:
        for stream in list(self._owed):
            self._pay(stream)
        data = self._http.data_to_send()
        if data and self.link is not None:
            self.link.send(data)

    def _open(self, name: str) -> int:
        stream = self._http.get_next_available_stream_id()
        fields = [
            (b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"sim"), (b":path", (SERVICE + name).encode()),
            (b"content-type", b"application/grpc"), (b"te", b"trailers"), (b"x-mq-language", b"JAVA"),
            (b"x-mq-client-version", b"5.2.0"), (b"x-mq-client-id", self.name.encode()),
        ]  # fmt: skip
        if self.user:
            date = b"20261121T000000Z"
            mac = hmac.new(self.password.encode(), date, hashlib.sha1).hexdigest()
            said = f"{ALGORITHM} Credential={self.user}, SignedHeaders=x-mq-date-time, Signature={mac}"
            fields += [(b"x-mq-date-time", date), (b"authorization", said.encode())]
        self._http.send_headers(stream, fields)
        return stream

    def _put(self, stream: int, message: Proto, end: bool) -> None:
        body = message.SerializeToString()
        before, _ = self._owed.get(stream, (b"", False))
        self._owed[stream] = (before + b"\x00" + len(body).to_bytes(4, "big") + body, end)

    def _pay(self, stream: int) -> None:
        """Send as much of a stream's data as flow control allows. Streams that the peer has ended are dropped."""
        data, end = self._owed.pop(stream)
        while data and stream not in self._ended:
            room = min(self._http.local_flow_control_window(stream), self._http.max_outbound_frame_size)
            if room <= 0:
                self._owed[stream] = (data, end)
                return
            self._http.send_data(stream, data[:room], end_stream=end and len(data) <= room)
            data = data[room:]

    def notify(self, command: pb.TelemetryCommand) -> None:
        """Send a command on the Telemetry stream."""
        self._put(self._telemetry, command, end=False)
        self._flush()

    def begin(self, name: str, request: Proto) -> int:
        """Begin a call without waiting. Returns its stream id."""
        self.world.clock.run_until(lambda: self.link is not None)
        stream = self._open(name)
        self._put(stream, request, end=True)
        self._flush()
        return stream

    def stream(self, name: str, request: Proto, kind: type[Answer], most_ms: float = 60_000) -> list[Answer]:
        """Call, and return all messages of the answer. The gRPC status must be OK."""
        stream = self.begin(name, request)
        self.world.clock.run_until(lambda: stream in self._ended or self.link is None, most_ms)
        assert self._status.get(stream) == 0, (name, self._status.get(stream))
        return [kind.FromString(piece) for piece in self._take(stream)]

    def call(self, name: str, request: Proto, kind: type[Answer]) -> Answer:
        """Make a unary call. Returns its answer."""
        (found,) = self.stream(name, request, kind)
        return found
