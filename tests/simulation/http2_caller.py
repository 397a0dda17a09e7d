"""A blocking HTTP/2 client by hyper-h2: one connection, one request after the other."""

from __future__ import annotations

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, SettingsAcknowledged, StreamEnded, StreamReset
from h2.settings import SettingCodes

from tests.simulation.kit.links import Link
from tests.simulation.world import World


class Http2Caller:
    """An HTTP/2 client. After its connection is lost it connects again with the next request."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.link: Link | None = None

    def connected(self, link: Link) -> None:
        self.link = link
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._http.initiate_connection()
        self._heads: dict[int, dict[str, str]] = {}
        self._data: dict[int, bytes] = {}
        self._ended: set[int] = set()
        self._acknowledged = False
        self._flush()

    def lost(self) -> None:
        self.link = None

    def received(self, data: bytes) -> None:
        for event in self._http.receive_data(data):
            if isinstance(event, ResponseReceived):
                self._heads[event.stream_id] = {name.decode(): value.decode("latin-1") for name, value in event.headers}
            elif isinstance(event, DataReceived):
                self._data[event.stream_id] = self._data.get(event.stream_id, b"") + event.data
                self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded | StreamReset):
                self._ended.add(event.stream_id)
            elif isinstance(event, SettingsAcknowledged):
                self._acknowledged = True
        self._flush()

    def _flush(self) -> None:
        data = self._http.data_to_send()
        if data and self.link is not None:
            self.link.send(data)

    def ask(
        self, method: str, target: str, body: bytes = b"", more: dict[str, str] | None = None, protocol: str = ""
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request, and wait for the head of its answer and a moment longer -> (status, fields, content so far).

        `protocol`: of an extended CONNECT (RFC 8441); its stream stays open.
        """
        clock = self.world.clock
        if self.link is None:
            self.world.dial("http2", self)
            clock.run_until(lambda: self.link is not None and self._acknowledged)
        stream = self._http.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "http"), (":authority", "sim"), (":path", target)]
        if protocol:
            self._http.remote_settings[SettingCodes.ENABLE_CONNECT_PROTOCOL] = 1
            head.insert(1, (":protocol", protocol))
        head += list((more or {}).items())
        self._http.send_headers(stream, head, end_stream=not body and not protocol)
        if body:
            self._http.send_data(stream, body, end_stream=True)
        self._flush()
        clock.run_until(lambda: stream in self._heads or stream in self._ended or self.link is None)
        if stream not in self._ended:
            clock.run_for(20)
        fields = dict(self._heads[stream])
        if stream not in self._ended:
            self._http.reset_stream(stream, 8)
            self._flush()
        return int(fields.pop(":status")), fields, self._data.pop(stream, b"")
