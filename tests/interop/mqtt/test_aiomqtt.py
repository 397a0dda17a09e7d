"""aiomqtt, unmodified, against a whole node."""

from __future__ import annotations

import asyncio
import socket

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.interop.node import Node

pytestmark = pytest.mark.interop
VERSIONS = [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5]
PATIENCE_S = 20
ANSWER_S = 3


def client(
    node: Node, name: str, version: aiomqtt.ProtocolVersion, kept: bool = False, will: aiomqtt.Will | None = None
) -> aiomqtt.Client:
    """A client; `kept` is a session that outlives its connection."""
    if version != aiomqtt.ProtocolVersion.V5:
        return aiomqtt.Client(
            "127.0.0.1", node.port("mqtt"), identifier=name, protocol=version, clean_session=not kept, will=will,
            timeout=ANSWER_S,
        )  # fmt: skip
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 3600 if kept else 0
    return aiomqtt.Client(
        "127.0.0.1", node.port("mqtt"), identifier=name, protocol=version, clean_start=not kept, properties=properties,
        will=will, timeout=ANSWER_S,
    )  # fmt: skip


async def take(source: aiomqtt.Client, count: int) -> list[aiomqtt.Message]:
    """The next messages."""
    got: list[aiomqtt.Message] = []

    async def read() -> None:
        async for message in source.messages:
            got.append(message)
            if len(got) == count:
                return

    await asyncio.wait_for(read(), PATIENCE_S)
    return got


async def cut(victim: aiomqtt.Client) -> None:
    """Connect, and lose the socket."""
    async with victim:
        raw = victim._client.socket()
        assert isinstance(raw, socket.socket)
        raw.shutdown(socket.SHUT_RDWR)
        await take(victim, 1)


def bodies(messages: list[aiomqtt.Message]) -> list[str]:
    """Payloads as text."""
    return [message.payload.decode() if isinstance(message.payload, bytes) else "?" for message in messages]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_qos_both_ways(node: Node, version: aiomqtt.ProtocolVersion, qos: int) -> None:
    async def talk() -> list[aiomqtt.Message]:
        async with client(node, "listener", version) as listener, client(node, "sender", version) as sender:
            await listener.subscribe(f"aio{version}{qos}/+/temp", qos)
            for number in range(30):
                await sender.publish(f"aio{version}{qos}/room/temp", str(number), qos)
            return await take(listener, 30)

    got = asyncio.run(talk())
    assert bodies(got) == [str(number) for number in range(30)]
    assert {(message.qos, message.retain) for message in got} == {(qos, False)}


