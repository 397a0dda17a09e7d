"""amqtt's client, unmodified, against a whole node: MQTT 3.1.1 over TCP and over WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from amqtt.client import ClientConfig, MQTTClient
from amqtt.contexts import WillConfig
from amqtt.errors import ConnectError
from amqtt.session import ApplicationMessage

from tests.interop.node import Node

ANSWER_S = 20
SCHEMES = ["mqtt", "ws"]


def address(node: Node, scheme: str) -> str:
    """The URI of a listener in the clear."""
    return f"mqtt://127.0.0.1:{node.port('mqtt')}" if scheme == "mqtt" else f"ws://127.0.0.1:{node.port('websocket')}/mqtt"


@asynccontextmanager
async def connected(
    node: Node, name: str, scheme: str = "mqtt", kept: bool = False, will: WillConfig | None = None
) -> AsyncIterator[MQTTClient]:
    """A client that is connected; `kept` is a session that outlives its connection."""
    client = MQTTClient(name, ClientConfig(auto_reconnect=False, will=will))
    await client.connect(address(node, scheme), cleansession=not kept)
    try:
        yield client
    finally:
        await client.disconnect()


async def take(client: MQTTClient, count: int) -> list[ApplicationMessage]:
    """The next messages."""
    return [await client.deliver_message(ANSWER_S) for _ in range(count)]


async def cut(client: MQTTClient) -> None:
    """Close the socket without DISCONNECT."""
    await client._handler.writer.close()


def bodies(messages: list[ApplicationMessage]) -> list[str]:
    """Payloads as text."""
    return [message.data.decode() for message in messages]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_qos_both_ways(node: Node, scheme: str, qos: int) -> None:
    async def talk() -> list[ApplicationMessage]:
        async with connected(node, "listener", scheme) as listener, connected(node, "sender", scheme) as sender:
            assert await listener.subscribe([(f"am{scheme}{qos}/+/temp", qos)]) == [qos]
            for number in range(30):
                await sender.publish(f"am{scheme}{qos}/room/temp", str(number).encode(), qos)
            return await take(listener, 30)

    got = asyncio.run(talk())
    assert bodies(got) == [str(number) for number in range(30)]
    assert {(message.qos, message.retain) for message in got} == {(qos, False)}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_unsubscribed_is_heard_no_more(node: Node, scheme: str) -> None:
    async def talk() -> list[ApplicationMessage]:
        async with connected(node, "listener", scheme) as listener, connected(node, "sender", scheme) as sender:
            assert await listener.subscribe([(f"amun{scheme}/a", 1), (f"amun{scheme}/b", 0)]) == [1, 0]
            await listener.unsubscribe([f"amun{scheme}/a"])
            for topic in ("a", "b"):
                await sender.publish(f"amun{scheme}/{topic}", topic.encode(), 1)
            return await take(listener, 1)

    assert bodies(asyncio.run(talk())) == ["b"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_retained(node: Node, scheme: str) -> None:
    async def talk() -> tuple[list[ApplicationMessage], list[ApplicationMessage]]:
        topic = f"amretained{scheme}/a"
        async with connected(node, "keeper", scheme) as keeper:
            for value in (b"20", b"21"):
                await keeper.publish(topic, value, 1, retain=True)
            async with connected(node, "late", scheme) as late:
                await late.subscribe([(f"amretained{scheme}/#", 1)])
                first = await take(late, 1)
            await keeper.publish(topic, b"", 1, retain=True)
            async with connected(node, "later", scheme) as later:
                await later.subscribe([(f"amretained{scheme}/#", 1)])
                await keeper.publish(topic, b"live", 1)
                return first, await take(later, 1)

    first, second = asyncio.run(talk())
    assert [(*bodies(first), first[0].retain)] == [("21", True)]
    assert [(*bodies(second), second[0].retain)] == [("live", False)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_will_of_a_client_whose_socket_is_cut(node: Node, scheme: str) -> None:
    async def talk() -> list[ApplicationMessage]:
        async with connected(node, "heir", scheme) as heir:
            await heir.subscribe([(f"amwills{scheme}/#", 1)])
            async with connected(node, "tidy", scheme, will=WillConfig(f"amwills{scheme}/tidy", "gone", 1)):
                pass
            async with connected(node, "victim", scheme, will=WillConfig(f"amwills{scheme}/victim", "gone", 1)) as victim:
                await cut(victim)
                return await take(heir, 1)

    assert [message.topic for message in asyncio.run(talk())] == [f"amwills{scheme}/victim"]


@pytest.mark.parametrize(("scheme", "qos"), [("mqtt", 1), ("ws", 2)])
def test_a_session_is_resumed_after_kill_9(mortal: Node, scheme: str, qos: int) -> None:
    async def leave() -> None:
        async with connected(mortal, "absent", scheme, kept=True) as absent:
            await absent.subscribe([("k/#", qos)])
        async with connected(mortal, "sender", scheme) as sender:
            for number in range(30):
                await sender.publish("k/x", str(number).encode(), qos)

    async def come_back() -> list[ApplicationMessage]:
        async with connected(mortal, "absent", scheme, kept=True) as back:
            return await take(back, 30)

    asyncio.run(leave())
    mortal.kill()
    mortal.start()
    got = asyncio.run(come_back())
    assert bodies(got) == [str(number) for number in range(30)]
    assert {message.qos for message in got} == {qos}


def test_a_second_connection_of_the_same_client_ends_the_first(node: Node) -> None:
    async def talk() -> bool:
        async with connected(node, "twin") as first, connected(node, "twin") as second:
            await asyncio.wait_for(first._handler.wait_disconnect(), ANSWER_S)
            await second.publish("amtwin/x", b"x", 1)
            return bool(second.session.transitions.is_connected())

    assert asyncio.run(talk())


def test_a_refused_connection_is_the_clients_own_error(node: Node) -> None:
    async def talk() -> None:
        client = MQTTClient("", ClientConfig(auto_reconnect=False))
        await client.connect(address(node, "mqtt"), cleansession=False)

    with pytest.raises(ConnectError) as refused:
        asyncio.run(talk())
    assert refused.value.return_code == 2
