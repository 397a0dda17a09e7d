"""A CloudEvent as a message and back: attributes are properties `CE_<name>`, the rest of the mapping stands in the README."""

from __future__ import annotations

from domain import limits
from domain import property as properties
from domain.message import Message
from protocols.cloudevents.event import CloudEvent, CloudEventError, is_json_type
from protocols.cloudevents.instant import rfc3339_ms


def encode(event: CloudEvent, topic: str, path: str, born_host: bytes, retain: int = 0) -> Message:
    """CloudEvent -> Message in `topic`; `path` is its MQTT path, "" when that is just the topic.

    Raises CloudEventError: `expirytime` or `deliverytime` is no instant, attributes or data are above their bounds.
    """
    attributes = event.attributes
    if len(event.data) > limits.BODY_BYTES_MAX:
        raise CloudEventError("data", f"data is above {limits.BODY_BYTES_MAX} bytes", too_large=True)
    kind = attributes[b"type"]
    identity = attributes[b"id"]
    parts = [b"KEYS\x01", identity, b"\x02HG_PROTOCOL\x01cloudevents\x02"]
    if len(kind) <= 127 and b"|" not in kind:
        parts += (b"TAGS\x01", kind, b"\x02")
    if path:
        parts += (b"originMqttTopic\x01", path.encode(), b"\x02")
    for name, value in attributes.items():
        if value:
            parts += (b"CE_", name, b"\x01", value, b"\x02")
    content_type = attributes.get(b"datacontenttype", b"")
    if content_type:
        parts += (b"HG_CONTENT_TYPE\x01", content_type, b"\x02")
    elif event.is_json:
        parts.append(b"HG_CONTENT_TYPE\x01application/json\x02")
    if len(attributes) > 4:
        _extensions(attributes, parts)
    stored = b"".join(parts)
    if len(stored) > limits.PROPERTIES_BYTES_MAX:
        raise CloudEventError("", f"the attributes are above {limits.PROPERTIES_BYTES_MAX} bytes as stored", too_large=True)
    return Message(topic, event.data, stored, born_host=born_host, retain=retain)


def _extensions(attributes: dict[bytes, bytes], parts: list[bytes]) -> None:
    """Extensions with a meaning of their own here: partitioning, distributed tracing, expiry, delivery time."""
    key = attributes.get(b"partitionkey")
    if key:
        parts += (b"__SHARDINGKEY\x01", key, b"\x02")
    for name in (b"traceparent", b"tracestate"):
        value = attributes.get(name)
        if value:
            parts += (name, b"\x01", value, b"\x02")
    for name, stored in ((b"expirytime", b"HG_EXPIRE_MS"), (b"deliverytime", b"TIMER_DELIVER_MS")):
        value = attributes.get(name)
        if value:
            ms = rfc3339_ms(value)
            if ms < 0:
                raise CloudEventError(name.decode(), f"attribute {name.decode()} must be an RFC 3339 date-time")
            parts += (stored, b"\x01%d\x02" % ms)


def decode(stored: bytes, body: bytes) -> CloudEvent | None:
    """Stored properties and the plain body -> CloudEvent; None when the message is none. Nothing is invented."""
    if b"CE_specversion\x01" not in stored:
        return None
    attributes: dict[bytes, bytes] = {}
    for piece in stored.split(b"\x02"):
        if piece[:3] == b"CE_":
            name, _, value = piece[3:].partition(b"\x01")
            if name.isalnum():
                attributes[name] = value
    kind = attributes.get(b"datacontenttype") or properties.find(stored, b"HG_CONTENT_TYPE")
    return CloudEvent(attributes, body, is_json_type(kind))
