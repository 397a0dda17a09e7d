"""Statements of MQTT 5.0 (OASIS) on WebSocket and shared subscriptions, by number; others are in tests/protocols/mqtt."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Event, Request, TextMessage

from domain.command import Command, Disconnected
from gateway.connection.client_connection import ClientConnection
from protocols.mqtt import property as props
from protocols.mqtt.connect import Connack, Connect
from protocols.mqtt.packet import Decoder, Packet, Ping, encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe
from protocols.websocket.adapter import WebSocketAdapter
from protocols.websocket.settings import WebSocketSettings
from tests.connection_driver import StrictDriver
from tests.protocols.mqtt.stage import PEER, Broker, Client, bodies

CONNECT = encode(Connect(5, "c", True, 0, None, None, None, NONE), 5)
SUBSCRIBE = encode(Subscribe(1, [("t", 0)]), 5)
PING = encode(Ping(), 5)


class Browser(StrictDriver):
    """A WebSocket client of a broker in memory."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.connection = WebSocketAdapter({"/mqtt": broker.adapter}, WebSocketSettings()).connect(
            PEER, broker.clock.monotonic_ns()
        )
        self.socket = WSConnection(ConnectionType.CLIENT)
        self.session = ClientConnection("websocket", self)
        self.decoder = Decoder(1 << 20, 5, client=True)
        self.events: list[Event] = []
        self.reasons: list[str] = []
        self.send(self.socket.send(Request("localhost", "/mqtt", subprotocols=["mqtt"])))

    def answer(self, event: object) -> None:
        self.connection.answer(event, self.broker.clock.monotonic_ns())  # type: ignore[arg-type]

    def send(self, data: bytes) -> None:
        self.carry_out(self.connection.receive(data, self.broker.clock.monotonic_ns()))
        while self.connection.deadline() == 0:
            self.carry_out(self.connection.expire(self.broker.clock.monotonic_ns()))
        for part in self.connection.outgoing():
            self.socket.receive_data(part)
        self.events += self.socket.events()

    def carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Disconnected):
                self.reasons.append(command.reason)
            self.broker.handler.handle(self.session, command)
        self.broker.run()

    def packets(self) -> list[Packet]:
        found: list[Packet] = []
        for event in self.events:
            if isinstance(event, BytesMessage):
                found += self.decoder.feed(bytes(event.data))
        self.events.clear()
        return found


def test_6_0_0_4_the_server_names_the_sub_protocol_mqtt() -> None:
    browser = Browser(Broker())
    (accepted,) = browser.events
    assert isinstance(accepted, AcceptConnection)
    assert accepted.subprotocol == "mqtt"


def test_6_0_0_1_anything_but_binary_frames_closes_the_connection() -> None:
    browser = Browser(Broker())
    browser.send(browser.socket.send(BytesMessage(CONNECT)))
    assert isinstance(browser.packets()[0], Connack)
    browser.send(browser.socket.send(TextMessage("text")))
    (goodbye,) = browser.events
    assert isinstance(goodbye, CloseConnection)
    assert (goodbye.code, browser.connection.closed, browser.reasons) == (1003, True, ["lost"])


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_6_0_0_2_packets_need_not_be_aligned_on_frames(size: int) -> None:
    browser = Browser(Broker())
    data = CONNECT + SUBSCRIBE + PING
    for at in range(0, len(data), size):
        browser.send(browser.socket.send(BytesMessage(data[at : at + size])))
    first, *others = browser.packets()
    assert isinstance(first, Connack)
    assert {type(packet) for packet in others} == {Suback, Ping}


def member(broker: Broker, client_id: str, qos: int, clean: bool = True) -> Client:
    client = broker.client(5)
    client.connect(client_id, clean=clean, expiry_s=None if clean else 100)
    assert client.subscribe("$share/g/t", qos) == qos
    return client


@pytest.mark.parametrize("name", ["", "a+", "#a", "a#"])
def test_4_8_2_1_and_2_a_share_name_has_a_character_and_none_of_the_wildcards(name: str) -> None:
    client = Broker().client(5)
    client.connect("c")
    assert client.subscribe(f"$share/{name}/t", 1) >= 0x80


def test_4_8_2_3_the_quality_of_service_is_that_of_each_subscription() -> None:
    broker = Broker()
    member(broker, "zero", 0)
    one = member(broker, "one", 1)
    sender = broker.client(5)
    sender.connect("sender")
    for number in range(4):
        sender.publish("t", b"%d" % number, 2, packet_id=number + 1)
    assert {message.qos for message in one.messages()} == {1}


def test_4_8_2_4_and_5_what_is_sent_at_qos_2_goes_to_nobody_else() -> None:
    broker = Broker()
    first = member(broker, "first", 2, clean=False)
    sender = broker.client(5)
    sender.connect("sender")
    sender.publish("t", b"x", 2)
    assert bodies(first.messages(answer=False)) == [b"x"]
    first.drop()
    assert member(broker, "second", 2).messages() == []
    first = broker.client(5)
    first.connect("first", clean=False, expiry_s=100)
    assert bodies(first.messages()) == [b"x"]


def test_4_8_2_6_a_refused_delivery_is_not_sent_to_another_subscriber() -> None:
    broker = Broker()
    first = member(broker, "first", 1)
    sender = broker.client(5)
    sender.connect("sender")
    sender.publish("t", b"x")
    (message,) = first.messages(answer=False)
    assert isinstance(message, Publish)
    first.put(Ack(4, message.packet_id, 0x87))
    first.drop()
    assert member(broker, "second", 1).messages() == []


def test_3_2_2_3_13_shared_subscriptions_are_available() -> None:
    answer = Broker().client(5).connect("c")
    assert answer.properties.number(props.SHARED_AVAILABLE, 1) == 1
