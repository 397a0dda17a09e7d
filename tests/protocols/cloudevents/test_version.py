"""Events of 0.3: accepted where it is asked for, and events of 1.0 from then on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocols.cloudevents import http as binding
from protocols.cloudevents import json as event_format
from protocols.cloudevents.event import CloudEvent, CloudEventError

EVENT = {"specversion": "0.3", "id": "1", "source": "/s", "type": "t"}
SCHEMA = "https://example.org/schema"


def of_text(older: bool = True, **more: Any) -> CloudEvent:
    return event_format.decode(json.dumps({**EVENT, **more}).encode(), older)


def of_fields(older: bool = True, **more: str) -> CloudEvent:
    fields = [(b"ce-" + name.encode(), value.encode()) for name, value in {**EVENT, **more}.items()]
    return binding.decode(fields, b"text/plain", b"AAEC", older)


@pytest.mark.parametrize("decode", [of_text, of_fields])
def test_it_is_refused_unless_it_is_asked_for(decode: Any) -> None:
    with pytest.raises(CloudEventError, match="cloudevents_03") as caught:
        decode(False)
    assert caught.value.attribute == "specversion"


@pytest.mark.parametrize("decode", [of_text, of_fields])
def test_it_becomes_an_event_of_1_0(decode: Any) -> None:
    found = decode(schemaurl=SCHEMA, subject="x")
    assert found.attributes[b"specversion"] == b"1.0"
    assert found.attributes[b"dataschema"] == SCHEMA.encode()
    assert found.attributes[b"subject"] == b"x"
    assert b"schemaurl" not in found.attributes


@pytest.mark.parametrize("decode", [of_text, of_fields])
def test_a_relative_schema_stays_an_extension(decode: Any) -> None:
    """A URI-reference in 0.3, an absolute URI in 1.0."""
    found = decode(schemaurl="../schema")
    assert found.attributes[b"schemaurl"] == b"../schema"
    assert b"dataschema" not in found.attributes


@pytest.mark.parametrize(
    ("more", "data"),
    [
        ({"datacontentencoding": "base64", "data": "AAEC"}, b"\x00\x01\x02"),
        ({"datacontentencoding": "Base64", "data": "e30=", "datacontenttype": "application/json"}, b"{}"),
        ({"datacontentencoding": "base64", "data": {"a": 1}}, b'{"a": 1}'),
        ({"datacontentencoding": None, "data": "AAEC", "datacontenttype": "text/plain"}, b"AAEC"),
        ({"data": "AAEC", "datacontenttype": "text/plain"}, b"AAEC"),
        ({"datacontentencoding": "base64"}, b""),
    ],
)
def test_encoded_data_is_decoded(more: dict[str, Any], data: bytes) -> None:
    """0.3, datacontentencoding: ignored for data that is no string."""
    found = of_text(**more)
    assert found.data == data
    assert b"datacontentencoding" not in found.attributes


def test_data_in_binary_mode_is_what_was_sent() -> None:
    found = of_fields(datacontentencoding="base64")
    assert found.data == b"AAEC"
    assert b"datacontentencoding" not in found.attributes


@pytest.mark.parametrize(
    ("more", "attribute"),
    [
        ({"datacontentencoding": "gzip", "data": "x"}, "datacontentencoding"),
        ({"datacontentencoding": "base64", "data": "A"}, "data_base64"),
        ({"data_base64": "AAEC"}, "data_base64"),
        ({"dataschema": SCHEMA}, "dataschema"),
        ({"specversion": "0.2"}, "specversion"),
        ({"id": ""}, "id"),
    ],
)
def test_bad_ones_are_refused_by_name(more: dict[str, Any], attribute: str) -> None:
    with pytest.raises(CloudEventError) as caught:
        of_text(**more)
    assert caught.value.attribute == attribute


def test_events_of_1_0_are_not_changed_by_the_setting() -> None:
    found = of_text(specversion="1.0", schemaurl=SCHEMA, datacontentencoding="base64", data="AAEC")
    assert found.attributes[b"schemaurl"] == SCHEMA.encode()
    assert found.attributes[b"datacontentencoding"] == b"base64"
    assert found.data == b'"AAEC"'
