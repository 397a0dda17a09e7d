"""A real broker that cannot keep what its settings promise: what the clients of every protocol are told, and what is stored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.client.client import Client
from protocols.remoting import codes
from tests.interop.node import Node
from tests.interop.replication.words import body_of, notified, senders, word_of
from tests.interop.rocketmq.alone import WRITE_BUFFER, LoneBroker
from tests.interop.rocketmq.gateway import gateway_before
from tests.interop.rocketmq.test_gateway import Subscriber
from tests.patience import until
from tests.stored_records import stored_bodies

pytestmark = pytest.mark.interop
WAIT_S = 60.0
TOPIC = "promised"

TOLD: dict[str, dict[str, object]] = {
    "flush disk timeout": {
        "remoting": 10, "http": 504, "cloudevents": 504, "coap": "5.04", "grpc": "MASTER_PERSISTENCE_TIMEOUT",
        "mqtt5": "DISCONNECT 0x83", "mqtt3": "DISCONNECT",
    },
    "flush slave timeout": {
        "remoting": 12, "http": 504, "cloudevents": 504, "coap": "5.04", "grpc": "SLAVE_PERSISTENCE_TIMEOUT",
        "mqtt5": "DISCONNECT 0x83", "mqtt3": "DISCONNECT",
    },
    "too few replicas": {
        "remoting": codes.SYSTEM_ERROR, "http": 503, "cloudevents": 503, "coap": "5.03", "grpc": "HA_NOT_AVAILABLE",
        "mqtt5": "DISCONNECT 0x8b", "mqtt3": "DISCONNECT",
    },
    "busy": {
        "remoting": codes.SYSTEM_BUSY, "http": 503, "cloudevents": 503, "coap": "5.03", "grpc": "TOO_MANY_REQUESTS",
        "mqtt5": "PUBACK 0x83", "mqtt3": "DISCONNECT",
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
    node = gateway_before(lone.nameserver.address, tmp_path_factory.mktemp("gateway"))
    try:
        yield node.start()
    finally:
        node.kill()


def test_the_start_tells_what_a_message_survives(gateway: Node) -> None:
    until(lambda: "SYNC_FLUSH, ASYNC_MASTER" in gateway.text(), WAIT_S, gateway.text)
    assert "survives kill -9 and power loss\n" in gateway.text()


@pytest.mark.parametrize("what", TOLD)
def test_every_protocol_tells_what_the_broker_has_told(lone: LoneBroker, gateway: Node, what: str) -> None:
    each = senders(gateway, TOPIC)
    with lone.broken(what):
        told = notified(each, what)
    assert {protocol: word for protocol, (word, _) in told.items()} == TOLD[what]
    sent = {body_of(what, protocol) for protocol in each}
    fine = f"fine after {what}".encode()
    assert word_of(gateway, "http", TOPIC, fine) == 201
    with Client(lone.nameserver.address) as near:
        # What was sent later may be read earlier, from another queue; what is refused is not stored even later.
        until(lambda: fine in stored_bodies(near, TOPIC), WAIT_S)
        if what in STORED:
            until(lambda: sent <= set(stored_bodies(near, TOPIC)), WAIT_S, lambda: str(stored_bodies(near, TOPIC)))
        else:
            assert not sent & set(stored_bodies(near, TOPIC))


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
        assert word_of(gateway, "http", TOPIC, after) == 201
        with Client(lone.nameserver.address) as near:
            until(lambda near=near, wanted={body, after}: wanted <= set(stored_bodies(near, TOPIC)), WAIT_S)  # type: ignore[misc]
            # At QoS 1 each attempt is a message; at QoS 2 the repetition is known by its packet identifier.
            assert qos == 1 or stored_bodies(near, TOPIC).count(body) == 1
