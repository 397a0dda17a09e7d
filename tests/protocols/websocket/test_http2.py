"""MQTT in WebSocket over HTTP/2 (RFC 8441), on both HTTP/2 engines; the client is made of hyper-h2 and wsproto."""

from __future__ import annotations

import pytest
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes
from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage

from domain.errors import ErrorCode, Failure
from gateway.connection.channels import Channels
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import CommandEntry
from gateway.guard.settings import LimitsSettings
from gateway.guard.throttle import Throttle
from gateway.node.settings_tables import read
from gateway.observe.counters import CounterRegistry
from protocols.http2.connection import Http2Connection
from protocols.http2.engine import STREAM_WINDOW_BYTES, EngineFactory
from protocols.mqtt.connect import Connack, Connect, Disconnect, Will
from protocols.mqtt.packet import Decoder, Packet, encode
from protocols.mqtt.property import NONE, SESSION_EXPIRY
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe
from protocols.websocket.adapter import WebSocketAdapter
from protocols.websocket.settings import WebSocketSettings
from protocols.websocket_frame import FRAMES_PER_TURN_MAX
from tests.protocols.http2.peer import Client as Http2Client
from tests.protocols.http2.peer import Notebooks, both_engines
from tests.protocols.mqtt.stage import PEER, Broker, bodies, with_number
from tests.protocols.taken import only

REQUEST = [
    (b":method", b"CONNECT"), (b":protocol", b"websocket"), (b":scheme", b"https"), (b":path", b"/mqtt"),
    (b":authority", b"localhost"), (b"sec-websocket-protocol", b"mqtt"), (b"sec-websocket-version", b"13"),
]  # fmt: skip


class Line:
    """One HTTP/2 connection to a broker in memory, and the shell of its session."""

    def __init__(self, engine: EngineFactory, broker: Broker, **options: object) -> None:
        self.broker = broker
        self.figures = CounterRegistry().of("mqtt")
        self.entry = CommandEntry(broker.handler)
        broker.handler.add(Channels(self.figures, self.entry))
        adapter = WebSocketAdapter({"/mqtt": broker.adapter}, read(WebSocketSettings, "websocket", options, {}))
        self.server = Http2Connection(engine, [adapter, Notebooks()], PEER, broker.clock.monotonic_ns())
        self.session = ClientConnection("http", self)  # type: ignore[arg-type]
        self.client = Http2Client(self.server)

    def answer(self, event: object) -> None:
        self.server.answer(event, self.broker.clock.monotonic_ns())  # type: ignore[arg-type]

    def run(self, milliseconds: float = 50) -> None:
        """Pass bytes and commands on until both sides are idle."""
        for _ in range(6):
            self.client.now = self.broker.clock.monotonic_ns()
            self.client.exchange()
            commands, self.client.commands = self.client.commands, []
            for _ in range(32):
                deadline = self.server.deadline()
                if deadline is None or deadline > self.client.now:
                    break
                commands += self.server.expire(self.client.now)
            for command in commands:
                self.broker.handler.handle(self.session, command)
            self.broker.run(milliseconds / 6)
        self.client.exchange()

    def heard(self, kind: type, stream_id: int) -> list[object]:
        """Take the events of one stream."""
        events = [event for event in self.client.events if isinstance(event, kind)]
        found = [event for event in events if getattr(event, "stream_id", 0) == stream_id]
        self.client.events = [event for event in self.client.events if event not in found]
        return list(found)

    def ask(self, headers: list[tuple[bytes, bytes]]) -> tuple[int, dict[bytes, bytes]]:
        """Send a request; returns its stream id and the header fields of the response."""
        stream_id = self.client.connection.get_next_available_stream_id()
        self.client.connection.send_headers(stream_id, headers)
        self.run()
        (answer,) = self.heard(ResponseReceived, stream_id)
        return stream_id, dict(answer.headers)  # type: ignore[attr-defined]


