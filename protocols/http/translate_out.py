"""A stored message in a response: a JSON object, or a bare body with `mq-` fields. Compressed bodies are decompressed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import orjson

from domain import limits
from domain.event import Leased
from domain.filter.path_matching import path_of
from domain.message import property as properties
from domain.message.record import Record
from protocols.cloudevents import formats
from protocols.cloudevents import http as binding
from protocols.cloudevents import message as mapping
from protocols.cloudevents.event import CloudEvent
from protocols.cloudevents.http import PROTOBUF, PROTOBUFS, STRUCTURED_JSON
from protocols.cloudevents.instant import INSTANT_MS_MAX, rfc3339
from protocols.compression import plain
from protocols.http.request import TRACEPARENT, TRACESTATE
from protocols.http.response import Fields, Response, field_value

_MARKS: Final = (
    (b"mq-key", properties.KEYS_START), (b"mq-tag", properties.TAGS_START),
    (b"mq-message-group", properties.SHARDING_KEY_START),
)  # fmt: skip
"""`mq-` field -> the property whose value it has."""
_SANDBOX = [(b"x-content-type-options", b"nosniff"), (b"content-security-policy", b"sandbox")]
_ENCODER: Final[Any] = msgspec.json.Encoder()
"""Makes a JSON string of base64 of bytes in one pass. orjson copies it, and searches it for nothing that has to be escaped."""
BODIES_BYTES_MAX: Final = limits.RECEIVE_BYTES_MAX
"""Bytes of bodies, decompressed, after which an answer takes no more messages."""


def documents(records: Iterable[Record]) -> list[dict[str, object]]:
    """The first messages of an answer, one at least, up to BODIES_BYTES_MAX: compressed bodies may grow a thousand times."""
    out: list[dict[str, object]] = []
    size = 0
    for record in records:
        found, body_bytes = document(record)
        out.append(found)
        size += body_bytes
        if size >= BODIES_BYTES_MAX:
            break
    return out


def document(record: Record, as_text: bool = False) -> tuple[dict[str, object], int]:
    """(one message as a JSON object for orjson, bytes of its body).

    `id topic path queue offset storedMs key tag messageGroup contentType deliverAt expiresAt properties body`.

    A CloudEvent also has its `attributes` by their own names.
    `body` is base64; with `as_text` a body that is UTF-8 is `text` instead. `compressed` is present when the body could not be
    decompressed.
    """
    stored = record.properties
    found = properties.decode(stored)
    topic = record.topic
    out: dict[str, object] = {
        "id": found.get(properties.UNIQ_KEY, ""),
        "topic": topic,
        "path": path_of(topic, stored),
        "queue": record.queue_id,
        "offset": record.queue_offset,
        "storedMs": record.store_ms,
    }
    for name, key in (
        ("key", properties.KEYS),
        ("tag", properties.TAGS),
        ("messageGroup", properties.SHARDING_KEY),
    ):
        if key in found:
            out[name] = found[key]
    content_type = properties.content_type(stored)
    if content_type:
        out["contentType"] = content_type
    for name, ms in (("deliverAt", _due_ms(found)), ("expiresAt", found.get(properties.HG_EXPIRE_MS, ""))):
        if _is_instant(ms):
            out[name] = rfc3339(int(ms))
    if found.get(properties.MQTT_RETAIN) == "true":
        out["retain"] = True
    out["properties"] = {name: value for name, value in found.items() if not properties.is_reserved(name)}
    attributes = mapping.attributes_of(stored)
    if attributes:
        out["attributes"] = {name.decode(): value.decode() for name, value in attributes.items()}
    body = plain(record, limits.BODY_BYTES_MAX)
    if body is None:
        out["compressed"] = True
        body = record.body
    if as_text:
        try:
            out["text"] = body.decode()
        except UnicodeDecodeError:
            pass
        else:
            return out, len(body)
    out["body"] = orjson.Fragment(_ENCODER.encode(body))
    return out, len(body)


def _due_ms(found: dict[str, str]) -> str:
    """The delivery time of a message that was delayed to an instant, epoch milliseconds; "" for another message."""
    return found.get(properties.TIMER_DELIVER_MS) or found.get(properties.TIMER_OUT_MS, "")


def _is_instant(ms: str) -> bool:
    """True for epoch milliseconds that RFC 3339 can express. Clients may have stored any text."""
    return ms.isascii() and ms.isdigit() and len(ms) <= 15 and int(ms) <= INSTANT_MS_MAX


def leased_documents(messages: Iterable[Leased]) -> list[dict[str, object]]:
    """The first messages of a receive, as in `documents`, with `receipt` and `attempt`."""
    messages = list(messages)
    found = documents(Record(leased.record) for leased in messages)
    return [
        {"receipt": leased.receipt.text(), "attempt": leased.attempt, **one}
        for leased, one in zip(messages, found, strict=False)
    ]


def event_of(record: Record) -> CloudEvent | None:
    """The CloudEvent of a message, None when the message is none."""
    if not mapping.may_be_event(record.properties):
        return None
    body = plain(record, limits.BODY_BYTES_MAX)
    return None if body is None else mapping.decode(record.properties, body)


def structured(record: Record, media_type: bytes) -> bytes | None:
    """The message as a CloudEvent in structured mode of a format, None when it is no CloudEvent."""
    event = event_of(record)
    return None if event is None else formats.encode(media_type, event)


def structured_batch(records: Iterable[Record], media_type: bytes) -> tuple[bytes, int]:
    """(the CloudEvents among the first messages of an answer as a batch, how many messages were looked at).

    `media_type`: BATCH_JSON or PROTOBUFS. They end behind BODIES_BYTES_MAX, as those of `documents`.
    """
    found: list[bytes] = []
    size = looked = 0
    for record in records:
        looked += 1
        one = structured(record, PROTOBUF if media_type == PROTOBUFS else STRUCTURED_JSON)
        if one is not None:
            found.append(one)
            size += len(one)
        if size >= BODIES_BYTES_MAX:
            break
    return formats.join(media_type, found), looked


def bare(record: Record, more: Fields) -> Response:
    """The body with `mq-` fields, and `ce-` fields for a CloudEvent (binary mode)."""
    stored = record.properties
    topic = record.topic
    event = event_of(record)
    fields: Fields = [] if event is None else binding.encode(event)
    if not any(name == b"content-type" for name, _ in fields):
        fields.append((b"content-type", properties.content_type(stored).encode() or b"application/octet-stream"))
    fields += [
        (b"mq-message-id", properties.find(stored, properties.UNIQ_KEY_START)),
        (b"mq-topic", topic.encode()),
        (b"mq-path", path_of(topic, stored).encode()),
        (b"mq-queue", b"%d" % record.queue_id),
        (b"mq-offset", b"%d" % record.queue_offset),
    ]
    for name, start in _MARKS:
        value = properties.find(stored, start)
        if value:
            fields.append((name, value))
    found = properties.decode(stored)
    for name, ms in ((b"mq-deliver-at", _due_ms(found)), (b"mq-expires-at", found.get(properties.HG_EXPIRE_MS, ""))):
        if _is_instant(ms):
            fields.append((name, rfc3339(int(ms)).encode()))
    user = properties.user(stored)
    for name in (TRACEPARENT, TRACESTATE):
        context = user.pop(name.decode(), "")
        if context:
            fields.append((name, context.encode()))
    if event is not None:
        # Its attributes are `ce-` fields.
        user = {name: value for name, value in user.items() if not name.startswith(properties.CE_PREFIX)}
    if user:
        fields.append((b"mq-properties", orjson.dumps(user)))
    fields += more
    # Values of `ce-` fields are already encoded as the HTTP binding of CloudEvents prescribes.
    safe = [(name, value if name[:3] == b"ce-" else field_value(value)) for name, value in fields]
    body = plain(record, limits.BODY_BYTES_MAX)
    return Response(200, safe + _SANDBOX, record.body if body is None else body)


def bare_leased(leased: Leased) -> Response:
    """A leased message as a bare body, with its receipt in `mq-receipt`."""
    more = [(b"mq-receipt", leased.receipt.text().encode()), (b"mq-attempt", b"%d" % leased.attempt)]
    return bare(Record(leased.record), more)
