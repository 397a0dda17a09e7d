"""A CloudEvent to a message and back: attributes are properties `CE_<name>`; the README has the whole mapping."""

from __future__ import annotations

from typing import Final

from domain import limits
from domain.message import property as properties
from domain.message.message import RETAIN_SET, Message
from protocols.cloudevents import json
from protocols.cloudevents.event import (
    CloudEvent,
    CloudEventError,
    check,
    check_name,
    check_value,
    is_json_type,
    is_media_type,
)
from protocols.cloudevents.http import STRUCTURED, mode
from protocols.cloudevents.instant import INSTANT_MS_MAX, rfc3339, rfc3339_ms

_PROTOCOL: Final = properties.HG_PROTOCOL_START + b"cloudevents\x02"
_RETAINED: Final = properties.entry(properties.MQTT_RETAIN, "true")
_JSON: Final = properties.HG_CONTENT_TYPE_START + b"application/json\x02"
_TRACE: Final = (properties.TRACEPARENT.encode(), properties.TRACESTATE.encode())
"""Extension attributes that are properties of the same names."""
_EXTENSIONS: Final = {
    properties.TRACEPARENT.encode(): b"traceparent",
    properties.TRACESTATE.encode(): b"tracestate",
    properties.SHARDING_KEY.encode(): b"partitionkey",
    properties.HG_EXPIRE_MS.encode(): b"expirytime",
    properties.TIMER_DELIVER_MS.encode(): b"deliverytime",
}
"""Property -> the extension attribute that a reader of events gets for it."""
_INSTANTS: Final = (
    (b"expirytime", properties.HG_EXPIRE_MS_START), (b"deliverytime", properties.TIMER_DELIVER_MS_START),
)  # fmt: skip

ATTRIBUTES_BYTES_MAX: Final = limits.CLIENT_PROPERTIES_BYTES_MAX
"""Attributes of one event as stored. The rest is for properties of the gateway: message id, principal, marks of copies."""


def encode(event: CloudEvent, topic: str, path: str, born_host: bytes, retain: int = 0, wall_ms: int = 0) -> Message:
    """CloudEvent -> Message in `topic`. `path`: its MQTT topic, "" when that is equal to `topic`. `wall_ms`: epoch ms, now.

    Raises CloudEventError when `expirytime` or `deliverytime` is not an instant, `deliverytime` is more than 366 days ahead,
    `partitionkey` is above 64 bytes, or attributes or data exceed their limits.
    """
    parts = [_PROTOCOL]
    if path:
        parts += (properties.ORIGIN_MQTT_TOPIC_START, path.encode(), b"\x02")
    if retain == RETAIN_SET:
        parts.append(_RETAINED)
    plain = _append_stored(event, wall_ms, parts) and not path
    stored = b"".join(parts)
    if len(stored) > ATTRIBUTES_BYTES_MAX:
        raise CloudEventError("", f"attributes and path are above {ATTRIBUTES_BYTES_MAX} bytes as stored", too_large=True)
    return Message(topic, event.data, stored, born_host=born_host, retain=retain, plain=plain)


def stored_form(event: CloudEvent, wall_ms: int = 0) -> bytes:
    """The stored properties that make a message with body `event.data` this event, whichever protocol brings it.

    Raises CloudEventError as `encode`.
    """
    parts: list[bytes] = []
    _append_stored(event, wall_ms, parts)
    stored = b"".join(parts)
    if len(stored) > ATTRIBUTES_BYTES_MAX:
        raise CloudEventError("", f"the attributes are above {ATTRIBUTES_BYTES_MAX} bytes as stored", too_large=True)
    return stored


def _append_stored(event: CloudEvent, wall_ms: int, parts: list[bytes]) -> bool:
    """Append the pieces of `stored_form`. True: none of them decides how the message is stored (`Message.plain`).

    Single appends: an addition of a tuple takes twice as long.
    """
    attributes = event.attributes
    if len(event.data) > limits.BODY_BYTES_MAX:
        raise CloudEventError("data", f"data is above {limits.BODY_BYTES_MAX} bytes", too_large=True)
    kind = attributes[b"type"]
    parts.append(properties.KEYS_START)
    parts.append(attributes[b"id"])
    parts.append(b"\x02")
    if len(kind) <= 127 and not properties.has(kind, b"|"):
        parts.append(properties.TAGS_START)
        parts.append(kind)
        parts.append(b"\x02")
    for name, value in attributes.items():
        if value:
            parts.append(properties.CE_BYTES)
            parts.append(name)
            parts.append(b"\x01")
            parts.append(value)
            parts.append(b"\x02")
    content_type = attributes.get(b"datacontenttype", b"")
    if content_type:
        parts.append(properties.HG_CONTENT_TYPE_START)
        parts.append(content_type)
        parts.append(b"\x02")
    elif event.is_json:
        parts.append(_JSON)
    if event.typed:
        parts += (properties.HG_CE_TYPED_START, b" ".join(event.typed), b"\x02")
    if len(attributes) > (5 if content_type else 4):
        _extensions(attributes, parts, wall_ms)
        return b"partitionkey" not in attributes and b"deliverytime" not in attributes
    return True


