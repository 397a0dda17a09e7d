"""Six protocols send to one topic, and every kind of consumer gets all six messages, before and after a kill -9."""

from __future__ import annotations

import subprocess
import sys
import time

import aiocoap
import pytest

from gateway.client.client import Client
from tests.interop.coap.one_request import coap_request
from tests.interop.http_api import acknowledge, body_of, call, receive
from tests.interop.mqtt.paho_client import PahoClient
from tests.interop.node import ROOT, Node
from tests.stored_records import stored_bodies

TOPIC = "sensors"
SENT = {"mqtt", "coap", "cloudevents", "http", "remoting", "grpc"}
ANSWER_S = 20.0


@pytest.fixture(scope="module")
def heard(node: Node) -> set[str]:
    """Send one message over each protocol. Returns what an MQTT subscriber to `sensors/#` received meanwhile."""
    client = PahoClient(node, "listener", f"{TOPIC}/#")
    client.publish(f"{TOPIC}/room1/temp", b"mqtt")
    assert coap_request(node, aiocoap.POST, f"/mq/{TOPIC}/room2/temp", b"coap").code.is_successful()
    call(node, f"/ce/{TOPIC}/alarm", b"cloudevents", ce_id="1", ce_source="/t", ce_type="t", ce_specversion="1.0")
    call(node, f"/v1/topics/{TOPIC}/messages", b"http")
    with Client(f"127.0.0.1:{node.port('nameserver')}") as remoting:
        remoting.send(TOPIC, b"remoting")
    by_sdk(node)
    found: set[str] = set()
    while len(found) < len(SENT):
        found.add(client.next().payload.decode())
    client.leave()
    return found


def by_sdk(node: Node) -> None:
    """Send with the official gRPC SDK in a process of its own."""
    program = (
        "import sys\nfrom rocketmq import ClientConfiguration, Credentials, Message, Producer\n"
        f"producer = Producer(ClientConfiguration(sys.argv[1], Credentials()), ('{TOPIC}',))\n"
        f"producer.startup()\nmessage = Message()\nmessage.topic = '{TOPIC}'\nmessage.body = b'grpc'\n"
        "producer.send(message)\nproducer.shutdown()\n"
    )
    endpoint = f"127.0.0.1:{node.port('grpc')}"
    subprocess.run([sys.executable, "-c", program, endpoint], cwd=ROOT, timeout=60, check=True, capture_output=True)


def received(node: Node, group: str) -> set[str]:
    """Receive and acknowledge all messages of `group` over HTTP. Returns their bodies."""
    found: set[str] = set()
    end = time.monotonic() + ANSWER_S
    while time.monotonic() < end and len(found) < len(SENT):
        if messages := receive(node, group, TOPIC):
            found |= {body_of(message).decode() for message in messages}
            acknowledge(node, group, TOPIC, [message["receipt"] for message in messages])
    return found


def read_back(node: Node) -> set[str]:
    """All bodies of the topic, by a remoting client's pulls."""
    with Client(f"127.0.0.1:{node.port('nameserver')}") as client:
        return {body.decode() for body in stored_bodies(client, TOPIC)}


def test_a_live_mqtt_subscriber_hears_all_protocols(heard: set[str]) -> None:
    assert heard == SENT


def test_a_group_over_http_receives_all_protocols(node: Node, heard: set[str]) -> None:
    assert received(node, "http-group") == SENT


def test_a_remoting_client_reads_all_protocols_before_and_after_kill_nine(node: Node, heard: set[str]) -> None:
    assert read_back(node) == SENT
    node.kill()
    node.start()
    assert read_back(node) == SENT
    assert received(node, "later-group") == SENT
    assert received_nothing(node, "http-group")


def received_nothing(node: Node, group: str) -> bool:
    """Whether the group receives no message again that was acknowledged before the kill."""
    return receive(node, group, TOPIC, wait_ms=300) == []


def test_origins_are_told_to_those_who_ask(node: Node, heard: set[str]) -> None:
    paths = {body_of(one).decode(): one["path"] for one in receive(node, "paths", TOPIC)}
    assert paths["mqtt"] == f"{TOPIC}/room1/temp"
    assert paths["coap"] == f"{TOPIC}/room2/temp"
    assert paths["remoting"] == TOPIC