class Phone:
    """One MQTT client on one stream."""

    def __init__(self, line: Line, client_id: str, keep_alive: int = 0) -> None:
        self.line = line
        self.stream_id, fields = line.ask(REQUEST)
        assert (fields[b":status"], fields[b"sec-websocket-protocol"]) == (b"200", b"mqtt")
        self.frames = Frames(ConnectionType.CLIENT)
        self.decoder = Decoder(1 << 20, 5, client=True)
        self.put(Connect(5, client_id, True, keep_alive, None, None, None, NONE))
        answer = only(self.packets(), Connack)
        assert answer.code == 0

    def send(self, event: Event) -> None:
        self.line.client.connection.send_data(self.stream_id, self.frames.send(event))
        self.line.run()

    def put(self, *packets: Packet) -> None:
        self.send(BytesMessage(b"".join(encode(packet, 5) for packet in packets)))

    def events(self) -> list[Event]:
        for event in self.line.heard(DataReceived, self.stream_id):
            self.frames.receive_data(event.data)  # type: ignore[attr-defined]
        return list(self.frames.events())

    def goodbye(self) -> int:
        """The reason code of the DISCONNECT before the close frame, which nothing else is sent with."""
        last, close = self.events()
        assert isinstance(last, BytesMessage)
        assert isinstance(close, CloseConnection)
        (code,) = [packet.code for packet in self.decoder.feed(bytes(last.data)) if isinstance(packet, Disconnect)]
        return code

    def packets(self) -> list[Packet]:
        return [packet for event in self.events() for packet in self.decoder.feed(bytes(event.data))]  # type: ignore[attr-defined]


@both_engines
def test_the_server_says_that_it_knows_extended_connect(engine: EngineFactory) -> None:
    """3: SETTINGS_ENABLE_CONNECT_PROTOCOL."""
    line = Line(engine, Broker())
    assert line.client.connection.remote_settings[SettingCodes.ENABLE_CONNECT_PROTOCOL] == 1


@both_engines
def test_two_clients_on_one_connection_are_two_sessions(engine: EngineFactory) -> None:
    line = Line(engine, Broker())
    listener, sender = Phone(line, "listener"), Phone(line, "sender")
    listener.put(Subscribe(1, [("t/#", 1)]))
    assert [type(packet) for packet in listener.packets()] == [Suback]
    for number in range(3):
        sender.put(Publish(b"t/x", b"%d" % number * 5_000, 1, False, False, number + 1, NONE))
    assert [packet.packet_id for packet in sender.packets() if isinstance(packet, Ack)] == [1, 2, 3]
    got = [packet.body for packet in listener.packets() if isinstance(packet, Publish)]
    assert got == [b"0" * 5_000, b"1" * 5_000, b"2" * 5_000]
    assert line.broker.sessions.attached == 2
    sender.put(Disconnect(0))
    assert [type(event) for event in sender.events()] == [CloseConnection]
    assert len(line.heard(StreamEnded, sender.stream_id)) == 1
    assert line.broker.sessions.attached == 1
    line.session.end()
    assert line.broker.sessions.attached == 0


@both_engines
def test_text_is_refused_and_a_ping_is_answered(engine: EngineFactory) -> None:
    phone = Phone(Line(engine, Broker()), "c")
    phone.send(Ping(b"there?"))
    assert [event.payload for event in phone.events() if isinstance(event, Pong)] == [b"there?"]
    phone.send(TextMessage("text"))
    goodbye = only(phone.events(), CloseConnection)
    assert goodbye.code == 1003
    assert phone.line.broker.sessions.attached == 0


@both_engines
def test_a_close_frame_is_answered_and_a_broken_frame_is_a_protocol_error(engine: EngineFactory) -> None:
    line = Line(engine, Broker())
    phone = Phone(line, "c")
    phone.send(CloseConnection(1000))
    assert [event.code for event in phone.events() if isinstance(event, CloseConnection)] == [1000]
    other = Phone(line, "d")
    line.client.connection.send_data(other.stream_id, b"\x8f\x80\0\0\0\0")
    line.run()
    assert [event.code for event in other.events() if isinstance(event, CloseConnection)] == [1002]
    assert line.broker.sessions.attached == 0


@both_engines
@pytest.mark.parametrize("how", ["reset", "end"])
def test_a_stream_that_ends_without_a_word_is_a_lost_connection(engine: EngineFactory, how: str) -> None:
    line = Line(engine, Broker())
    phone = Phone(line, "c")
    connection = line.client.connection
    connection.reset_stream(phone.stream_id, 8) if how == "reset" else connection.end_stream(phone.stream_id)
    line.run()
    assert line.broker.sessions.attached == 0


