"""The CloudEvents SDK as the reference, in both directions."""

from __future__ import annotations

import datetime

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as SdkEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.cloudevents import http as binding
from protocols.cloudevents import json as envelope

TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=20).filter(
    lambda text: text.strip() == text and not text.startswith('"')
)


def sdk_event(identity: str, subject: str, data: object, content_type: str) -> SdkEvent:
    """An event made by the SDK."""
    return SdkEvent(
        {
            "specversion": "1.0",
            "id": identity,
            "source": "/oracle",
            "type": "com.example.oracle",
            "time": datetime.datetime(2026, 11, 21, 3, 0, tzinfo=datetime.UTC),
            "subject": subject,
            "datacontenttype": content_type,
        },
        data,  # type: ignore[arg-type]
    )


@settings(max_examples=100)
@given(TEXT, TEXT, st.binary(min_size=1, max_size=40))
def test_binary_mode_from_the_sdk(identity: str, subject: str, data: bytes) -> None:
    sent = to_binary(sdk_event(identity, subject, data, "application/octet-stream"), JSONFormat())
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.headers.items()]
    content_type = next(value for name, value in headers if name == b"content-type")
    event = binding.decode(headers, content_type, sent.body)
    assert event.attributes[b"id"].decode() == identity
    assert event.attributes[b"subject"].decode() == subject
    assert event.attributes[b"time"] == b"2026-11-21T03:00:00Z"
    assert event.data == data


@settings(max_examples=100)
@given(TEXT, TEXT, st.dictionaries(TEXT, st.integers(-5, 5) | TEXT, max_size=3))
def test_structured_mode_from_the_sdk(identity: str, subject: str, data: dict[str, object]) -> None:
    sent = to_structured(sdk_event(identity, subject, data, "application/json"), JSONFormat())
    assert binding.mode(sent.headers["content-type"].encode()) == binding.STRUCTURED
    event = envelope.decode(sent.body)
    assert event.attributes[b"id"].decode() == identity
    assert event.attributes[b"subject"].decode() == subject
    assert event.data in sent.body


@pytest.mark.parametrize("content_type", [b"application/json", b"text/plain", b"application/octet-stream"])
def test_the_sdk_reads_what_goes_out(content_type: bytes) -> None:
    data = (
        b'{"a": 1}'
        if content_type == b"application/json"
        else b"\xc3\xa9 \x01"
        if content_type == b"text/plain"
        else b"\xff\x00"
    )
    headers = [
        (b"ce-specversion", b"1.0"),
        (b"ce-id", b"1%20%C3%A9"),
        (b"ce-source", b"/s"),
        (b"ce-type", b"t"),
        (b"ce-n", b"5"),
    ]
    event = binding.decode(headers, content_type, data)
    binary = HTTPMessage({name.decode(): value.decode() for name, value in binding.encode(event)}, event.data)
    structured = HTTPMessage({"content-type": "application/cloudevents+json"}, envelope.encode(event))
    for message in (binary, structured):
        read = from_http(message, JSONFormat(), SdkEvent)
        assert read.get_id() == "1 é"
        assert read.get_extension("n") == "5"
        found = read.get_data()
        if content_type == b"application/json":
            assert found == {"a": 1}
        else:
            assert (found.encode() if isinstance(found, str) else found) == data
