"""Integers and Booleans stay what they are, from each format to each other one (CloudEvents 1.0.2, 3.1; JSON format, 2.2)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.cloudevents import formats, http, message
from protocols.cloudevents.event import CloudEvent, scalar

FORMATS = (http.STRUCTURED_JSON, http.PROTOBUF, http.AVRO)
CORE = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
EXTENSIONS = {"count": 2_147_483_647, "least": -2_147_483_648, "zero": 0, "neg": -5, "flag": True, "off": False, "text": "7"}
HOST = bytes(8)


def decoded(form: bytes, content: bytes) -> CloudEvent:
    return formats.decode(http.MODES[form], content)


def stored(event: CloudEvent) -> CloudEvent:
    """The event that a reader makes of its message."""
    kept = message.encode(event, "t", "", HOST)
    found = message.decode(kept.properties, kept.body)
    assert found is not None
    return found


def as_json(event: CloudEvent) -> dict[str, object]:
    found: dict[str, object] = json.loads(formats.encode(http.STRUCTURED_JSON, event))
    return found


def event_with(**extensions: object) -> CloudEvent:
    return decoded(http.STRUCTURED_JSON, json.dumps(CORE | extensions).encode())


@pytest.mark.parametrize("came", FORMATS)
@pytest.mark.parametrize("goes", FORMATS)
def test_a_type_is_kept_from_each_format_to_each(came: bytes, goes: bytes) -> None:
    event = stored(decoded(came, formats.encode(came, event_with(**EXTENSIONS))))
    assert as_json(decoded(goes, formats.encode(goes, event))) == CORE | EXTENSIONS


def test_in_binary_mode_they_are_strings() -> None:
    event = stored(event_with(**EXTENSIONS))
    fields = dict(http.encode(event))
    assert (fields[b"ce-count"], fields[b"ce-flag"], fields[b"ce-off"], fields[b"ce-neg"]) == (
        b"2147483647", b"true", b"false", b"-5",
    )  # fmt: skip


def test_a_string_stays_one_though_it_looks_like_a_number() -> None:
    assert as_json(stored(event_with(count="7", flag="true"))) == CORE | {"count": "7", "flag": "true"}


@pytest.mark.parametrize("value", [b"", b"x", b"1.5", b"007", b"-0", b"+1", b"2147483648", b"-2147483649", b"True", b"1" * 400])
def test_what_is_no_canonical_number_or_boolean_is_a_string(value: bytes) -> None:
    """A client of another protocol may set the property to anything."""
    assert scalar(value) is None
    event = CloudEvent({b"specversion": b"1.0", b"id": b"1", b"source": b"/s", b"type": b"t", b"n": value}, b"", False)
    event.typed = (b"n", b"missing")
    for form in FORMATS:
        assert as_json(decoded(form, formats.encode(form, event)))["n"] == value.decode()


@given(st.integers(-(1 << 31), (1 << 31) - 1) | st.booleans())
def test_every_number_and_boolean_comes_back(value: int) -> None:
    for form in FORMATS:
        found = as_json(stored(decoded(form, formats.encode(form, event_with(n=value)))))["n"]
        assert (type(found), found) == (type(value), value)
