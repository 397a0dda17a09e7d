"""The Avro event format 1.0.2, with a reader and writer of any schema as the reference."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.cloudevents import avro
from protocols.cloudevents.avro import DEPTH_MAX, VALUES_MAX
from protocols.cloudevents.event import ATTRIBUTES_MAX, CloudEvent, CloudEventError

RECORD: dict[str, Any] = {
    "type": "record",
    "name": "AvroCloudEventData",
    "fields": [
        {
            "name": "value",
            "type": {
                "type": "map",
                "values": [
                    "null", "boolean", {"type": "map", "values": "AvroCloudEventData"},
                    {"type": "array", "items": "AvroCloudEventData"}, "double", "string",
                ],
            },
        }
    ],
}  # fmt: skip
SCHEMA: Any = {
    "namespace": "io.cloudevents",
    "type": "record",
    "name": "AvroCloudEvent",
    "fields": [
        {"name": "attribute", "type": {"type": "map", "values": ["null", "boolean", "int", "string", "bytes"]}},
        {
            "name": "data",
            "type": [
                "bytes", "null", "boolean", {"type": "map", "values": ["null", "boolean", RECORD, "double", "string"]},
                {"type": "array", "items": "AvroCloudEventData"}, "double", "string",
            ],
        },
    ],
}  # fmt: skip
"""cloudevents.avsc of the specification."""
PARSED = fastavro.parse_schema(SCHEMA)
EVENT: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
ATTRIBUTES = {b"specversion": b"1.0", b"id": b"1", b"source": b"/s", b"type": b"t"}
RECORDED: Any = {"value": {"a": 1.5, "b": None, "c": "d", "e": True, "f": {}, "g": []}}


def written(data: Any, **more: Any) -> bytes:
    """An event as the reference writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, PARSED, {"attribute": {**EVENT, **more}, "data": data})
    return out.getvalue()


def test_every_type_of_attribute_has_its_canonical_string() -> None:
    found = avro.decode(written(None, flag=True, count=-5, octets=b"\x00\x01", gone=None, subject="größe"))
    assert found.attributes == {
        **ATTRIBUTES, b"flag": b"true", b"count": b"-5", b"octets": b"AAE=", b"subject": "größe".encode(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "content_type", "wanted"),
    [
        (b"\x00\xff", None, b"\x00\xff"),
        (b"", "text/plain", b""),
        (None, "application/json", b""),
        ("größe", "text/plain", "größe".encode()),
        ("text", None, b'"text"'),
        ("text", "application/json", b'"text"'),
        (True, None, b"true"),
        (5.0, "application/json", b"5"),
        (-1.5, None, b"-1.5"),
        ({"a": 1.0, "b": None, "c": "d", "e": False, "f": RECORDED}, None,
         b'{"a":1,"b":null,"c":"d","e":false,"f":{"a":1.5,"b":null,"c":"d","e":true,"f":{},"g":[]}}'),
        ([RECORDED, {"value": {"x": {"y": RECORDED}, "z": [RECORDED]}}], None, None),
        ([], "application/json", b"[]"),
    ],
)  # fmt: skip
def test_data_is_bytes_or_a_json_value(data: Any, content_type: str | None, wanted: bytes | None) -> None:
    found = avro.decode(written(data, **({} if content_type is None else {"datacontenttype": content_type})))
    if wanted is None:
        one = RECORDED["value"]
        assert json.loads(found.data) == [one, {"x": {"y": one}, "z": [one]}]
    else:
        assert found.data == wanted
    is_text = isinstance(data, bytes) or data is None or content_type == "text/plain"
    assert found.is_json == (not is_text)


@pytest.mark.parametrize(
    ("content", "attribute"),
    [
        (b"", ""),
        (b"\xff", ""),
        (written(b"x") + b"y", ""),
        (written(b"x")[:-1], ""),
        (written(b"x", specversion="0.3"), "specversion"),
        (written(b"x", id=None), "id"),
        (written(b"x", Upper="y"), "Upper"),
        (written(b"x", x="a\x07"), "x"),
        (written(True, datacontenttype="text/plain"), "data"),
        (written(float("nan")), "data"),
    ],
)
def test_bad_ones_are_refused_by_name(content: bytes, attribute: str) -> None:
    with pytest.raises(CloudEventError) as caught:
        avro.decode(content)
    assert caught.value.attribute == attribute


def test_what_grows_while_it_is_read_is_bounded() -> None:
    nested: Any = RECORDED
    for _ in range(DEPTH_MAX + 1):
        nested = {"value": {"a": [nested]}}
    for content in (
        written([nested]),
        written([{"value": {}}] * (VALUES_MAX + 1)),
        written(b"", **{f"a{at}": None for at in range(ATTRIBUTES_MAX)}),
    ):
        with pytest.raises(CloudEventError) as caught:
            avro.decode(content)
        assert caught.value.too_large


@pytest.mark.parametrize("data", [b"", b"\x00\xff", b'{"a":1}'])
def test_the_reference_reads_what_goes_out(data: bytes) -> None:
    event = CloudEvent({**ATTRIBUTES, b"datacontenttype": b"application/json", b"subject": "größe".encode()}, data, True)
    found: Any = fastavro.schemaless_reader(io.BytesIO(avro.encode(event)), PARSED, None)
    assert found == {
        "attribute": {**EVENT, "datacontenttype": "application/json", "subject": "größe"},
        "data": data or None,
    }


@settings(max_examples=200)
@given(st.binary(max_size=60), st.booleans())
def test_no_bytes_raise_another_error(content: bytes, begun: bool) -> None:
    with contextlib.suppress(CloudEventError):
        avro.decode(written(None)[:-1] + content if begun else content)


TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=20)


@settings(max_examples=100)
@given(TEXT, TEXT, st.binary(max_size=200))
def test_what_is_encoded_is_decoded(identity: str, subject: str, data: bytes) -> None:
    event = CloudEvent({**ATTRIBUTES, b"id": identity.encode(), b"subject": subject.encode()}, data, False)
    again = avro.decode(avro.encode(event))
    assert (again.attributes, again.data) == (event.attributes, event.data)
