"""Dead letters of subscriptions, with the reason, and reply messages made from answers of sinks."""

from __future__ import annotations

from typing import Final

from domain import limits
from domain.delivery.retry_owner import origin_topic
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record
from domain.subscription.courier import SinkAnswer
from gateway.usecase.consume.dead_letters import copy_of
from protocols.cloudevents import formats
from protocols.cloudevents import http as binding
from protocols.cloudevents import message as mapping
from protocols.cloudevents.event import CloudEventError

REASON_CHARS_MAX: Final = 512
_HOST: Final = b"\x00\x00\x00\x00\x00\x00\x00\x00"


def dead_letter(record: Record, topic: str, group: str, sink: str, answer: SinkAnswer) -> Message:
    """A copy of a message for queue 0 of the dead-letter topic, from which a redrive of `group` reads it.

    The reason is in Knative's attributes `knativeerrordest`, `-code` and `-data`: as attributes of a CloudEvent, as user
    properties of another message. `-dest` and `-data` are cut to the space that the other properties leave.
    """
    stored = record.properties
    prefix = properties.CE_PREFIX if properties.find(stored, properties.CE_SPECVERSION_START) else ""
    reason = answer.text or answer.body.decode("utf-8", "replace")
    changes = {
        properties.DLQ_ORIGIN_TOPIC: properties.text(stored, properties.DLQ_ORIGIN_TOPIC) or origin_topic(record.topic, stored),
        properties.HG_DLQ_GROUP: group,
        properties.DLQ_ORIGIN_MESSAGE_ID: properties.id_mark(properties.text(stored, properties.UNIQ_KEY)),
        f"{prefix}knativeerrorcode": str(answer.status),
    }
    message = copy_of(record, topic, reconsume_times=record.reconsume_times, changes=changes)
    message.queue_id = 0
    for name, text in (("knativeerrordest", sink.partition("?")[0]), ("knativeerrordata", reason)):
        key = prefix + name
        room = limits.PROPERTIES_BYTES_MAX - len(properties.without(message.properties, (key,))) - len(key) - 2
        value = _printable(text).encode()[: max(room, 0)].decode("utf-8", "ignore")
        if value:
            message.properties = properties.with_room(message.properties, {key: value})
    return message


def reply_of(answer: SinkAnswer, topic: str, asked: Record | None, wall_ms: int) -> Message | None:
    """The event in an answer as a message for `topic`; None: the content is no CloudEvent, or its properties are larger than a
    client may send.

    asked   the message that was delivered: the reply has its correlation data (MQTT 5.0, 3.3.2.3.6), by which its sender
            matches the reply; None: the request had several messages
    """
    fields = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in answer.fields]
    kind = next((value for name, value in fields if name == b"content-type"), b"")
    try:
        mode = binding.mode(kind)
        if formats.is_batch(mode):
            return None
        event = binding.decode(fields, kind, answer.body) if mode == binding.BINARY else formats.decode(mode, answer.body)
        message = mapping.encode(event, topic, "", _HOST, 0, wall_ms)
    except CloudEventError:
        return None
    correlation = b"" if asked is None else properties.find(asked.properties, properties.HG_CORRELATION_START)
    if correlation:
        message.properties += properties.entry(properties.HG_CORRELATION, correlation.decode("ascii", "replace"))
    return message if properties.client_bytes(message.properties) <= limits.CLIENT_PROPERTIES_BYTES_MAX else None


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:REASON_CHARS_MAX])
