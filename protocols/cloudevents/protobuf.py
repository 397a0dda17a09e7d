"""The protobuf event format (CloudEvents 1.0.2, protobuf event format): one event in both directions, and batches."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError

from protocols.cloudevents.event import (
    ATTRIBUTES_MAX,
    REQUIRED,
    TEXT_ATTRIBUTES,
    CloudEvent,
    CloudEventError,
    check,
    check_name,
    check_value,
    is_absolute_uri,
    is_json_type,
)
from protocols.cloudevents.instant import INSTANT_MS_MAX

SLICE_ELEMENTS: Final = 1_024
"""Fields of a batch that are read in one slice."""
FIELDS_MAX: Final = 128
"""Fields of an event, unknown ones included. They are counted first: the library takes most of a second for a million."""
_EVENTS: Final = 0x0A
"""Tag of an event in a batch: field 1, bytes behind their length."""
_SCALARS: Final = frozenset(("ce_boolean", "ce_integer"))
_PROTOBUF: Final = b"application/protobuf"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_TEXT: Final = re.compile(rb"text/|application/(?:xml|x-www-form-urlencoded|[^;]*\+xml)\b", re.IGNORECASE)
_SECONDS: Final = (-62_135_596_800, INSTANT_MS_MAX // 1_000)
"""The years 1 to 9999, which an RFC 3339 date-time can have."""


def _messages() -> Any:
    """The generated module, which is loaded with the first event of this format."""
    from protocols.cloudevents.messages import cloudevents_pb2

    return cloudevents_pb2


def decode(content: bytes) -> CloudEvent:
    """One event. Raises CloudEventError.

    Data that is a protobuf message is its bytes: its type is `dataschema`, and `datacontenttype` application/protobuf, unless
    the event has these attributes. A type URL without a scheme gets https, which it stands for.
    """
    for number, _ in enumerate(_fields(content, "CloudEvent")):
        if number >= FIELDS_MAX:
            raise CloudEventError(
                "", f"an event has at most {FIELDS_MAX} fields, of which {ATTRIBUTES_MAX} attributes", too_large=True
            )
    found = _messages().CloudEvent()
    try:
        found.ParseFromString(content)
    except DecodeError:
        raise _none("CloudEvent") from None
    if len(found.attributes) > ATTRIBUTES_MAX - len(REQUIRED):
        raise CloudEventError("", f"an event has at most {ATTRIBUTES_MAX} attributes", too_large=True)
    attributes = {
        b"specversion": found.spec_version.encode(),
        b"id": found.id.encode(),
        b"source": found.source.encode(),
        b"type": found.type.encode(),
    }
    typed: list[bytes] = []
    for name, value in found.attributes.items():
        key = name.encode()
        check_name(key)
        if key in REQUIRED:
            raise CloudEventError(name, f"attribute {name} is a field of the event and not in its map")
        text = _attribute(name, value)
        if text is not None:
            attributes[key] = text
            if value.WhichOneof("attr") in _SCALARS and key not in TEXT_ATTRIBUTES:
                typed.append(key)
    kind = found.WhichOneof("data")
    data = b""
    if kind == "binary_data":
        data = found.binary_data
    elif kind == "text_data":
        data = found.text_data.encode()
    elif kind == "proto_data":
        data = found.proto_data.value
        _typed(attributes, found.proto_data.type_url)
    for key, text in attributes.items():
        check_value(key, text)
    check(attributes)
    return CloudEvent(attributes, data, is_json_type(attributes.get(b"datacontenttype", b"")), typed=typed)


def _typed(attributes: dict[bytes, bytes], type_url: str) -> None:
    """Attributes of data that is a protobuf message."""
    attributes.setdefault(b"datacontenttype", _PROTOBUF)
    schema = attributes.get(b"dataschema", b"").decode() or type_url
    if schema:
        attributes[b"dataschema"] = (schema if _SCHEME.match(schema) or schema != type_url else f"https://{schema}").encode()


def _attribute(name: str, value: Any) -> bytes | None:
    """The canonical string of an attribute; None: it has no value."""
    kind = value.WhichOneof("attr")
    if kind is None:
        return None
    if kind == "ce_boolean":
        return b"true" if value.ce_boolean else b"false"
    if kind == "ce_integer":
        return b"%d" % value.ce_integer
    if kind == "ce_bytes":
        return base64.b64encode(value.ce_bytes)
    if kind == "ce_timestamp":
        at = value.ce_timestamp
        if not _SECONDS[0] <= at.seconds <= _SECONDS[1] or not 0 <= at.nanos < 1_000_000_000:
            raise CloudEventError(name, f"attribute {name} is no instant of the years 1 to 9999")
        text: str = at.ToJsonString()
        return text.encode()
    text = getattr(value, kind)
    return text.encode()


def elements(content: bytes, most: int, found: list[bytes]) -> Iterator[None]:
    """Append the events of a batch to `found`, undecoded; yields where a slice of the work ends.

    They are counted before any is decoded: one that is empty takes two bytes here, and hundreds as an object. Raises
    CloudEventError for other content, and for more than `most` events.
    """
    for number, (tag, begin, end) in enumerate(_fields(content, "CloudEventBatch"), 1):
        if tag == _EVENTS:
            found.append(content[begin:end])
            if len(found) > most:
                raise CloudEventError("", f"a batch has at most {most} events", too_large=True)
        if number % SLICE_ELEMENTS == 0:
            yield


def _fields(content: bytes, message: str) -> Iterator[tuple[int, int, int]]:
    """(tag, begin of the value, its end) of each field of a message. Raises CloudEventError when the bytes are no `message`."""
    at, size = 0, len(content)
    while at < size:
        tag, at = _varint(content, at, message)
        kind = tag & 7
        length = 0
        if kind == 2:
            length, at = _varint(content, at, message)
        elif kind == 0:
            _, at = _varint(content, at, message)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise _none(message)
        end = at + length
        if end > size:
            raise _none(message)
        yield tag, at, end
        at = end


def _varint(content: bytes, at: int, message: str) -> tuple[int, int]:
    """(a number, where it ends)."""
    value = shift = 0
    while at < len(content) and shift < 64:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _none(message)


def _none(message: str) -> CloudEventError:
    return CloudEventError("", f"the content is no {message} of the protobuf format")


def encode(event: CloudEvent) -> bytes:
    """One event. Its time is a Timestamp, its schema a URI; Integers and Booleans are themselves, other attributes strings.

    JSON and text are `text_data`; a protobuf message with its schema is `proto_data`; other data is `binary_data`.
    """
    content: bytes = _message(event).SerializeToString(deterministic=True)
    return content


def encode_batch(events: Sequence[CloudEvent]) -> bytes:
    """Encode events as one message `CloudEventBatch`, the batch format of protobuf."""
    return join([encode(event) for event in events])


def join(encoded: Sequence[bytes]) -> bytes:
    """Encoded events -> a batch: each is an element of its field 1."""
    parts: list[bytes] = []
    for one in encoded:
        length = bytearray()
        rest = len(one)
        while rest > 0x7F:
            length.append(rest & 0x7F | 0x80)
            rest >>= 7
        length.append(rest)
        parts += (b"\x0a", bytes(length), one)
    return b"".join(parts)


def _message(event: CloudEvent) -> Any:
    out = _messages().CloudEvent()
    attributes = event.attributes
    out.id, out.source, out.type = (attributes[name].decode() for name in (b"id", b"source", b"type"))
    out.spec_version = attributes[b"specversion"].decode()
    for name, value in attributes.items():
        if name in REQUIRED:
            continue
        text = value.decode("utf-8", "replace")
        slot = out.attributes[name.decode()]
        if name == b"dataschema":
            slot.ce_uri = text
        elif name != b"time" or not _is_timestamp(slot, text):
            slot.ce_string = text
    for name, number in event.scalars():
        slot = out.attributes[name.decode()]
        if isinstance(number, bool):
            slot.ce_boolean = number
        elif isinstance(number, int):
            slot.ce_integer = number
    _fill(out, event)
    return out


def _is_timestamp(slot: Any, text: str) -> bool:
    """True when the value is set: protobuf has no leap second, and no lower-case letters in a date-time."""
    with contextlib.suppress(ValueError):
        slot.ce_timestamp.FromJsonString(text.upper())
        return True
    slot.ClearField("ce_timestamp")
    return False


def _fill(out: Any, event: CloudEvent) -> None:
    data = event.data
    kind = event.attributes.get(b"datacontenttype", b"")
    schema = event.attributes.get(b"dataschema", b"")
    if kind.partition(b";")[0].strip().lower() == _PROTOBUF and is_absolute_uri(schema):
        out.proto_data.type_url, out.proto_data.value = schema.decode(), data
    elif data:
        if event.is_json or _TEXT.match(kind):
            with contextlib.suppress(UnicodeDecodeError):
                out.text_data = data.decode()
                return
        out.binary_data = data
