"""Gateways before brokers of 5.1 and 4.9: what the start says is not to be had, and what is served all the same.

4.9.7 is the last of 4.9 whose servers are at Maven Central. Each version takes the machine for a minute: `make soak` runs this.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import partial

import pytest

from gateway.client.client import Client
from tests.interop.http_api import request
from tests.interop.node import Node
from tests.interop.replication.words import word_of
from tests.interop.rocketmq.alone import LoneBroker
from tests.interop.rocketmq.gateway import gateway_before
from tests.interop.rocketmq.test_gateway import Subscriber
from tests.interop.rocketmq.test_promises import TOPIC
from tests.interop.workshop import CLIENTS, java_classpath
from tests.patience import until
from tests.store.faults.soak import SOAK
from tests.stored_records import stored_bodies

pytestmark = [pytest.mark.interop, pytest.mark.skipif(not SOAK, reason="brokers of two older versions: make soak runs them")]
WAIT_S = 90.0
VERSIONS = {"5.1": "brokers5", "4.9": "brokers4"}


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Of the broker."""
    return str(request.param)


@pytest.fixture(scope="module")
def older(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoneBroker]:
    """A broker of this version, with a topic."""
    project = CLIENTS / "java" / VERSIONS[version]
    libraries = partial(java_classpath, project, f"Apache RocketMQ {version}")
    with LoneBroker(tmp_path_factory.mktemp("older"), libraries=libraries) as running:
        running.make_topic(TOPIC)
        yield running


@pytest.fixture(scope="module")
def gateway(older: LoneBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A gateway before it."""
    node = gateway_before(older.nameserver.address, tmp_path_factory.mktemp("gateway"))
    try:
        yield node.start()
    finally:
        node.kill()


@pytest.fixture
def near(older: LoneBroker) -> Iterator[Client]:
    """A client at Apache's own side."""
    with Client(older.nameserver.address) as client:
        yield client


def test_the_start_tells_the_version_and_what_is_not_to_be_had(gateway: Node, version: str) -> None:
    text = gateway.text()
    assert f"broker-a V{version.replace('.', '_')}_" in text
    for what in ("message-level consumption (POP) at broker-a", "delays in milliseconds (timerWheelEnable) at broker-a"):
        assert (f"not to be had {what}" in text) is (version == "4.9")
    assert "not to be had recall of delayed messages (recallMessageEnable) at broker-a" in text


def test_every_protocol_sends(gateway: Node, near: Client) -> None:
    for protocol, word in (("http", 201), ("coap", "2.01"), ("remoting", 0), ("grpc", "OK")):
        assert word_of(gateway, protocol, TOPIC, protocol.encode()) == word
    publisher = Subscriber(gateway, "publisher", clean=True)
    publisher.publish(TOPIC, b"mqtt", 1)
    publisher.leave()
    wanted = {b"http", b"coap", b"remoting", b"grpc", b"mqtt"}
    until(lambda: wanted <= set(stored_bodies(near, TOPIC)), WAIT_S, lambda: str(stored_bodies(near, TOPIC)))


def test_mqtt_gets_what_comes_live_and_while_it_was_away(older: LoneBroker, gateway: Node, near: Client) -> None:
    older.make_topic("watched")
    subscriber = Subscriber(gateway, "watcher", "watched/#", clean=True)
    near.send("watched", b"live")
    subscriber.publish("watched/by/mqtt", b"own", 1)
    subscriber.until(b"live", b"own")
    subscriber.leave()
    near.send("watched", b"away")
    back = Subscriber(gateway, "watcher")
    back.until(b"away")
    back.leave()


def test_a_group_receives_by_message_or_is_refused_by_name(gateway: Node, near: Client, version: str) -> None:
    near.send(TOPIC, b"to receive")
    path = f"/v1/groups/readers/topics/{TOPIC}"
    if version == "4.9":
        for _ in range(3):
            code, answer = request(gateway, "POST", f"{path}:receive?max=8&wait_ms=100&invisible_ms=60000")
            assert (code, b"broker-a" in answer) == (501, True), answer
        return
    found: set[bytes] = set()

    def receive() -> bool:
        code, answer = request(gateway, "POST", f"{path}:receive?max=8&wait_ms=1000&invisible_ms=60000")
        if code == 200:
            messages = json.loads(answer)["messages"]
            found.update(base64.b64decode(each["body"]) for each in messages)
            receipts = json.dumps({"receipts": [each["receipt"] for each in messages]}).encode()
            assert all(each["ok"] for each in json.loads(request(gateway, "POST", f"{path}:ack", receipts)[1])["results"])
        return b"to receive" in found

    until(receive, WAIT_S, lambda: str(found))


def test_a_message_that_no_replica_has_is_unsure(older: LoneBroker, gateway: Node, version: str) -> None:
    """SLAVE_NOT_AVAILABLE: brokers of 5 have no such answer to a send, and wait for as many replicas as they are told."""
    with older.broken("slave not available"):
        told = [word_of(gateway, protocol, TOPIC, b"unsure") for protocol in ("remoting", "http", "grpc")]
    assert told == ([11, 504, "SLAVE_PERSISTENCE_TIMEOUT"] if version == "4.9" else [0, 201, "OK"])
