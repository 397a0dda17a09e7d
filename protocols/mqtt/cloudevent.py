"""CloudEvents in MQTT (CloudEvents MQTT binding 1.0.2): an event in a PUBLISH becomes the same message as over HTTP.

Binary mode (5.0): attributes are user properties of the same names, Content Type is the datacontenttype. Structured mode: the
payload is an event in the format that Content Type names; 3.1.1 has no other mode, nothing that names a format, and JSON alone.
"""

from __future__ import annotations

from typing import Final

from domain import limits
from domain.message import property as properties
from protocols.cloudevents import envelope, formats
from protocols.cloudevents import http as binding
from protocols.cloudevents import message as mapping
from protocols.cloudevents.event import CloudEvent, CloudEventError, check, check_name, check_value, is_json_type
from protocols.mqtt import property as props
from protocols.mqtt.property import Properties

_MARK: Final = "specversion"
_QUOTED_MARK: Final = b'"specversion"'
ATTRIBUTES_BYTES_MAX: Final = 24 * 1024
"""Bytes of stored properties of an event; with more, a payload is not taken for an event."""


def binary(given: Properties, body: bytes) -> CloudEvent | None:
    """The event of a 5.0 PUBLISH in binary mode, None when its user properties are not those of an event.

    User properties may have any names, so a message that is not an event is not an error. Those whose names no attribute can
    have, such as `messageGroup`, are no attributes.
    """
    if not any(key == _MARK for key, _ in given.user):
        return None
    attributes: dict[bytes, bytes] = {}
    try:
        for key, text in given.user:
            name, value = key.encode(), text.encode()
            if not is_attribute(key):
                continue
            if name in attributes or name == b"datacontenttype":
                return None
            check_value(name, value)
            if value:
                attributes[name] = value
        content_type = given.texts.get(props.CONTENT_TYPE, "").encode()
        if content_type:
            attributes[b"datacontenttype"] = content_type
        check(attributes)
    except CloudEventError:
        return None
    return CloudEvent(attributes, body, is_json_type(content_type))


def is_attribute(key: str) -> bool:
    """True for a user property whose name an attribute can have."""
    try:
        check_name(key.encode())
    except CloudEventError:
        return False
    return True


def structured(body: bytes, content_type: str | None) -> CloudEvent | None:
    """The event in a payload, None when it is none. `content_type`: of a 5.0 PUBLISH, None below 5.0.

    Below 5.0 a payload is an event when it is a JSON object with all that an event has. Anything else stays as it was sent,
    batches too, which the binding does not have.
    """
    mode = binding.STRUCTURED
    try:
        if content_type is not None:
            mode = binding.mode(content_type.encode())
        elif body[:1] != b"{" or _QUOTED_MARK not in body:
            return None
        return None if mode == binding.BINARY or formats.is_batch(mode) else formats.decode(mode, body)
    except CloudEventError:
        return None


def stored_form(event: CloudEvent, text: bytes = b"", content_type: str = "") -> bytes | None:
    """The stored properties of an event, None when it cannot be stored as one.

    text           the payload of structured mode, b"" in binary mode
    content_type   the one that the payload came with, "" below 5.0
    """
    try:
        out = mapping.stored_form(event)
    except CloudEventError:
        return None
    if text:
        out += envelope.stored_form(text, event, content_type)
    return out if len(out) <= ATTRIBUTES_BYTES_MAX and len(event.data) <= limits.BODY_BYTES_MAX else None


def is_structured(stored: bytes) -> bool:
    """True when the message came as a structured event over MQTT: MQTT 5 forwards it as it was sent."""
    return properties.has(stored, properties.HG_ENVELOPE_START)


def payload(stored: bytes, body: bytes, typed: bool) -> tuple[str, bytes] | None:
    """(content type, payload) of a message that is an event, in structured mode; None for another message.

    `typed`: the payload goes out with its content type.
    """
    event = mapping.decode(stored, body)
    return None if event is None else envelope.structured(stored, event, typed)


def attributes(stored: bytes) -> dict[str, str]:
    """The attributes of an event as user properties of a PUBLISH in binary mode; empty for another message."""
    found = mapping.attributes_of(stored)
    return {name.decode(): value.decode() for name, value in found.items() if name != b"datacontenttype"}
