"""The clients and servers that perform the scripts of `tests.conformance.dialogue`: Headgate's and amqtt's.

amqtt runs in the process of the test. Our server is the broker in memory with its virtual clock; for amqtt's client it has a
socket on loopback.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

from amqtt.broker import Broker as AmqttBroker
from amqtt.client import ClientConfig, MQTTClient
from amqtt.contexts import BrokerConfig, ListenerConfig, WillConfig
from amqtt.plugins.base import BasePlugin

from protocols.mqtt.connect import Connect, Disconnect, Will
from protocols.mqtt.packet import Packet
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe, Unsubscribe
from tests.conformance.dialogue import Peer
from tests.conformance.script import word
from tests.protocols.mqtt.stage import Broker, Client

KEEP_ALIVE_S = 60
Pairing = Callable[[], AbstractAsyncContextManager[Callable[[str], Peer]]]
"""Starts a server; gives what makes connections to it."""


class MemoryPeer:
    """Our codec as a client of our server, both in memory."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.words: list[str] = []
        self._client = broker.client(4)
        self._name = name
        self._packet_id = 0
        self._over = False

    async def connect(self, kept: bool, will: Will | None) -> None:
        self._client.put(Connect(4, self._name, not kept, 0, will, None, None, NONE))

    async def subscribe(self, filters: Sequence[tuple[str, int]]) -> None:
        self._client.put(Subscribe(self._number(), list(filters), NONE))

    async def unsubscribe(self, filters: Sequence[str]) -> None:
        self._client.put(Unsubscribe(self._number(), list(filters)))

    async def publish(self, topic: str, body: bytes, qos: int, retained: bool) -> None:
        self._client.put(Publish(topic.encode(), body, qos, retained, False, self._number() if qos else 0, NONE))

    async def leave(self) -> None:
        self.heard()
        self._over = True
        self._client.put(Disconnect(0, NONE))

    async def drop(self) -> None:
        self.heard()
        self._over = True
        self._client.drop()

    def heard(self) -> list[str]:
        while packets := self._client.take():
            self.words += map(unnumbered, packets)
            self._client.put(*(ack for packet in packets if (ack := acknowledgement(packet)) is not None))
        if self._client.gone and not self._over:
            self._over = True
            self.words.append("closed")
        return self.words

    def _number(self) -> int:
        self._packet_id += 1
        return self._packet_id


def acknowledgement(packet: Packet) -> Ack | None:
    """The acknowledgement that a client has to send for a packet, None for none."""
    if isinstance(packet, Publish) and packet.qos:
        return Ack(3 + packet.qos, packet.packet_id)
    if isinstance(packet, Ack) and packet.kind in {5, 6}:
        return Ack(packet.kind + 1, packet.packet_id)
    return None


def unnumbered(packet: Packet) -> str:
    """A packet as a word, without its identifier."""
    kind, *rest = word(packet).split(" ")
    return " ".join((kind, *(rest[1:] if isinstance(packet, (Ack, Suback)) else rest)))


class Ear(BasePlugin[Any]):  # type: ignore[misc]
    """A plugin of amqtt's client: keeps the received packets as words (`tests.conformance.script`)."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.words: list[str] = []

    async def on_mqtt_packet_received(self, packet: Any, session: Any) -> None:
        """One packet."""
        kind = type(packet).__name__.removesuffix("Packet").upper()
        if kind == "CONNACK":
            kind += f" {packet.return_code:02x}" + (" present" if packet.session_parent else "")
        elif kind == "SUBACK":
            kind = " ".join((kind, *(f"{code:02x}" for code in packet.payload.return_codes)))
        elif kind == "PUBLISH":
            flags = (" dup" if packet.dup_flag else "") + (" retain" if packet.retain_flag else "")
            kind += f" {packet.topic_name} q{packet.qos}{flags} {packet.data.decode()}"
        if kind != "PINGRESP":
            self.words.append(kind)


class AmqttPeer:
    """amqtt's client on a socket. It has a user name: amqtt's broker keeps nothing for clients without one."""

    def __init__(self, port: int, name: str) -> None:
        self.words: list[str] = []
        self._uri = f"mqtt://{name}:secret@127.0.0.1:{port}"
        self._name = name
        self._client = MQTTClient(name)
        self._over = True

    async def connect(self, kept: bool, will: Will | None) -> None:
        said = None if will is None else WillConfig(will.topic, will.body.decode(), will.qos, will.retain)
        plugins: dict[str, Any] = {f"{__name__}.Ear": {}}
        config = ClientConfig(keep_alive=KEEP_ALIVE_S, auto_reconnect=False, will=said, plugins=plugins)
        self._client = MQTTClient(self._name, config)
        self.words = self._client.plugins_manager.get_plugin("Ear").words
        await self._client.connect(self._uri, cleansession=not kept)
        self._over = False

    async def subscribe(self, filters: Sequence[tuple[str, int]]) -> None:
        await self._client.subscribe(list(filters))

    async def unsubscribe(self, filters: Sequence[str]) -> None:
        await self._client.unsubscribe(list(filters))

    async def publish(self, topic: str, body: bytes, qos: int, retained: bool) -> None:
        await self._client.publish(topic, body, qos, retained)

    async def leave(self) -> None:
        if not self._over:
            self._over = True
            await self._client.disconnect()

    async def drop(self) -> None:
        self._over = True
        await self._client._handler.writer.close()

    def heard(self) -> list[str]:
        if not self._over and not self._client.session.transitions.is_connected():
            self._over = True
            self.words.append("closed")
        return self.words


class SocketClient(Client):
    """A connection to the broker in memory whose bytes go to and come from a socket."""

    def __init__(self, broker: Broker, writer: asyncio.StreamWriter) -> None:
        super().__init__(broker, 4)
        self._writer = writer

    def hear(self, data: bytes) -> None:
        self._writer.write(data)

    def _end(self) -> None:
        super()._end()
        self._writer.close()


@asynccontextmanager
async def headgate() -> AsyncIterator[Callable[[str], Peer]]:
    """Our server and our codec."""
    yield partial(MemoryPeer, Broker())


@asynccontextmanager
async def headgate_and_amqtt() -> AsyncIterator[Callable[[str], Peer]]:
    """Our server and amqtt's client."""
    broker = Broker()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = SocketClient(broker, writer)
        broker.clients.append(client)
        while data := await reader.read(65_536):
            client.send(data)
        client.drop()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield partial(AmqttPeer, server.sockets[0].getsockname()[1])


@asynccontextmanager
async def amqtt() -> AsyncIterator[Callable[[str], Peer]]:
    """amqtt's server and amqtt's client."""
    plugins: dict[str, Any] = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": False}}
    broker = AmqttBroker(BrokerConfig(listeners={"default": ListenerConfig(bind="127.0.0.1:0")}, plugins=plugins))
    await broker.start()
    try:
        yield partial(AmqttPeer, broker._servers["default"].instance.sockets[0].getsockname()[1])
    finally:
        await broker.shutdown()
