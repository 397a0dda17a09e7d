"""The protobuf event format 1.0.2: messages of the official schema, in both directions."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.cloudevents import formats, protobuf
from protocols.cloudevents import http as binding
from protocols.cloudevents.event import CloudEvent, CloudEventError
from protocols.cloudevents.messages import cloudevents_pb2 as pb

ATTRIBUTES = {b"specversion": b"1.0", b"id": b"1", b"source": b"/s", b"type": b"t"}


def made(**data: Any) -> Any:
    return pb.CloudEvent(id="1", source="/s", spec_version="1.0", type="t", **data)


def test_every_type_of_attribute_has_its_canonical_string() -> None:
    """Core specification, type system."""
    message = made()
    for name, kind, value in (
        ("flag", "ce_boolean", True), ("off", "ce_boolean", False), ("count", "ce_integer", -5), ("text", "ce_string", "größe"),
        ("octets", "ce_bytes", b"\x00\x01"), ("dataschema", "ce_uri", "https://a/b"), ("link", "ce_uri_ref", "../c"),
    ):  # fmt: skip
        setattr(message.attributes[name], kind, value)
    message.attributes["time"].ce_timestamp.CopyFrom(Timestamp(seconds=1_795_230_000, nanos=500_000_000))
    found = protobuf.decode(message.SerializeToString()).attributes
    assert found == {
        **ATTRIBUTES, b"flag": b"true", b"off": b"false", b"count": b"-5", b"text": "größe".encode(), b"octets": b"AAE=",
        b"dataschema": b"https://a/b", b"link": b"../c", b"time": b"2026-11-21T03:00:00.500Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "wanted"),
    [({"binary_data": b"\x00\xff"}, b"\x00\xff"), ({"text_data": "größe"}, "größe".encode()), ({}, b"")],
)
def test_data_is_its_bytes(data: dict[str, Any], wanted: bytes) -> None:
    assert protobuf.decode(made(**data).SerializeToString()).data == wanted


def test_a_message_as_data_comes_back_as_one() -> None:
    packed = Packed(type_url="type.googleapis.com/a.B", value=b"\x08\x01")
    found = protobuf.decode(made(proto_data=packed).SerializeToString())
    assert found.data == b"\x08\x01"
    assert found.attributes[b"datacontenttype"] == b"application/protobuf"
    assert found.attributes[b"dataschema"] == b"https://type.googleapis.com/a.B"
    again = pb.CloudEvent.FromString(protobuf.encode(found))
    assert again.proto_data == Packed(type_url="https://type.googleapis.com/a.B", value=b"\x08\x01")
    named = made(proto_data=packed)
    named.attributes["dataschema"].ce_uri = "https://example.org/B"
    assert protobuf.decode(named.SerializeToString()).attributes[b"dataschema"] == b"https://example.org/B"


@pytest.mark.parametrize(
    ("content_type", "data", "field"),
    [
        (b"application/json", b'{"a":1}', "text_data"),
        (b"text/plain", "größe".encode(), "text_data"),
        (b"application/xml", b"<a/>", "text_data"),
        (b"text/plain", b"\xff", "binary_data"),
        (b"application/octet-stream", b"x", "binary_data"),
        (b"application/protobuf", b"x", "binary_data"),
        (b"text/plain", b"", None),
    ],
)
def test_text_goes_out_as_text(content_type: bytes, data: bytes, field: str | None) -> None:
    event = CloudEvent({**ATTRIBUTES, b"datacontenttype": content_type}, data, content_type.endswith(b"json"))
    message = pb.CloudEvent.FromString(protobuf.encode(event))
    assert message.WhichOneof("data") == field
    assert message.attributes["datacontenttype"].ce_string == content_type.decode()


@pytest.mark.parametrize(
    ("time", "field"), [(b"2026-11-21T03:00:00.5Z", "ce_timestamp"), (b"1990-12-31T23:59:60Z", "ce_string")]
)
def test_a_time_is_a_timestamp_when_there_is_one(time: bytes, field: str) -> None:
    message = pb.CloudEvent.FromString(protobuf.encode(CloudEvent({**ATTRIBUTES, b"time": time}, b"", False)))
    assert message.attributes["time"].WhichOneof("attr") == field


def spoilt(name: str, **value: Any) -> bytes:
    message = made()
    message.attributes[name].SetInParent()
    for kind, one in value.items():
        setattr(message.attributes[name], kind, one)
    content: bytes = message.SerializeToString()
    return content


@pytest.mark.parametrize(
    ("content", "attribute"),
    [
        (b"\xff", ""),
        (b"", "specversion"),
        (pb.CloudEvent(id="1", source="/s", type="t", spec_version="0.3").SerializeToString(), "specversion"),
        (spoilt("id", ce_string="2"), "id"),
        (spoilt("Upper", ce_string="2"), "Upper"),
        (spoilt("x", ce_string="a\x07"), "x"),
        (spoilt("time", ce_string="now"), "time"),
        (spoilt("dataschema", ce_uri="relative"), "dataschema"),
    ],
)
def test_bad_ones_are_refused_by_name(content: bytes, attribute: str) -> None:
    with pytest.raises(CloudEventError) as caught:
        protobuf.decode(content)
    assert caught.value.attribute == attribute


def test_an_instant_that_no_date_time_has_is_refused() -> None:
    message = made()
    message.attributes["time"].ce_timestamp.CopyFrom(Timestamp(seconds=1 << 60))
    with pytest.raises(CloudEventError, match="instant"):
        protobuf.decode(message.SerializeToString())


def test_an_attribute_without_a_value_is_absent() -> None:
    assert protobuf.decode(spoilt("x")).attributes == ATTRIBUTES


def test_a_batch_is_split_and_each_event_judged() -> None:
    batch = pb.CloudEventBatch(events=[made(text_data="a"), pb.CloudEvent(), made(text_data="b")]).SerializeToString()
    found: list[bytes] = []
    for _ in formats.elements(binding.BATCH_PROTOBUF, batch, 3, found):
        pass
    read = [formats.decode_element(binding.BATCH_PROTOBUF, one) for one in found]
    assert [isinstance(one, CloudEvent) for one in read] == [True, False, True]
    again = pb.CloudEventBatch.FromString(protobuf.encode_batch([one for one in read if isinstance(one, CloudEvent)]))
    assert len(again.events) == 2


@pytest.mark.parametrize("bad", [b"\x0a", b"\x0a\x05x", b"\x0b", b"\xff" * 11, b"\x09x"])
def test_other_content_is_no_batch(bad: bytes) -> None:
    with pytest.raises(CloudEventError):
        list(protobuf.elements(bad, 9, []))


def test_fields_are_counted_before_an_event_is_decoded() -> None:
    began = time.process_time()
    with pytest.raises(CloudEventError) as error:
        protobuf.decode(b"\x2a\x00" * (2 * 1024 * 1024))
    assert error.value.too_large
    assert time.process_time() - began < 0.1


def test_events_are_counted_before_one_is_decoded() -> None:
    """Empty events: 16 MiB would be eight million objects."""
    found: list[bytes] = []
    with pytest.raises(CloudEventError) as caught:
        list(protobuf.elements(b"\x0a\x00" * 1_000_000, 16_384, found))
    assert caught.value.too_large
    assert len(found) == 16_385


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_no_bytes_raise_another_error(content: bytes) -> None:
    for read in (protobuf.decode, lambda content: list(protobuf.elements(content, 5, []))):
        with contextlib.suppress(CloudEventError):
            read(content)


TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=20)


@settings(max_examples=100)
@given(TEXT, TEXT, st.binary(max_size=32))
def test_what_is_encoded_is_decoded(identity: str, subject: str, data: bytes) -> None:
    event = CloudEvent({**ATTRIBUTES, b"id": identity.encode(), b"subject": subject.encode()}, data, False)
    again = protobuf.decode(protobuf.encode(event))
    assert (again.attributes, again.data) == (event.attributes, event.data)
