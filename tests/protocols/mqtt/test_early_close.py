"""Clients that send CONNECT with all the rest behind it, and close at once (3.1.4: a client need not wait for CONNACK)."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection

from domain.client.mqtt_session import Attached
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.observe.counters import CounterRegistry
from protocols.hosts import Hosts
from protocols.mqtt.connect import Connect, Disconnect, Will
from protocols.mqtt.packet import Packet, encode
from protocols.mqtt.property import NONE, SESSION_EXPIRY
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Subscribe
from protocols.websocket.connection import WebSocketConnection
from protocols.websocket_frame import FRAMES_PER_TURN_MAX
from tests.gateway.scripted import FakeTransport
from tests.protocols.mqtt.stage import PEER, Broker, bodies, with_number

KEY = base64.b64encode(bytes(16))
HEAD = b"GET /mqtt HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
Line = Callable[[Broker], Pump]


def tcp(broker: Broker) -> Pump:
    return pump(broker, lambda: broker.adapter.connect(PEER, broker.clock.monotonic_ns()))


def websocket(broker: Broker) -> Pump:
    made = {"/mqtt": broker.adapter}
    now = broker.clock.monotonic_ns
    return pump(broker, lambda: WebSocketConnection(made, lambda _origin, _host: True, Hosts((), ""), PEER, now()))


def pump(broker: Broker, connect: Callable[[], object]) -> Pump:
    context = ConnectionContext(broker.handler, broker.clock, CounterRegistry(), ConnectionLimits(10))
    made = Pump(context, "mqtt", lambda peer, now: connect())  # type: ignore[arg-type, return-value]
    made.connection_made(FakeTransport())
    return made


def in_frames(parts: list[bytes], close: bool = True) -> bytes:
    frames = Frames(ConnectionType.CLIENT)
    said = [frames.send(BytesMessage(part)) for part in parts] + ([frames.send(CloseConnection(1000))] if close else [])
    return HEAD + b"sec-websocket-protocol: mqtt\r\nsec-websocket-key: " + KEY + b"\r\n\r\n" + b"".join(said)


def fire(broker: Broker, line: Line, end: str, version: int, packets: list[Packet], clean: bool, will: bool) -> Pump:
    """CONNECT and `packets` in one segment, then the end of the stream or of the socket before anything is answered."""
    left = Will("wills/c", b"gone", 1, False, NONE) if will else None
    expiry = with_number(SESSION_EXPIRY, 1000) if version == 5 and not clean else NONE
    first = Connect(version, "c", clean, 0, left, None, None, expiry)
    data = b"".join(encode(packet, version) for packet in [first, *packets])
    made = line(broker)
    made.data_received(in_frames([data]) if line is websocket else data)
    if end == "fin":
        made.eof_received()
        broker.run()
        made.connection_lost(None)
    else:
        made.connection_lost(ConnectionResetError() if end == "reset" else None)
    broker.run()
    return made


@pytest.mark.parametrize("line", [tcp, websocket])
@pytest.mark.parametrize("end", ["fin", "lost", "reset"])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(("version", "qos"), [(4, 0), (4, 1), (5, 0), (5, 2)])
def test_all_behind_connect_is_executed_and_disconnect_deletes_the_will(
    line: Line, end: str, clean: bool, version: int, qos: int
) -> None:
    """3.1.4, 4.2; [MQTT-3.14.4-3]: DISCONNECT with reason code 0x00 deletes the will."""
    broker = Broker()
    watcher = broker.joined("w", 5, "#", 0)
    publish = Publish(b"t/a", b"x", qos, False, False, 1 if qos else 0, NONE)
    made = fire(broker, line, end, version, [publish, Disconnect(0)], clean, True)
    assert bodies(watcher.messages()) == [b"x"]
    assert made.client.closed
    assert broker.attached.by_connection.keys() == {watcher.client_connection}


@pytest.mark.parametrize("line", [tcp, websocket])
@pytest.mark.parametrize("end", ["fin", "lost", "reset"])
@pytest.mark.parametrize("clean", [True, False])
def test_without_disconnect_the_will_comes_behind_the_messages(line: Line, end: str, clean: bool) -> None:
    """[MQTT-3.1.2-8]."""
    broker = Broker()
    watcher = broker.joined("w", 4, "#", 0)
    publish = Publish(b"t/a", b"x", 1, False, False, 1, NONE)
    made = fire(broker, line, end, 4, [publish], clean, True)
    assert bodies(watcher.messages()) == [b"x", b"gone"]
    assert made.client.closed


@pytest.mark.parametrize("line", [tcp, websocket])
@pytest.mark.parametrize("end", ["fin", "lost", "reset"])
@pytest.mark.parametrize("version", [4, 5])
def test_a_subscription_behind_connect_is_kept(line: Line, end: str, version: int) -> None:
    broker = Broker()
    fire(broker, line, end, version, [Subscribe(1, [("t/#", 1)])], False, False)
    broker.publish("t", b"meanwhile")
    client = broker.client(version)
    assert client.connect("c", clean=False, expiry_s=1000 if version == 5 else None).present
    assert bodies(client.messages()) == [b"meanwhile"]


@pytest.mark.parametrize("end", ["fin", "lost"])
def test_a_broken_packet_behind_connect_ends_what_came_before_it(end: str) -> None:
    """What precedes it is executed; no DISCONNECT has come, so the will is published (4.13)."""
    broker = Broker()
    watcher = broker.joined("w", 4, "#", 0)
    made = tcp(broker)
    data = encode(Connect(4, "c", False, 0, Will("wills/c", b"gone", 0, False, NONE), None, None, NONE), 4)
    made.data_received(data + encode(Publish(b"t/a", b"x", 0, False, False, 0, NONE), 4) + b"\xf0\x00")
    if end == "fin":
        made.eof_received()
    made.connection_lost(None)
    broker.run()
    assert bodies(watcher.messages()) == [b"x", b"gone"]


def test_what_comes_between_connack_and_the_packets_that_waited_is_behind_them() -> None:
    """4.6: messages are passed on in the order in which they came."""
    broker = Broker()
    connection = broker.adapter.connect(PEER, broker.clock.monotonic_ns())
    first, second = [encode(Publish(b"t/a", body, 0, False, False, 0, NONE), 4) for body in (b"1", b"2")]
    connection.receive(encode(Connect(4, "c", True, 0, None, None, None, NONE), 4) + first, 0)
    connection.answer(Attached(None, False), 0)
    assert not connection.reading
    commands = [*connection.receive(second, 0), *connection.expire(0)]
    assert [message.body for command in commands for message in getattr(command, "messages", ())] == [b"1", b"2"]
    assert connection.reading


def test_frames_for_later_turns_are_handled_before_the_end_of_the_stream() -> None:
    broker = Broker()
    watcher = broker.joined("w", 4, "#", 0)
    packets: list[Packet] = [Connect(4, "c", True, 0, None, None, None, NONE)]
    packets += [Publish(b"t/a", b"%d" % number, 0, False, False, 0, NONE) for number in range(3 * FRAMES_PER_TURN_MAX)]
    made = websocket(broker)
    made.data_received(in_frames([encode(packet, 4) for packet in packets], close=False))
    made.eof_received()
    broker.run()
    made.connection_lost(None)
    broker.run()
    assert bodies(watcher.messages()) == [b"%d" % number for number in range(3 * FRAMES_PER_TURN_MAX)]
    assert made.client.closed


def test_acknowledgements_behind_connect_settle_what_they_name() -> None:
    broker = Broker()
    client = broker.client()
    client.connect("c", clean=False)
    client.subscribe("t/#", 1)
    broker.publish("t", b"x")
    (delivered,) = client.messages(answer=False)
    client.drop()
    fire(broker, tcp, "fin", 4, [Ack(4, delivered.packet_id), Disconnect(0)], False, False)
    client = broker.client()
    assert client.connect("c", clean=False).present
    assert client.messages() == []