@pytest.mark.parametrize("version", VERSIONS)
def test_retained(node: Node, version: aiomqtt.ProtocolVersion) -> None:
    async def talk() -> tuple[list[aiomqtt.Message], list[aiomqtt.Message]]:
        topic = f"aioretained{version}/a"
        async with client(node, "keeper", version) as keeper:
            for value in ("20", "21"):
                await keeper.publish(topic, value, 1, retain=True)
            async with client(node, "late", version) as late:
                await late.subscribe(f"aioretained{version}/#", 1)
                first = await take(late, 1)
            await keeper.publish(topic, b"", 1, retain=True)
            async with client(node, "later", version) as later:
                await later.subscribe(f"aioretained{version}/#", 1)
                await keeper.publish(topic, "live", 1)
                return first, await take(later, 1)

    first, second = asyncio.run(talk())
    assert [(*bodies(first), first[0].retain)] == [("21", True)]
    assert [(*bodies(second), second[0].retain)] == [("live", False)]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_will_of_a_client_whose_socket_is_cut(node: Node, version: aiomqtt.ProtocolVersion) -> None:
    async def talk() -> list[aiomqtt.Message]:
        async with client(node, "heir", version) as heir:
            await heir.subscribe(f"aiowills{version}/#", 1)
            async with client(node, "tidy", version, will=aiomqtt.Will(f"aiowills{version}/tidy", b"gone", 1)):
                pass
            with pytest.raises(aiomqtt.MqttError):
                await cut(client(node, "victim", version, will=aiomqtt.Will(f"aiowills{version}/victim", b"gone", 1)))
            return await take(heir, 1)

    assert [str(message.topic) for message in asyncio.run(talk())] == [f"aiowills{version}/victim"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_is_resumed_after_kill_9(mortal: Node, version: aiomqtt.ProtocolVersion) -> None:
    async def leave() -> None:
        async with client(mortal, "absent", version, kept=True) as absent:
            await absent.subscribe("k/#", 1)
        async with client(mortal, "sender", version) as sender:
            for number in range(30):
                await sender.publish("k/x", str(number), 1)

    async def come_back() -> list[aiomqtt.Message]:
        async with client(mortal, "absent", version, kept=True) as back:
            return await take(back, 30)

    asyncio.run(leave())
    mortal.kill()
    mortal.start()
    assert bodies(asyncio.run(come_back())) == [str(number) for number in range(30)]


@pytest.mark.parametrize("qos", [1, 2])
def test_kill_9_during_traffic(mortal: Node, qos: int) -> None:
    """aiomqtt does not reconnect by itself: the program enters the same client again, for a new one would have forgotten the
    packet ids of its session. What was confirmed arrives, at QoS 2 once. No order is asked for: entered again, aiomqtt sends
    the next message before CONNACK and repeats the unconfirmed one after it."""
    confirmed: list[str] = []
    got: list[str] = []
    kills = 2

    async def listen(listener: aiomqtt.Client) -> None:
        while True:
            try:
                async with listener:
                    await listener.subscribe("k/#", qos)
                    async for message in listener.messages:
                        got.extend(bodies([message]))
            except aiomqtt.MqttError:
                await asyncio.sleep(0.05)

    async def send(sender: aiomqtt.Client, until: int) -> None:
        number = len(confirmed) * 1000
        while len(confirmed) < until:
            try:
                async with sender:
                    while len(confirmed) < until:
                        number += 1
                        await sender.publish("k/x", str(number), qos)
                        confirmed.append(str(number))
            except aiomqtt.MqttError:
                await asyncio.sleep(0.05)

    async def talk() -> None:
        listening = asyncio.create_task(listen(client(mortal, "listener", aiomqtt.ProtocolVersion.V5, kept=True)))
        sender = client(mortal, "sender", aiomqtt.ProtocolVersion.V5, kept=True)
        await asyncio.sleep(0.5)
        for turn in range(kills + 1):
            sending = asyncio.create_task(send(sender, len(confirmed) + 60))
            if turn < kills:
                while len(confirmed) % 60 < 30 and not sending.done():
                    await asyncio.sleep(0.001)
                await asyncio.to_thread(mortal.kill)
                await asyncio.to_thread(mortal.start)
            await asyncio.wait_for(sending, PATIENCE_S)
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while not set(confirmed) <= set(got) and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)
        listening.cancel()

    asyncio.run(talk())
    assert len(confirmed) == 60 * (kills + 1)
    assert set(confirmed) <= set(got)
    if qos == 2:
        assert len(got) == len(set(got))


def test_a_shared_subscription(node: Node) -> None:
    async def talk() -> tuple[list[str], list[str]]:
        version = aiomqtt.ProtocolVersion.V5
        async with (
            client(node, "one", version) as one, client(node, "two", version) as two, client(node, "sender", version) as sender,
        ):  # fmt: skip
            shares: tuple[list[str], list[str]] = [], []

            async def read(member: aiomqtt.Client, into: list[str]) -> None:
                async for message in member.messages:
                    into.extend(bodies([message]))

            for member in (one, two):
                await member.subscribe("$share/aio-group/aio-shared/#", 1)
            reading = [asyncio.create_task(read(member, share)) for member, share in zip((one, two), shares, strict=True)]
            for number in range(60):
                await sender.publish("aio-shared/x", str(number), 1)
            end = asyncio.get_running_loop().time() + PATIENCE_S
            while len(shares[0]) + len(shares[1]) < 60 and asyncio.get_running_loop().time() < end:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            for task in reading:
                task.cancel()
            return shares

    one, two = asyncio.run(talk())
    assert sorted([*one, *two], key=int) == [str(number) for number in range(60)]
    assert one
    assert two
