"""CoAP and MQTT clients on one path: live messages and the latest value, both ways."""

from __future__ import annotations

import asyncio

import aiocoap
import pytest

from tests.interop.coap.one_request import coap_request
from tests.interop.mqtt.paho_client import PahoClient
from tests.interop.node import Node

pytestmark = pytest.mark.interop
ANSWER_S = 10.0


def test_put_is_delivered_live_and_as_retained(node: Node) -> None:
    early = PahoClient(node, "early", "cellar/+")
    coap_request(node, aiocoap.PUT, "/mq/cellar/temp", b"12.5", content_format=0)
    live = early.next()
    assert (live.topic, live.payload, bool(live.retain)) == ("cellar/temp", b"12.5", False)
    late = PahoClient(node, "late", "cellar/temp")
    kept = late.next()
    assert (kept.payload, bool(kept.retain)) == (b"12.5", True)
    assert kept.properties is not None
    assert kept.properties.json()["ContentType"].startswith("text/plain")  # type: ignore[no-untyped-call]
    early.leave()
    late.leave()


def test_retained_publish_is_the_value_of_get_and_an_empty_one_removes_it(node: Node) -> None:
    client = PahoClient(node, "sender")
    client.publish("attic/temp", b"30", 1, True)
    assert coap_request(node, aiocoap.GET, "/mq/attic/temp").payload == b"30"
    client.publish("attic/temp", b"31", 1, False)
    assert coap_request(node, aiocoap.GET, "/mq/attic/temp").payload == b"30"
    client.publish("attic/temp", b"", 1, True)
    assert coap_request(node, aiocoap.GET, "/mq/attic/temp").code == aiocoap.NOT_FOUND
    client.leave()


def test_delete_removes_what_mqtt_retained(node: Node) -> None:
    client = PahoClient(node, "sender")
    client.publish("roof/wind", b"5", 1, True)
    assert coap_request(node, aiocoap.DELETE, "/mq/roof/wind").code == aiocoap.DELETED
    client.leave()
    late = PahoClient(node, "late", "roof/wind")
    coap_request(node, aiocoap.POST, "/mq/roof/wind", b"6")
    assert late.next().payload == b"6"
    late.leave()


def test_observer_hears_what_mqtt_publishes(node: Node) -> None:
    client = PahoClient(node, "sender")

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
    client.leave()
