"""The conformance features of the CloudEvents project: each scenario and example of them as a row of a table.

HTTP has its binding here. Kafka has none: a message with attributes beside its body, or with an event in its body, is that of
an SDK of RocketMQ, and MQTT 5 has user properties.
"""

from __future__ import annotations

import json

import pytest

from domain.message import property as properties
from protocols.cloudevents import message as mapping
from protocols.cloudevents.event import CloudEvent
from protocols.mqtt import cloudevent as mqtt
from protocols.mqtt import property as props
from protocols.mqtt.property import Properties
from tests.protocols.http.stage import Client

ATTRIBUTES = {
    "id": "1234-1234-1234",
    "specversion": "1.0",
    "type": "com.example.someevent",
    "source": "/mycontext/subcontext",
    "time": "2018-04-05T03:56:24Z",
}
DATA = b'{\n    "message": "Hello World!"\n}\n'
HELLO = {"message": "Hello World!"}
IN_BODY = json.dumps({**ATTRIBUTES, "datacontenttype": "application/json", "data": HELLO}).encode()
DATA_TYPES = ("application/json", "application/json; charset=utf-8")
ENVELOPE_TYPES = ("application/cloudevents+json", "application/cloudevents+json; charset=utf-8")


def judge(event: CloudEvent | None, content_type: str) -> None:
    """The attributes and the data that every scenario asks for."""
    assert event is not None
    found = {name.decode(): value.decode() for name, value in event.attributes.items()}
    assert found == {**ATTRIBUTES, "datacontenttype": content_type}
    assert json.loads(event.data) == HELLO


def posted(fields: dict[str, str], body: bytes) -> CloudEvent | None:
    """The event that a request to the gateway stores."""
    client = Client()
    assert client.ask("POST", "/ce/someresource", fields, body).status == 204
    message = client.message()
    return mapping.decode(message.properties, message.body)


@pytest.mark.parametrize("content_type", DATA_TYPES)
def test_http_binary_content_mode(content_type: str) -> None:
    fields = {f"ce-{name}": value for name, value in ATTRIBUTES.items()}
    judge(posted({**fields, "Content-Type": content_type}, DATA), content_type)


@pytest.mark.parametrize("content_type", ENVELOPE_TYPES)
def test_http_structured_content_mode(content_type: str) -> None:
    judge(posted({"Content-Type": content_type}, IN_BODY), "application/json")


def of_an_sdk(given: dict[str, str], body: bytes) -> CloudEvent | None:
    stored = b"".join(properties.entry(name, value) for name, value in given.items())
    return mapping.decode(stored, body)


@pytest.mark.parametrize("content_type", DATA_TYPES)
def test_rocketmq_binary_content_mode(content_type: str) -> None:
    """Attributes beside the body, the content type under the name of the RocketMQ binding."""
    given = {f"CE_{name}": value for name, value in ATTRIBUTES.items()}
    judge(of_an_sdk({**given, "CE_contenttype": content_type}, DATA), content_type)


@pytest.mark.parametrize("content_type", ENVELOPE_TYPES)
def test_rocketmq_structured_content_mode(content_type: str) -> None:
    judge(of_an_sdk({"CE_contenttype": content_type}, IN_BODY), "application/json")


@pytest.mark.parametrize("content_type", DATA_TYPES)
def test_mqtt_binary_content_mode(content_type: str) -> None:
    given = Properties()
    given.user = list(ATTRIBUTES.items())
    given.texts[props.CONTENT_TYPE] = content_type
    judge(mqtt.binary(given, DATA), content_type)


@pytest.mark.parametrize("content_type", [None, *ENVELOPE_TYPES])
def test_mqtt_structured_content_mode(content_type: str | None) -> None:
    judge(mqtt.structured(IN_BODY, content_type), "application/json")
