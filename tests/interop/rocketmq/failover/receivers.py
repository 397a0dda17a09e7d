"""A receiver of each protocol at gateways, each of which is to get every message at least once."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol

import aiocoap
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from tests.interop.http_api import LOST, call
from tests.interop.node import Ports
from tests.interop.rocketmq.failover.pops import GrpcPop, HttpPop, Pop
from tests.patience import until

ANSWER_S: Final = 15.0
JOIN_S: Final = 60.0
REST_S: Final = 0.05
ONE_BY_ONE: Final = 4
"""Clients of a protocol by which messages come one by one: together they are faster than the senders."""


class Receiver(Protocol):
    """Receives from the start of its thread until `ended` is set.

    bodies   what it has received; it acknowledges that too, but the answer may be lost with a master
    threads  how many run it
    """

    bodies: set[str]
    threads: int

    def run(self, ended: threading.Event) -> None:
        """One of its threads."""


class PopReceiver:
    """Members of a group, by HTTP or gRPC."""

    def __init__(self, pop: Pop, places: int) -> None:
        self.bodies: set[str] = set()
        self.threads = 1
        self._pop, self._places = pop, places

    def run(self, ended: threading.Event) -> None:
        chance = random.Random(1)
        while not ended.is_set():
            try:
                found = self._pop.receive(chance.randrange(self._places))
                for each in found:
                    self.bodies.add(each.body)
                    self._pop.acknowledge(chance.randrange(self._places), each)
            except ConnectionError:
                found = []
            if not found:
                time.sleep(REST_S)
        self._pop.close()


class EventReceiver:
    """A group whose messages come as CloudEvents in binary mode, one by one."""

    def __init__(self, gateways: Sequence[Ports], topic: str, group: str) -> None:
        self.bodies: set[str] = set()
        self.threads = ONE_BY_ONE
        self._gateways = gateways
        self._path = f"/v1/groups/{group}/topics/{topic}"

    def run(self, ended: threading.Event) -> None:
        chance = random.Random(2)
        while not ended.is_set():
            with suppress(*LOST):
                port = chance.choice(self._gateways).port("http")
                url = f"http://127.0.0.1:{port}{self._path}:receive?wait_ms=300&invisible_ms=30000"
                fields = {"Accept": "application/octet-stream"}
                with urllib.request.urlopen(
                    urllib.request.Request(url, b"", fields, method="POST"), timeout=ANSWER_S
                ) as answer:
                    body, receipt = answer.read(), answer.headers["mq-receipt"]
                if receipt is not None:
                    told = call(
                        chance.choice(self._gateways), f"{self._path}:ack", json.dumps({"receipts": [receipt]}).encode()
                    )
                    if told["results"][0]["ok"]:
                        self.bodies.add(body.decode())


class CoapReceiver:
    """A group, by GET and DELETE."""

    def __init__(self, gateways: Sequence[Ports], topic: str, group: str) -> None:
        self.bodies: set[str] = set()
        self.threads = 1
        self._gateways, self._topic, self._group = gateways, topic, group

    def run(self, ended: threading.Event) -> None:
        asyncio.run(self._run(ended))

    async def _run(self, ended: threading.Event) -> None:
        context = await aiocoap.Context.create_client_context()
        await asyncio.gather(*(self._receive(context, ended, random.Random(number)) for number in range(ONE_BY_ONE)))
        await context.shutdown()

    async def _receive(self, context: aiocoap.Context, ended: threading.Event, chance: random.Random) -> None:
        while not ended.is_set():
            with suppress(aiocoap.error.Error, TimeoutError, OSError):
                gateway = chance.choice(self._gateways)
                query = (f"group={self._group}", "wait_ms=300", "invisible_ms=30000")
                leased = await self._ask(context, gateway, aiocoap.GET, query)
                if leased.code == aiocoap.UNAUTHORIZED:
                    leased = await self._ask(context, gateway, aiocoap.GET, query, leased.opt.echo)
                if leased.code == aiocoap.CONTENT:
                    self.bodies.add(leased.payload.decode())
                    await self._ask(context, chance.choice(self._gateways), aiocoap.DELETE, leased.opt.location_query)

    async def _ask(
        self, context: aiocoap.Context, gateway: Ports, code: aiocoap.Code, query: Sequence[str], echo: bytes | None = None
    ) -> aiocoap.Message:
        message = aiocoap.Message(code=code, uri=f"coap://127.0.0.1:{gateway.port('coap')}/mq/{self._topic}")
        message.opt.uri_query = tuple(query)
        if echo is not None:
            message.opt.echo = echo
        return await asyncio.wait_for(context.request(message).response, ANSWER_S)


class MqttReceiver:
    """A persistent session at one gateway, subscribed to all paths of the topic at QoS 1."""

    def __init__(self, gateway: Ports, topic: str) -> None:
        self.bodies: set[str] = set()
        self.threads = 1
        self.subscribed = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, f"receiver-{topic}", clean_session=False)
        self._client.on_message = lambda _client, _data, message: self.bodies.add(_body(bytes(message.payload)))
        self._client.on_subscribe = lambda *_: self.subscribed.set()
        self._client.on_connect = lambda client, *_: client.subscribe(f"{topic}/#", 1)
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", gateway.port("mqtt"))

    def run(self, ended: threading.Event) -> None:
        self._client.loop_start()
        ended.wait()
        self._client.disconnect()
        self._client.loop_stop()


def _body(payload: bytes) -> str:
    """MQTT 3.1.1 has no place for the attributes of an event: it comes in structured mode, and has its body for an id."""
    return str(json.loads(payload)["id"]) if payload.startswith(b"{") else payload.decode()


@contextmanager
def receivers(gateways: Sequence[Ports], topic: str) -> Iterator[dict[str, Receiver]]:
    """Protocol -> its receiver; all of them receive until the end of the block. None of the gateways may be killed."""
    mqtt = MqttReceiver(gateways[0], topic)
    found: dict[str, Receiver] = {
        "MQTT QoS 1": mqtt,
        "CloudEvents": EventReceiver(gateways, topic, "out-by-events"),
        "HTTP": PopReceiver(HttpPop(gateways, topic, "out-by-http"), len(gateways)),
        "CoAP": CoapReceiver(gateways, topic, "out-by-coap"),
        "gRPC": PopReceiver(GrpcPop(gateways, topic, "out-by-grpc"), len(gateways)),
    }
    ended = threading.Event()
    threads = [
        threading.Thread(target=each.run, args=(ended,), daemon=True) for each in found.values() for _ in range(each.threads)
    ]
    for each in threads:
        each.start()
    try:
        until(mqtt.subscribed.is_set, ANSWER_S)
        yield found
    finally:
        ended.set()
        for each in threads:
            each.join(JOIN_S)