@both_engines
@pytest.mark.parametrize("how", ["close frame", "end", "reset", "eof"])
@pytest.mark.parametrize("frames", [1, FRAMES_PER_TURN_MAX])
def test_a_client_that_does_not_wait_for_connack_is_heard_out(engine: EngineFactory, how: str, frames: int) -> None:
    """MQTT 5, 3.1.4 and [MQTT-3.14.4-3]: all behind CONNECT is executed, and DISCONNECT deletes the will."""
    broker = Broker()
    watcher = broker.joined("w", 5, "#", 0)
    line = Line(engine, broker)
    stream_id, _ = line.ask(REQUEST)
    connection, made = line.client.connection, Frames(ConnectionType.CLIENT)
    will = Will("wills/c", b"gone", 1, False, NONE)
    first = Connect(5, "c", False, 0, will, None, None, with_number(SESSION_EXPIRY, 1_000))
    publish = [Publish(b"t/a", b"%d" % number, 0, False, False, 0, NONE) for number in range(frames)]
    packets: list[Packet] = [first, *publish, Disconnect(0)]
    said = [made.send(BytesMessage(encode(packet, 5))) for packet in packets]
    said.append(made.send(CloseConnection(1000)) if how == "close frame" else b"")
    connection.send_data(stream_id, b"".join(said))
    if how == "end":
        connection.end_stream(stream_id)
    elif how == "reset":
        connection.reset_stream(stream_id, 8)
    line.client.exchange()
    if how == "eof":
        line.client.commands += line.server.receive(b"", broker.clock.monotonic_ns())
        assert not line.server.closed
        assert line.server.unhandled
    line.run()
    assert bodies(watcher.messages()) == [b"%d" % number for number in range(frames)]
    assert line.broker.sessions.attached == 1
    assert not line.server.unhandled
    assert line.server.closed is (how == "eof")


@both_engines
def test_a_client_that_waits_for_its_session_is_ended_with_the_node(engine: EngineFactory) -> None:
    line = Line(engine, Broker())
    stream_id, _ = line.ask(REQUEST)
    made = Frames(ConnectionType.CLIENT)
    first = Connect(5, "c", False, 0, None, None, None, with_number(SESSION_EXPIRY, 1_000))
    said = encode(first, 5) + encode(Publish(b"t/a", b"x", 0, False, False, 0, NONE), 5)
    line.client.connection.send_data(
        stream_id, made.send(BytesMessage(said)) + made.send(CloseConnection(1000)), end_stream=True
    )
    line.client.exchange()
    assert line.server.unhandled
    line.client.commands += line.server.drain(0)
    line.run()
    assert not line.server.unhandled
    assert line.broker.sessions.attached == 0


@both_engines
def test_the_client_of_a_channel_is_taken_over_alone(engine: EngineFactory) -> None:
    line = Line(engine, Broker())
    first, other = Phone(line, "c"), Phone(line, "other")
    Phone(line, "c")
    assert first.goodbye() == 0x8E
    other.put(Subscribe(1, [("t", 0)]))
    assert [type(packet) for packet in other.packets()] == [Suback]


@both_engines
@pytest.mark.parametrize(("code", "word"), [(ErrorCode.NOT_AUTHENTICATED, 0x98), (ErrorCode.NOT_ALLOWED, 0x87)])
def test_the_client_of_a_channel_is_sent_away_alone_and_told_why(engine: EngineFactory, code: ErrorCode, word: int) -> None:
    line = Line(engine, Broker())
    phone, other = Phone(line, "c"), Phone(line, "other")
    (driver,) = [session.driver for session in line.broker.attached.by_connection if session.client_id == "c"]
    driver.revoke_access(Failure(code, "no more"))
    line.run()
    assert phone.goodbye() == word
    assert line.broker.sessions.attached == 1, "the gateway has heard that it is gone"
    assert line.figures.all_disconnects() == {"revoked": 1}
    other.put(Subscribe(1, [("t", 0)]))
    assert [type(packet) for packet in other.packets()] == [Suback]


