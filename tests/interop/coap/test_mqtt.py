"""CoAP and MQTT clients on one path: live messages and the latest value, both ways."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator

import aiocoap
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.interop.node import Node

pytestmark = pytest.mark.interop
ANSWER_S = 10.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("both")) as running:
        yield running


class Subscriber:
    """An MQTT client with one subscription, and the messages it has received."""

    def __init__(self, node: Node, topic: str) -> None:
        self.heard: queue.Queue[paho.MQTTMessage] = queue.Queue()
        ready: queue.Queue[bool] = queue.Queue()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self.client.on_message = lambda _client, _data, message: self.heard.put(message)
        self.client.on_connect = lambda client, *_: client.subscribe(topic, 1)
        self.client.on_subscribe = lambda *_: ready.put(True)
        self.client.connect("127.0.0.1", node.port("mqtt"))
        self.client.loop_start()
        ready.get(timeout=ANSWER_S)

    def next(self) -> paho.MQTTMessage:
        return self.heard.get(timeout=ANSWER_S)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def coap(node: Node, code: aiocoap.Code, path: str, payload: bytes = b"", **options: object) -> aiocoap.Message:
    async def ask() -> aiocoap.Message:
        context = await aiocoap.Context.create_client_context()
        try:
            uri = f"coap://127.0.0.1:{node.port('coap')}{path}"
            asked = context.request(aiocoap.Message(code=code, payload=payload, uri=uri, **options))
            return await asyncio.wait_for(asked.response, ANSWER_S)
        finally:
            await context.shutdown()

    return asyncio.run(ask())


def test_put_is_delivered_live_and_as_retained(node: Node) -> None:
    early = Subscriber(node, "cellar/+")
    coap(node, aiocoap.PUT, "/mq/cellar/temp", b"12.5", content_format=0)
    live = early.next()
    assert (live.topic, live.payload, bool(live.retain)) == ("cellar/temp", b"12.5", False)
    late = Subscriber(node, "cellar/temp")
    kept = late.next()
    assert (kept.payload, bool(kept.retain)) == (b"12.5", True)
    assert kept.properties is not None
    assert kept.properties.json()["ContentType"].startswith("text/plain")  # type: ignore[no-untyped-call]
    early.close()
    late.close()


def test_retained_publish_is_the_value_of_get_and_an_empty_one_removes_it(node: Node) -> None:
    client = Subscriber(node, "unused")
    client.client.publish("attic/temp", b"30", 1, True).wait_for_publish(ANSWER_S)
    assert coap(node, aiocoap.GET, "/mq/attic/temp").payload == b"30"
    client.client.publish("attic/temp", b"31", 1, False).wait_for_publish(ANSWER_S)
    assert coap(node, aiocoap.GET, "/mq/attic/temp").payload == b"30"
    client.client.publish("attic/temp", b"", 1, True).wait_for_publish(ANSWER_S)
    assert coap(node, aiocoap.GET, "/mq/attic/temp").code == aiocoap.NOT_FOUND
    client.close()


def test_delete_removes_what_mqtt_retained(node: Node) -> None:
    client = Subscriber(node, "unused")
    client.client.publish("roof/wind", b"5", 1, True).wait_for_publish(ANSWER_S)
    assert coap(node, aiocoap.DELETE, "/mq/roof/wind").code == aiocoap.DELETED
    client.close()
    late = Subscriber(node, "roof/wind")
    coap(node, aiocoap.POST, "/mq/roof/wind", b"6")
    assert late.next().payload == b"6"
    late.close()


def test_observer_hears_what_mqtt_publishes(node: Node) -> None:
    client = Subscriber(node, "unused")

    async def scene() -> None:
        context = await aiocoap.Context.create_client_context()
        uri = f"coap://127.0.0.1:{node.port('coap')}/mq/barn/door"
        observing = context.request(aiocoap.Message(code=aiocoap.GET, uri=uri, observe=0))
        await asyncio.wait_for(observing.response, ANSWER_S)
        notes = aiter(observing.observation)
        for body in (b"open", b"shut"):
            client.client.publish("barn/door", body, 1)
            assert (await asyncio.wait_for(anext(notes), ANSWER_S)).payload == body
        observing.observation.cancel()
        await context.shutdown()

    asyncio.run(scene())
    client.close()
