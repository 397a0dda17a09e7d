"""A real broker that cannot keep what its settings promise: what the clients of every protocol are told, and what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import aiocoap
import grpc
import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from gateway.client.client import Client
from gateway.client.link import Link
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from tests.interop.grpc.test_stub import method
from tests.interop.node import Node
from tests.interop.rocketmq.alone import WRITE_BUFFER, LoneBroker
from tests.interop.rocketmq.test_gateway import Subscriber, http
from tests.patience import until
from tests.stored_records import stored_bodies

pytestmark = pytest.mark.interop
WAIT_S = 60.0
TOPIC = "promised"

TOLD: dict[str, dict[str, object]] = {
    "flush disk timeout": {
        "remoting": 10, "http": 504, "coap": "5.04", "grpc": pb.MASTER_PERSISTENCE_TIMEOUT, "mqtt5": "DISCONNECT 0x83",
        "mqtt3": "DISCONNECT",
    },
    "flush slave timeout": {
        "remoting": 12, "http": 504, "coap": "5.04", "grpc": pb.SLAVE_PERSISTENCE_TIMEOUT, "mqtt5": "DISCONNECT 0x83",
        "mqtt3": "DISCONNECT",
    },
    "too few replicas": {
        "remoting": codes.SYSTEM_ERROR, "http": 503, "coap": "5.03", "grpc": pb.HA_NOT_AVAILABLE, "mqtt5": "DISCONNECT 0x8b",
        "mqtt3": "DISCONNECT",
    },
    "busy": {
        "remoting": codes.SYSTEM_BUSY, "http": 503, "coap": "5.03", "grpc": pb.TOO_MANY_REQUESTS, "mqtt5": "PUBACK 0x83",
        "mqtt3": "DISCONNECT",
    },
}  # fmt: skip
"""What is wrong -> protocol -> what its client is told. An MQTT 3.1.1 client has no word but the end of its connection."""
STORED = ("flush disk timeout", "flush slave timeout")


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoneBroker]:
    """The broker, with a topic."""
    with LoneBroker(tmp_path_factory.mktemp("lone"), WRITE_BUFFER) as running:
        running.make_topic(TOPIC)
        yield running


@pytest.fixture(scope="module")
def gateway(lone: LoneBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A gateway before it."""
    options = ("--roles", "gateway", "--store", f"rocketmq://{lone.nameserver.address}")
    environment = {"HEADGATE_STORE_BROKER_PORTS": "0"}
    node = Node(tmp_path_factory.mktemp("gateway"), *options, environment=environment, verb="run")
    try:
        yield node.start()
    finally:
        node.kill()


def by_http(node: Node, body: bytes) -> object:
    """The status."""
    return http(node, "POST", f"/v1/topics/{TOPIC}/messages", body)[0]


def by_coap(node: Node, body: bytes) -> object:
    """The response code."""

    async def post() -> object:
        context = await aiocoap.Context.create_client_context()
        uri = f"coap://127.0.0.1:{node.port('coap')}/mq/{TOPIC}"
        answer = await context.request(aiocoap.Message(code=aiocoap.POST, uri=uri, payload=body)).response
        await context.shutdown()
        return answer.code.dotted

    return asyncio.run(asyncio.wait_for(post(), WAIT_S))


def by_grpc(node: Node, body: bytes) -> object:
    """The code of the answer's status."""
    message = pb.Message(topic=pb.Resource(name=TOPIC), body=body)
    message.system_properties.message_id = f"ID-{body.decode()}"
    message.system_properties.message_type = pb.NORMAL
    with grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}") as channel:
        answer = method(channel, "SendMessage", pb.SendMessageResponse)(pb.SendMessageRequest(messages=[message]))
    return answer.entries[0].status.code if answer.entries else answer.status.code


def by_remoting(node: Node, body: bytes) -> object:
    """The response code of a relayed send."""
    fields = {
        "a": "p", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0", "k": "false",
        "m": "false", "n": "broker-a",
    }  # fmt: skip
    link = Link(f"127.0.0.1:{node.port('remoting')}", 30)
    try:
        (reply,) = link.ask([(codes.SEND_V2, fields, body)])
    finally:
        link.close()
    return reply.code


