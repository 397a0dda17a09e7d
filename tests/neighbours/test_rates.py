"""Commands that write to the log count in the rates of addresses and users: each protocol refuses in its own words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.node.settings import Config
from protocols.coap.message import message as coap
from protocols.coap.message import option
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.mqtt.connect import Connack
from protocols.mqtt.property import NONE
from protocols.mqtt.subscribe import Suback, Subscribe
from protocols.remoting import codes
from tests.neighbours.node import SharedNode
from tests.neighbours.wires import MqttWire, Wires, parsed, resource

TOPIC = {
    "topic": "t",
    "readQueueNums": "1",
    "writeQueueNums": "1",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "order": "false",
}


@pytest.fixture
def wires() -> Iterator[Wires]:
    """A client whose address has used up its rate by the making of a topic."""
    limits = {"address_messages_per_s": 1, "burst_s": 1, "mqtt_excess": "refuse"}
    with SharedNode(Config(tables={"limits": limits}), measures=False) as node:
        found = Wires(node)
        assert found.http("PUT", "/v1/topics/first", {}).status == 204
        yield found


def test_http_says_429_and_when_to_come_back(wires: Wires) -> None:
    answer = wires.http("PUT", "/v1/groups/g", {})
    assert (answer.status, answer.json["code"], answer.fields["retry-after"]) == (429, "rate", "1")
    assert wires.http("GET", "/v1/topics/first").status == 200, "what writes nothing is not refused"


def test_remoting_says_flow_control(wires: Wires) -> None:
    refused = wires.remoting(codes.UPDATE_TOPIC, TOPIC)
    assert refused.code == codes.FLOW_CONTROL
    assert "come back in" in refused.remark


def test_grpc_says_too_many_requests(wires: Wires) -> None:
    body = wires.grpc("RecallMessage", pb.RecallMessageRequest(topic=resource("first"), recall_handle="x"))
    (answer,) = parsed(body, pb.RecallMessageResponse)
    assert answer.status.code == pb.TOO_MANY_REQUESTS


def test_coap_says_4_29_and_when_to_come_back(wires: Wires) -> None:
    answer = wires.coap(coap.DELETE, ["mq", "first"])
    assert answer.code == coap.TOO_MANY_REQUESTS
    assert any(number == option.MAX_AGE for number, _ in answer.options)


def test_mqtt_says_quota_exceeded_and_connection_rate(wires: Wires) -> None:
    other = Wires(wires.node, "10.0.0.77")
    client = MqttWire(other, "one")
    assert isinstance(client.connack, Connack)
    assert client.connack.code == 0
    (answer,) = client.ask(Subscribe(1, [("a", 0), ("b", 1)], NONE))
    assert isinstance(answer, Suback)
    assert list(answer.codes) == [0x97, 0x97]
    refused = MqttWire(other, "two").connack
    assert isinstance(refused, Connack)
    assert refused.code == 0x9F


def test_figures_count_what_was_refused(wires: Wires) -> None:
    throttle = wires.node.parts.throttle
    assert throttle is not None
    before = throttle.figures()
    wires.http("PUT", "/v1/topics/second", {})
    after = throttle.figures()
    assert after["rate_refused_total"] == before["rate_refused_total"] + 1
    assert after["rate_charged_bytes_total"] == before["rate_charged_bytes_total"] > 0
