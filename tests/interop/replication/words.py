"""What the client of each protocol is told for one send: the word of its protocol, and after how many seconds it may ask again.

A sender connects when it is made, so that what is broken then concerns its send alone.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import aiocoap
import grpc
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from gateway.client.answer import QueueRoute
from gateway.client.link import Link
from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.coap.one_request import coap_request
from tests.interop.grpc.test_stub import method
from tests.interop.node import Ports
from tests.interop.rocketmq.failover.send_request import send_request
from tests.patience import until

WAIT_S: Final = 60.0

Told = tuple[object, object]
"""(word, seconds after which the same may be sent again; None: the protocol does not say)."""
Send = Callable[[bytes], Told]


def http_sender(path: str, **fields: str) -> Callable[[Ports, str], Send]:
    """A POST to `path`, in which `{}` is the topic: status and Retry-After."""

    def made(node: Ports, topic: str) -> Send:
        def send(body: bytes) -> Told:
            connection = http.client.HTTPConnection("127.0.0.1", node.port("http"), timeout=WAIT_S)
            headers = {name.replace("_", "-"): value for name, value in fields.items()}
            try:
                connection.request("POST", path.format(topic), body, headers)
                answer = connection.getresponse()
                answer.read()
                return answer.status, answer.headers["Retry-After"]
            finally:
                connection.close()

        return send

    return made


def coap_sender(node: Ports, topic: str) -> Send:
    """A confirmable POST: response code and Max-Age."""

    def send(body: bytes) -> Told:
        answer = coap_request(node, aiocoap.POST, f"/mq/{topic}", body)
        return answer.code.dotted, answer.opt.max_age

    return send


def grpc_sender(node: Ports, topic: str) -> Send:
    """SendMessage: the code of the status."""

    def send(body: bytes) -> Told:
        message = pb.Message(topic=pb.Resource(name=topic), body=body)
        message.system_properties.message_id = f"ID-{body.decode()}"
        message.system_properties.message_type = pb.NORMAL
        with grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}") as channel:
            send_message = method(channel, "SendMessage", pb.SendMessageResponse)
            answer = send_message(pb.SendMessageRequest(messages=[message]), timeout=WAIT_S)
        return pb.Code.Name(answer.entries[0].status.code if answer.entries else answer.status.code), None

    return send


def remoting_sender(node: Ports, topic: str) -> Send:
    """SEND_MESSAGE: the response code."""
    link = Link(f"127.0.0.1:{node.port('remoting')}", WAIT_S)
    queue = QueueRoute("broker-a", topic, 0)

    def send(body: bytes) -> Told:
        try:
            (reply,) = link.ask([send_request(queue, body.decode())])
        finally:
            link.close()
        return reply.code, None

    return send


def mqtt_sender(version: MQTTProtocolVersion) -> Callable[[Ports, str], Send]:
    """QoS 1: PUBACK or DISCONNECT, whichever comes first, with its reason code in MQTT 5."""

    def made(node: Ports, topic: str) -> Send:
        told: list[str] = []
        client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=version, reconnect_on_failure=False)
        has_codes = version is MQTTProtocolVersion.MQTTv5

        def word(packet: str, reason: int) -> None:
            told.append(f"{packet} {reason:#x}" if has_codes else packet)

        client.on_publish = lambda _client, _data, _mid, reason, _properties: word("PUBACK", reason.value)
        client.on_disconnect = lambda _client, _data, _flags, reason, _properties: word("DISCONNECT", reason.value)
        client.connect("127.0.0.1", node.port("mqtt"))
        client.loop_start()
        until(client.is_connected, WAIT_S)

        def send(body: bytes) -> Told:
            try:
                client.publish(topic, body, 1)
                until(lambda: bool(told), WAIT_S)
                return told[0], None
            finally:
                client.disconnect()
                client.loop_stop()

        return send

    return made


MADE: Final[Mapping[str, Callable[[Ports, str], Send]]] = {
    "http": http_sender("/v1/topics/{}/messages"),
    "cloudevents": http_sender("/ce/{}", ce_specversion="1.0", ce_id="1", ce_source="/words", ce_type="made"),
    "coap": coap_sender,
    "grpc": grpc_sender,
    "remoting": remoting_sender,
    "mqtt5": mqtt_sender(MQTTProtocolVersion.MQTTv5),
    "mqtt3": mqtt_sender(MQTTProtocolVersion.MQTTv311),
}
"""Protocol -> makes its sender to a topic at a node."""


def senders(node: Ports, topic: str) -> dict[str, Send]:
    """One of each protocol."""
    return {protocol: made(node, topic) for protocol, made in MADE.items()}


def word_of(node: Ports, protocol: str, topic: str, body: bytes) -> object:
    """The word that a client of one protocol is told for one send."""
    return MADE[protocol](node, topic)(body)[0]


def body_of(about: str, protocol: str) -> bytes:
    """What `notified` sends by one protocol."""
    return f"{about} by {protocol}".encode()


def notified(each: Mapping[str, Send], about: str, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Told]:
    """Send by all protocols at the same time -> what each client is told. `meanwhile` is called while they wait."""
    with ThreadPoolExecutor(len(each)) as pool:
        waiting = {protocol: pool.submit(send, body_of(about, protocol)) for protocol, send in each.items()}
        meanwhile()
        return {protocol: future.result() for protocol, future in waiting.items()}