@both_engines
@pytest.mark.parametrize(("options", "code"), [({}, 0x8B), ({"server_reference": "other", "redirect": ""}, 0x9C)])
def test_clients_of_channels_are_told_that_the_node_stops(engine: EngineFactory, options: dict[str, object], code: int) -> None:
    line = Line(engine, Broker(**options))
    phones = [Phone(line, "a"), Phone(line, "b")]
    for command in line.server.drain(line.broker.clock.monotonic_ns()):
        line.broker.handler.handle(line.session, command)
    line.run()
    assert [phone.goodbye() for phone in phones] == [code, code]
    assert line.broker.sessions.attached == 0
    assert line.figures.all_disconnects() == {"shutting-down": 2}


@both_engines
def test_what_happens_in_channels_is_counted_as_mqtt(engine: EngineFactory) -> None:
    line = Line(engine, Broker())
    phone = Phone(line, "c")
    phone.put(Subscribe(1, [("t", 1)]))
    phone.put(Publish(b"t", b"1", 1, False, False, 1, NONE), Publish(b"t", b"2", 2, False, False, 2, NONE))
    assert (line.figures.protocol, line.figures.messages_in, line.figures.messages_out) == ("mqtt", 2, 2)


@both_engines
@pytest.mark.parametrize(
    ("change", "status"),
    [
        ((b":path", b"/other"), b"404"), ((b"sec-websocket-protocol", b"chat"), b"400"),
        ((b"sec-websocket-version", b"8"), b"400"), ((b"origin", b"https://evil.example"), b"403"),
    ],
)  # fmt: skip
def test_what_is_refused(engine: EngineFactory, change: tuple[bytes, bytes], status: bytes) -> None:
    line = Line(engine, Broker(), origins=["https://good.example"])
    headers = [field for field in REQUEST if field[0] != change[0]]
    headers.insert(3 if change[0] == b":path" else len(headers), change)
    stream_id, fields = line.ask(headers)
    assert fields[b":status"] == status
    assert line.heard(StreamEnded, stream_id) or line.heard(StreamReset, stream_id)
    headers = [*REQUEST, (b"origin", b"https://GOOD.example")]
    assert line.ask(headers)[1][b":status"] == b"200"


@both_engines
def test_whoever_never_says_connect_has_ten_seconds(engine: EngineFactory) -> None:
    line = Line(engine, Broker())
    stream_id, _ = line.ask(REQUEST)
    line.run(9_000)
    assert not line.heard(StreamEnded, stream_id)
    line.run(2_000)
    assert line.heard(StreamEnded, stream_id)


def room(phone: Phone) -> int:
    """Bytes that the client's stream window allows."""
    stream = phone.line.client.connection.streams[phone.stream_id]
    return int(stream.outbound_flow_control_window)


def pour(phone: Phone, count: int, size: int) -> list[int]:
    """Publish as the windows allow, while the gateway does not run; returns the numbers of the messages sent completely."""
    connection = phone.line.client.connection
    sent: list[int] = []
    for number in range(1, count + 1):
        data = phone.frames.send(BytesMessage(encode(Publish(b"t/x", bytes(size), 1, False, False, number, NONE), 5)))
        if connection.local_flow_control_window(phone.stream_id) < len(data):
            break
        for at in range(0, len(data), 16_384):
            connection.send_data(phone.stream_id, data[at : at + 16_384])
        phone.line.client.exchange()
        sent.append(number)
    return sent


def acknowledged(phone: Phone) -> list[int]:
    return [packet.packet_id for packet in phone.packets() if isinstance(packet, Ack)]