def _extensions(attributes: dict[bytes, bytes], parts: list[bytes], wall_ms: int) -> None:
    """Append the properties of extensions that the gateway uses: partitioning, distributed tracing, expiry, delivery time."""
    key = attributes.get(b"partitionkey")
    if key:
        if len(key) > limits.MESSAGE_GROUP_BYTES_MAX:
            raise CloudEventError("partitionkey", f"partitionkey is above {limits.MESSAGE_GROUP_BYTES_MAX} bytes")
        parts += (properties.SHARDING_KEY_START, key, b"\x02")
    for name in _TRACE:
        value = attributes.get(name)
        if value:
            parts += (name, b"\x01", value, b"\x02")
    for name, start in _INSTANTS:
        value = attributes.get(name)
        if value:
            ms = rfc3339_ms(value)
            if ms < 0:
                raise CloudEventError(name.decode(), f"attribute {name.decode()} must be an RFC 3339 date-time")
            if name == b"deliverytime" and wall_ms and ms - wall_ms > limits.DELAY_MS_MAX:
                raise CloudEventError("deliverytime", "deliverytime is more than 366 days ahead")
            parts += (start, b"%d\x02" % ms)


def decode(stored: bytes, body: bytes) -> CloudEvent | None:
    """Stored properties and the decompressed body -> CloudEvent; None when the message is not one."""
    attributes = attributes_of(stored)
    if not attributes:
        return _enveloped(stored, body)
    kind = attributes.get(b"datacontenttype") or properties.find(stored, properties.HG_CONTENT_TYPE_START)
    typed = properties.find(stored, properties.HG_CE_TYPED_START)
    return CloudEvent(attributes, body, is_json_type(kind), typed=typed.split(b" ") if typed else ())


def may_be_event(stored: bytes) -> bool:
    """False for a message that is no event, found out by two searches."""
    return properties.has(stored, properties.CE_SPECVERSION_START) or properties.has(stored, properties.CE_CONTENTTYPE_START)


def _enveloped(stored: bytes, body: bytes) -> CloudEvent | None:
    """The event in the body of a message in structured mode, as the RocketMQ binding of the SDK for Java sends it."""
    kind = properties.find(stored, properties.CE_CONTENTTYPE_START)
    try:
        return json.decode(body) if kind and mode(kind) == STRUCTURED else None
    except CloudEventError:
        return None


def attributes_of(stored: bytes) -> dict[bytes, bytes]:
    """The attributes of the event whose message has these properties; empty when they are not those of a valid event.

    Clients of every protocol may set the properties, so they are checked here again. Trace context, message group, expiry and
    delivery time of the message are attributes, also when its sender gave them in another place. `CE_contenttype` is the
    datacontenttype of an event that has none.
    """
    if not properties.has(stored, properties.CE_SPECVERSION_START):
        return {}
    attributes: dict[bytes, bytes] = {}
    others: dict[bytes, bytes] = {}
    try:
        for piece in stored.split(b"\x02"):
            if piece[:3] == properties.CE_BYTES:
                name, _, value = piece[3:].partition(b"\x01")
                check_name(name)
                check_value(name, value)
                attributes[name] = value
            else:
                start, _, value = piece.partition(b"\x01")
                extension = _EXTENSIONS.get(start)
                if extension is not None and extension not in attributes:
                    others[extension] = value
        kind = attributes.get(b"contenttype")
        if kind is not None and b"datacontenttype" not in attributes and is_media_type(kind):
            attributes[b"datacontenttype"] = attributes.pop(b"contenttype")
        check(attributes)
    except CloudEventError:
        return {}
    for name, value in others.items():
        if name in attributes:
            continue
        if name in (b"expirytime", b"deliverytime"):
            if value.isdigit() and len(value) <= 15 and int(value) <= INSTANT_MS_MAX:
                attributes[name] = rfc3339(int(value)).encode()
        elif is_value(value):
            attributes[name] = value
    return attributes


def is_value(value: bytes) -> bool:
    """True for bytes that an attribute can have as its value, which is not empty."""
    try:
        check_value(b"", value)
    except CloudEventError:
        return False
    return value != b""
