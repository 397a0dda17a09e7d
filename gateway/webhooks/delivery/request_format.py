"""Requests to a sink from stored messages: binary, structured, batched or raw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import orjson

from domain import limits
from domain.delivery.retry_owner import origin_topic
from domain.filter.path_matching import path_of
from domain.message import property as properties
from domain.message.record import Record
from domain.subscription.subscription import EventFormat, Payload, WebhookSubscription
from protocols.cloudevents import formats
from protocols.cloudevents import http as binding
from protocols.cloudevents import message as mapping
from protocols.cloudevents.event import CloudEvent, is_json_type, is_media_type
from protocols.cloudevents.instant import INSTANT_MS_MAX, rfc3339
from protocols.compression import plain

ENVELOPE_TYPE: Final = "io.headgate.message"
"""Type of the event that wraps a message which is no CloudEvent."""
BATCH_BYTES_MAX: Final = 1024 * 1024
"""Bytes of event data in a batch, unless a single event is larger."""
_STRUCTURED: Final[Mapping[EventFormat, bytes]] = {
    EventFormat.JSON: binding.STRUCTURED_JSON, EventFormat.PROTOBUF: binding.PROTOBUF, EventFormat.AVRO: binding.AVRO,
}  # fmt: skip
_BATCHED: Final[Mapping[EventFormat, bytes]] = {
    EventFormat.JSON: binding.BATCH_JSON, EventFormat.PROTOBUF: binding.PROTOBUFS,
}  # fmt: skip
_OCTETS: Final = "application/octet-stream"


class Form(NamedTuple):
    """Content of a request with its header fields, Content-Type included."""

    fields: list[tuple[str, str]]
    body: bytes


def message_id(record: Record) -> str:
    """The id of a message, the same in every attempt: its unique key, or `<topic>.<queue>.<offset>`."""
    found = properties.find(record.properties, properties.UNIQ_KEY_START)
    text = found.decode("ascii", "replace")
    return text if text.isprintable() and text else f"{record.topic}.{record.queue_id}.{record.queue_offset}"


def event_of(record: Record) -> CloudEvent:
    """The CloudEvent of a message. A message that is no CloudEvent gets an envelope (docs/protocols/webhooks.md).

    Attributes of the envelope: id, source `/topics/<topic>`, type ENVELOPE_TYPE, time, datacontenttype, and if the message has
    them subject (path), partitionkey (message group), mqkey, mqtag and mqproperties (user properties as JSON).
    """
    stored = record.properties
    body = plain(record, limits.BODY_BYTES_MAX)
    data = record.body if body is None else body
    found = mapping.decode(stored, data)
    if found is not None:
        return found
    topic = origin_topic(record.topic, stored)  # of a redelivery, or of a redriven dead letter
    attributes = {
        b"specversion": b"1.0",
        b"id": message_id(record).encode(),
        b"source": b"/topics/" + topic.replace("%", "%25").encode(),
        b"type": ENVELOPE_TYPE.encode(),
        b"time": rfc3339(_sent_ms(record)).encode(),
    }
    kind = properties.content_type(stored).encode()
    attributes[b"datacontenttype"] = kind if is_media_type(kind) else _OCTETS.encode()
    user = properties.user(stored)
    for name, value in (
        (b"subject", path_of(topic, stored).encode()),
        (b"partitionkey", properties.find(stored, properties.SHARDING_KEY_START)),
        (b"mqkey", properties.find(stored, properties.KEYS_START)),
        (b"mqtag", properties.find(stored, properties.TAGS_START)),
        (b"traceparent", user.pop("traceparent", "").encode()),
        (b"tracestate", user.pop("tracestate", "").encode()),
        (b"mqproperties", orjson.dumps(user) if user else b""),
    ):
        if value and mapping.is_value(value):
            attributes[name] = value
    return CloudEvent(attributes, data, is_json_type(attributes[b"datacontenttype"]))


def _sent_ms(record: Record) -> int:
    """When a message was sent: copies of it, as of a redrive, were stored later, and are the same event."""
    return record.born_ms if 0 < record.born_ms <= INSTANT_MS_MAX else record.store_ms


def attributes_of(event: CloudEvent) -> dict[str, str]:
    """The attributes of an event as text, for filters."""
    return {name.decode(): value.decode("utf-8", "replace") for name, value in event.attributes.items()}


def request_of(payload: Payload, form: EventFormat, records: Sequence[Record], events: Sequence[CloudEvent]) -> Form:
    """The request content for one message, or with BATCHED for several. `events`: the CloudEvents of the records."""
    if payload is Payload.BATCHED:
        encoded = [formats.encode(_STRUCTURED[form], event) for event in events]
        return Form([_content_type(_BATCHED[form])], formats.join(_BATCHED[form], encoded))
    event = events[0]
    if payload is Payload.STRUCTURED:
        return Form([_content_type(_STRUCTURED[form])], formats.encode(_STRUCTURED[form], event))
    if payload is Payload.RAW:
        return Form(_raw(records[0], event), event.data)
    fields = [(name.decode(), value.decode("latin-1")) for name, value in binding.encode(event)]
    if not any(name == "content-type" for name, _ in fields):
        fields.append(("content-type", _OCTETS))
    return Form(fields, event.data)


def _content_type(media_type: bytes) -> tuple[str, str]:
    text = media_type.decode()
    return "content-type", f"{text}; charset=utf-8" if text.endswith("json") else text


def form_of_test(subscription: WebhookSubscription, identity: str) -> Form:
    """The content of a test delivery: one event of type `io.headgate.test` with the id `identity`."""
    event = CloudEvent(
        {
            b"specversion": b"1.0", b"id": identity.encode(), b"source": f"/subscriptions/{subscription.id}".encode(),
            b"type": b"io.headgate.test", b"datacontenttype": b"application/json",
        },
        b'{"test":true}', True,
    )  # fmt: skip
    payload = subscription.payload
    return request_of(Payload.BINARY if payload is Payload.RAW else payload, subscription.format, [], [event])


def _raw(record: Record, event: CloudEvent) -> list[tuple[str, str]]:
    """Header fields of a raw body: its Content-Type, and the origin of the message in `mq-` fields."""
    kind = event.attributes.get(b"datacontenttype", b"").decode("latin-1")
    return [
        ("content-type", kind or (_JSON if event.is_json else _OCTETS)),
        ("mq-message-id", message_id(record)),
        ("mq-topic", origin_topic(record.topic, record.properties)),
        ("mq-queue", str(record.queue_id)),
        ("mq-offset", str(record.queue_offset)),
    ]


_JSON: Final = "application/json"