@both_engines
def test_a_client_whose_connection_does_not_read_runs_out_of_window_and_goes_on_later(engine: EngineFactory) -> None:
    """RFC 9113, 5.2: only the window of its stream is kept back; no message is lost, and the client is not disconnected."""
    line = Line(engine, Broker(unanswered_bytes_max=65_536))
    eager, other = Phone(line, "eager"), Phone(line, "other")
    sent = pour(eager, 100, 50_000)
    assert STREAM_WINDOW_BYTES // 50_000 <= len(sent) <= STREAM_WINDOW_BYTES // 50_000 + 5
    assert room(eager) < 51_000
    assert room(other) > STREAM_WINDOW_BYTES // 2
    other.put(Publish(b"t/y", b"1", 1, False, False, 7, NONE))
    assert acknowledged(other) == [7]
    line.run(500)
    assert acknowledged(eager) == sent
    assert room(eager) > STREAM_WINDOW_BYTES // 2
    again = pour(eager, 10, 50_000)
    line.run(500)
    assert acknowledged(eager) == again == list(range(1, 11))
    assert line.broker.sessions.attached == 2
    assert not line.client.resets()


@both_engines
def test_the_windows_of_many_that_are_held_do_not_close_the_connections(engine: EngineFactory) -> None:
    """Held bytes of a stream do not count against the connection's window: a dozen waiting streams do not exhaust its 8 MiB."""
    line = Line(engine, Broker(unanswered_bytes_max=65_536))
    many = [Phone(line, f"c{number}") for number in range(12)]
    sent = [pour(phone, 100, 50_000) for phone in many]
    assert sum(map(len, sent)) * 50_000 > 9 * 1024 * 1024
    other = Phone(line, "other")
    other.put(Publish(b"t/y", b"1", 1, False, False, 7, NONE))
    assert acknowledged(other) == [7]
    for _ in range(3):
        line.run(500)
    assert [acknowledged(phone) for phone in many] == sent


@both_engines
def test_who_is_made_to_wait_for_its_rate_rests_alone_and_is_not_taken_for_silent(engine: EngineFactory) -> None:
    line = Line(engine, Broker())
    eager, other = Phone(line, "eager"), Phone(line, "other")
    (driver,) = [session.driver for session in line.broker.attached.by_connection if session.client_id == "eager"]
    driver.throttle(line.broker.clock.monotonic_ns() + 5_000_000_000)
    assert len(pour(eager, 100, 50_000)) >= STREAM_WINDOW_BYTES // 50_000
    for _ in range(4):
        line.run(1_000)
        other.put(Publish(b"t/y", b"1", 1, False, False, 7, NONE))
        assert acknowledged(other) == [7]
        assert acknowledged(eager) == []
    line.run(1_000)
    line.run(1_000)
    assert acknowledged(eager)[:3] == [1, 2, 3]
    assert room(eager) > STREAM_WINDOW_BYTES // 2


@both_engines
def test_a_rest_that_is_longer_than_the_keep_alive_ends_nobody(engine: EngineFactory) -> None:
    line = Line(engine, Broker())
    phone = Phone(line, "c", keep_alive=2)
    (driver,) = [session.driver for session in line.broker.attached.by_connection if session.client_id == "c"]
    driver.throttle(line.broker.clock.monotonic_ns() + 9_000_000_000)
    phone.put(Publish(b"t", b"1", 1, False, False, 1, NONE))
    for _ in range(18):
        line.run(500)
    assert line.broker.sessions.attached == 1
    line.run(500)
    assert acknowledged(phone) == [1]
    for _ in range(8):
        line.run(500)
    assert line.broker.sessions.attached == 0, "its silence counts from there on"


@both_engines
def test_a_rate_of_each_connection_is_one_of_each_channel(engine: EngineFactory) -> None:
    """The rate limit of one client does not pause the connection, whose other clients are within their limits."""
    line = Line(engine, Broker())
    line.entry.handler = Throttle(LimitsSettings(messages_per_s=1, burst_s=1), line.broker.handler, line.broker.clock)
    eager, other = Phone(line, "eager"), Phone(line, "other")
    line.run(1_000)  # CONNECT counts, too
    eager.put(*[Publish(b"t/x", b"1", 1, False, False, number, NONE) for number in range(1, 6)])
    assert acknowledged(eager) == [1, 2, 3, 4, 5], "what was read in one piece is carried out, and leaves a debt"
    eager.put(Publish(b"t/x", b"1", 1, False, False, 6, NONE))
    other.put(Publish(b"t/y", b"1", 1, False, False, 7, NONE))
    assert (acknowledged(eager), acknowledged(other)) == ([], [7])
    for _ in range(6):
        line.run(1_000)
    assert acknowledged(eager) == [6]
