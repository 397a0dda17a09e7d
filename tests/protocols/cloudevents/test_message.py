"""A CloudEvent to a message, and back."""

from __future__ import annotations

import pytest

from domain import limits
from domain.message import property as properties
from protocols.cloudevents import json as envelope
from protocols.cloudevents import message as mapping
from protocols.cloudevents.event import CloudEvent, CloudEventError

HOST = b"\x7f\x00\x00\x01\x00\x00\x00\x50"


def event(data: bytes = b"x", is_json: bool = False, **attributes: str) -> CloudEvent:
    """A minimal event with more attributes."""
    found = {"specversion": "1.0", "id": "a-1", "source": "/s", "type": "com.example.t", **attributes}
    return CloudEvent({name.encode(): value.encode() for name, value in found.items()}, data, is_json)


def stored(one: CloudEvent, path: str = "") -> dict[str, str]:
    """The properties under which an event is stored."""
    return properties.decode(mapping.encode(one, "orders", path, HOST).properties)


def test_attributes_are_properties() -> None:
    found = stored(event(datacontenttype="text/plain", comexampleext="5"))
    assert found == {
        "KEYS": "a-1",
        "TAGS": "com.example.t",
        "HG_PROTOCOL": "cloudevents",
        "HG_CONTENT_TYPE": "text/plain",
        "CE_specversion": "1.0",
        "CE_id": "a-1",
        "CE_source": "/s",
        "CE_type": "com.example.t",
        "CE_datacontenttype": "text/plain",
        "CE_comexampleext": "5",
    }


def test_a_time_keeps_its_offset_and_its_digits() -> None:
    """Core specification, 3.1: the canonical string of a timestamp is what its sender wrote."""
    for time in ("2026-11-21T04:00:00.1234567+01:00", "2026-11-21t03:00:00z"):
        message = mapping.encode(event(time=time, sequence="7"), "t", "", HOST)
        again = mapping.decode(message.properties, message.body)
        assert again is not None
        assert (again.attributes[b"time"], again.attributes[b"sequence"]) == (time.encode(), b"7")


def test_the_body_is_the_data_and_the_sender_is_kept() -> None:
    message = mapping.encode(event(b"\x00\x01"), "orders", "orders/a", HOST)
    assert (message.topic, message.body, message.born_host) == ("orders", b"\x00\x01", HOST)
    assert properties.text(message.properties, "originMqttTopic") == "orders/a"