def by_mqtt(node: Node, body: bytes, version: MQTTProtocolVersion) -> object:
    """PUBACK or DISCONNECT, whichever comes first, with its reason code in MQTT 5."""
    told: list[str] = []
    connected: list[object] = []

    def word(packet: str, reason: int) -> str:
        return f"{packet} {reason:#x}" if version is MQTTProtocolVersion.MQTTv5 else packet

    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=version, reconnect_on_failure=False)
    client.on_connect = lambda *_: connected.append(1)
    client.on_publish = lambda _client, _data, _mid, reason, _properties: told.append(word("PUBACK", reason.value))
    client.on_disconnect = lambda _client, _data, _flags, reason, _properties: told.append(word("DISCONNECT", reason.value))
    client.connect("127.0.0.1", node.port("mqtt"))
    client.loop_start()
    try:
        until(lambda: bool(connected), WAIT_S)
        client.publish(TOPIC, body, 1)
        until(lambda: bool(told), WAIT_S, lambda: node.text()[-4000:])
    finally:
        client.disconnect()
        client.loop_stop()
    return told[0]


SEND: dict[str, Callable[[Node, bytes], object]] = {
    "http": by_http,
    "coap": by_coap,
    "grpc": by_grpc,
    "remoting": by_remoting,
    "mqtt5": lambda node, body: by_mqtt(node, body, MQTTProtocolVersion.MQTTv5),
    "mqtt3": lambda node, body: by_mqtt(node, body, MQTTProtocolVersion.MQTTv311),
}


def test_the_start_tells_what_a_message_survives(gateway: Node) -> None:
    assert "SYNC_FLUSH, ASYNC_MASTER" in gateway.text()
    assert "survives kill -9 and power loss\n" in gateway.text()


@pytest.mark.parametrize("what", TOLD)
def test_every_protocol_tells_what_the_broker_has_told(lone: LoneBroker, gateway: Node, what: str) -> None:
    sent = {protocol: f"{what} by {protocol}".encode() for protocol in SEND}
    with lone.broken(what):
        told = {protocol: SEND[protocol](gateway, body) for protocol, body in sent.items()}
    assert told == TOLD[what]
    fine = f"fine after {what}".encode()
    assert by_http(gateway, fine) == 201
    with Client(lone.nameserver.address) as near:
        # What was sent later may be read earlier, from another queue; what is refused is not stored even later.
        until(lambda: fine in stored_bodies(near, TOPIC), WAIT_S)
        if what in STORED:
            until(
                lambda: set(sent.values()) <= set(stored_bodies(near, TOPIC)), WAIT_S, lambda: str(stored_bodies(near, TOPIC))
            )
        else:
            assert not set(sent.values()) & set(stored_bodies(near, TOPIC))


def test_a_publish_that_is_unsure_is_sent_again_until_it_is_sure(lone: LoneBroker, gateway: Node) -> None:
    """At QoS 1 and 2: the client's own session repeats it over its next connection, and what is acknowledged is flushed."""
    for qos in (1, 2):
        with lone.broken("flush disk timeout"):
            publisher = Subscriber(gateway, f"unsure-{qos}")
            body = b"sure in the end %d" % qos
            waiting = publisher.client.publish(TOPIC, body, qos)
            until(lambda lost=publisher.lost: bool(lost), WAIT_S)  # type: ignore[misc]
        waiting.wait_for_publish(WAIT_S)
        assert waiting.is_published()
        publisher.leave()
        after = b"after %d" % qos
        assert by_http(gateway, after) == 201
        with Client(lone.nameserver.address) as near:
            until(lambda near=near, wanted={body, after}: wanted <= set(stored_bodies(near, TOPIC)), WAIT_S)  # type: ignore[misc]
            # At QoS 1 each attempt is a message; at QoS 2 the repetition is known by its packet identifier.
            assert qos == 1 or stored_bodies(near, TOPIC).count(body) == 1