@pytest.mark.parametrize(
    ("attributes", "path", "plain"),
    [
        ({}, "", True),
        ({"datacontenttype": "text/plain", "subject": "DELAY", "originmqtttopic": "x"}, "", True),
        ({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "", True),
        ({"expirytime": "2030-01-01T00:00:00Z"}, "", True),
        ({"deliverytime": "2030-01-01T00:00:00Z"}, "", False),
        ({"partitionkey": "p"}, "", False),
        ({"datacontenttype": "text/plain", "partitionkey": "p"}, "", False),
        ({}, "orders/a", False),
    ],
)
def test_a_message_is_plain_when_nothing_says_how_to_store_it(attributes: dict[str, str], path: str, plain: bool) -> None:
    """Then nobody looks for an id, a path, an ordering key, a priority, a delivery time or an idempotency key."""
    one = event()
    one.attributes.update({name.encode(): value.encode() for name, value in attributes.items()})
    message = mapping.encode(one, "orders", path, HOST)
    assert message.plain is plain
    found = properties.decode(message.properties)
    special = (
        "UNIQ_KEY",
        "originMqttTopic",
        "__SHARDINGKEY",
        "_SYS_MSG_PRIORITY_",
        "TIMER_DELIVER_MS",
        "DELAY",
        "idempotency-key",
    )
    assert plain is not any(name in found for name in special)


@pytest.mark.parametrize("kind", ["a|b", "x" * 128])
def test_a_type_that_is_no_tag_is_none(kind: str) -> None:
    found = stored(event(type=kind))
    assert "TAGS" not in found
    assert found["CE_type"] == kind


def test_extensions_with_a_meaning() -> None:
    found = stored(
        event(
            partitionkey="p1",
            traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            tracestate="a=b",
            expirytime="2026-11-21T03:00:00Z",
            deliverytime="2026-11-21T03:00:00.5+01:00",
        )
    )
    assert found["__SHARDINGKEY"] == "p1"
    assert found["traceparent"].startswith("00-")
    assert found["tracestate"] == "a=b"
    assert found["HG_EXPIRE_MS"] == "1795230000000"
    assert found["TIMER_DELIVER_MS"] == "1795226400500"


@pytest.mark.parametrize("name", ["expirytime", "deliverytime"])
def test_an_instant_that_is_none_is_refused_by_name(name: str) -> None:
    with pytest.raises(CloudEventError) as caught:
        stored(event(b"x", False, **{name: "soon"}))
    assert caught.value.attribute == name


def test_bounds() -> None:
    with pytest.raises(CloudEventError) as data:
        mapping.encode(event(b"x" * (limits.BODY_BYTES_MAX + 1)), "t", "", HOST)
    with pytest.raises(CloudEventError) as attributes:
        mapping.encode(event(subject="x" * limits.PROPERTIES_BYTES_MAX), "t", "", HOST)
    assert data.value.too_large
    assert attributes.value.too_large
    mapping.encode(event(b"x" * limits.BODY_BYTES_MAX), "t", "", HOST)


def test_json_data_without_a_type_stays_json() -> None:
    one = envelope.decode(b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a": 1}}')
    message = mapping.encode(one, "t", "", HOST)
    assert properties.text(message.properties, "HG_CONTENT_TYPE") == "application/json"
    again = mapping.decode(message.properties, message.body)
    assert again is not None
    assert b"datacontenttype" not in again.attributes
    assert envelope.encode(again) == b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a": 1}}'


EVENT = b"CE_specversion\x011.0\x02CE_id\x011\x02CE_source\x01/s\x02CE_type\x01t\x02"


@pytest.mark.parametrize(
    "properties_of_any_client",
    [b"TAGS\x01a\x02", EVENT[:-12], EVENT + b"CE_Upper\x01x\x02", EVENT + b"CE_time\x01soon\x02", EVENT + b"CE_a\x01\xff\x02"],
    ids=["none", "a required one is missing", "an illegal name", "an illegal instant", "not UTF-8"],
)
def test_other_messages_are_no_events(properties_of_any_client: bytes) -> None:
    assert mapping.decode(properties_of_any_client, b"x") is None


def test_the_trace_context_of_a_message_is_an_attribute_unless_the_event_has_its_own() -> None:
    one = mapping.decode(EVENT + b"traceparent\x0100-1\x02", b"x")
    other = mapping.decode(EVENT + b"traceparent\x0100-1\x02CE_traceparent\x0100-2\x02", b"x")
    assert one is not None
    assert other is not None
    assert (one.attributes[b"traceparent"], other.attributes[b"traceparent"]) == (b"00-1", b"00-2")


BINDING = EVENT + b"CE_contenttype\x01text/plain\x02"


@pytest.mark.parametrize(
    ("given", "attributes"),
    [
        (BINDING, {b"datacontenttype": b"text/plain"}),
        (BINDING + b"CE_datacontenttype\x01a/b\x02", {b"datacontenttype": b"a/b", b"contenttype": b"text/plain"}),
        (EVENT + b"CE_contenttype\x01none\x02", {b"contenttype": b"none"}),
    ],
    ids=["alone", "beside the other", "no media type"],
)
def test_the_content_type_of_the_rocketmq_binding_is_read(given: bytes, attributes: dict[bytes, bytes]) -> None:
    """The SDK for Java writes CE_contenttype, and reads both names."""
    found = mapping.attributes_of(given)
    assert {name: value for name, value in found.items() if name.endswith(b"contenttype")} == attributes
    assert properties.content_type(BINDING) == "text/plain"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (b"application/cloudevents+json", b"no JSON"),
        (b"application/cloudevents+json", b"{}"),
        (b"application/cloudevents-batch+json", b"[]"),
        (b"application/cloudevents+xml", b"<a/>"),
        (b"application/json", b"{}"),
    ],
)
def test_a_body_that_is_no_event_is_none(kind: bytes, body: bytes) -> None:
    given = b"CE_contenttype\x01" + kind + b"\x02"
    assert mapping.may_be_event(given)
    assert mapping.decode(given, body) is None
    assert not mapping.may_be_event(b"KEYS\x01a\x02")
