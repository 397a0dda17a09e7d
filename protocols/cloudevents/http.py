"""The HTTP binding (CloudEvents 1.0.2, HTTP protocol binding): the content mode, and binary mode in both directions."""

from __future__ import annotations

import re
from typing import Final

from protocols.cloudevents.event import (
    ATTRIBUTES_MAX,
    KNOWN_BYTES_MAX,
    KNOWN_MAX,
    TEXT_ATTRIBUTES,
    UNPRINTABLE,
    CloudEvent,
    CloudEventError,
    changing,
    check,
    check_name,
    check_value,
    is_json_type,
)
from protocols.cloudevents.version import upgrade

BINARY: Final = 0
STRUCTURED: Final = 1
BATCH: Final = 2
STRUCTURED_PROTOBUF: Final = 3
BATCH_PROTOBUF: Final = 4
STRUCTURED_AVRO: Final = 5

STRUCTURED_JSON: Final[bytes] = b"application/cloudevents+json"
BATCH_JSON: Final[bytes] = b"application/cloudevents-batch+json"
PROTOBUF: Final[bytes] = b"application/cloudevents+protobuf"
PROTOBUFS: Final[bytes] = b"application/cloudevents-batch+protobuf"
AVRO: Final[bytes] = b"application/cloudevents+avro"
MODES: Final = {
    STRUCTURED_JSON: STRUCTURED,
    BATCH_JSON: BATCH,
    PROTOBUF: STRUCTURED_PROTOBUF,
    PROTOBUFS: BATCH_PROTOBUF,
    AVRO: STRUCTURED_AVRO,
}
"""The content mode and event format of each media type of CloudEvents. Avro has no batches."""
KNOWN: Final = ", ".join([name.decode() for name in MODES])
"""Media types of the formats, for those who sent another."""

_NOT_PLAIN: Final = changing(UNPRINTABLE | frozenset(b'"%'))
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})?")
_QUOTED_PAIR = re.compile(rb"\\(.)", re.DOTALL)
_CHARSET = re.compile(rb';[ \t]*charset[ \t]*=[ \t]*"?([^";, \t]*)', re.IGNORECASE)
_UNSAFE = re.compile(rb"[^!#$&-~]|%")
_modes: Final[dict[bytes, int]] = {}
"""Content-Type of earlier requests -> content mode."""
_SAME: Final = {name: name for name in TEXT_ATTRIBUTES}
"""Name of an attribute -> the object by which it is looked up: equal, and the same, which takes no comparison."""
_attributes: Final[dict[bytes, bytes]] = {}
"""Name of a header of earlier requests -> the attribute that it is, b"" for none."""


def mode(content_type: bytes) -> int:
    """BINARY, or one of MODES, by the prefix of Content-Type, without regard to case (HTTP binding, 3).

    Raises CloudEventError (unsupported) for a CloudEvents media type whose format or charset is not supported.
    """
    known = _modes.get(content_type)
    if known is not None:
        return known
    found = _mode(content_type)
    if len(content_type) <= KNOWN_BYTES_MAX:
        if len(_modes) >= KNOWN_MAX:
            _modes.clear()
        _modes[content_type] = found
    return found


def _mode(content_type: bytes) -> int:
    if content_type[:23].lower() != b"application/cloudevents":
        return BINARY
    bare = content_type.partition(b";")[0].strip().lower()
    charset = _CHARSET.search(content_type)
    if charset is not None and charset.group(1).lower() not in (b"utf-8", b"us-ascii"):
        raise CloudEventError("", "events are UTF-8", unsupported=True)
    found = MODES.get(bare)
    if found is None:
        raise CloudEventError("", f"{bare.decode('latin-1')} is not spoken here, but {KNOWN}", unsupported=True)
    return found


def header_value(name: bytes, value: bytes) -> bytes:
    """One `ce-` header value -> attribute value: a quoted string is unquoted, then percent-decoded once (3.1.3.2).

    Raises CloudEventError for a `%` without two hexadecimal digits, and when the result is not UTF-8.
    """
    if value.translate(_NOT_PLAIN) == value:
        return value
    if len(value) >= 2 and value[:1] == b'"' and value[-1:] == b'"':
        value = _QUOTED_PAIR.sub(rb"\1", value[1:-1])
    if b"%" in value:
        value = _ESCAPE.sub(_unescape, value)
    check_value(name, value)
    return value


def _decoded(name: bytes, raw: bytes) -> bytes:
    """`header_value`, with the name of the attribute in its error."""
    try:
        return header_value(name, raw)
    except CloudEventError as error:
        raise CloudEventError(name.decode(), error.text) from None


def _unescape(found: re.Match[bytes]) -> bytes:
    digits = found.group(1)
    if digits is None:
        raise CloudEventError("", "a percent sign in a header value is not followed by two hexadecimal digits")
    return bytes((int(digits, 16),))


def decode(headers: list[tuple[bytes, bytes]], content_type: bytes, body: bytes, older: bool = False) -> CloudEvent:
    """Binary mode: headers (lower-case names, raw values) and body -> CloudEvent. `older`: 0.3 is accepted.

    Raises CloudEventError.
    """
    attributes: dict[bytes, bytes] = {}
    for header, raw in headers:
        name = _attributes.get(header)
        if name is None:
            name = _attribute(header)
        if not name:
            continue
        if name in attributes:
            raise CloudEventError(name.decode(), f"attribute {name.decode()} is given twice")
        attributes[name] = raw if raw.translate(_NOT_PLAIN) == raw else _decoded(name, raw)
    if len(attributes) >= ATTRIBUTES_MAX:
        raise CloudEventError("", f"an event has at most {ATTRIBUTES_MAX} attributes", too_large=True)
    if content_type:
        attributes[b"datacontenttype"] = content_type
    if older:
        upgrade(attributes)
    if b"specversion" not in attributes:
        ways = "give ce- fields, or the whole event with Content-Type application/cloudevents+json"
        raise CloudEventError("specversion", f"attribute specversion is required: {ways}")
    check(attributes)
    return CloudEvent(attributes, body, content_type != b"" and is_json_type(content_type))


def _attribute(header: bytes) -> bytes:
    """The attribute that a header is, b"" for none. Raises CloudEventError for one that no event can have."""
    name = b""
    if header[:3] == b"ce-":
        name = header[3:]
        check_name(name)
        if name == b"datacontenttype":
            raise CloudEventError("datacontenttype", "in binary mode Content-Type is the datacontenttype")
        name = _SAME.get(name, name)
    if len(header) <= KNOWN_BYTES_MAX:
        if len(_attributes) >= KNOWN_MAX:
            _attributes.clear()
        _attributes[header] = name
    return name


def _escape(found: re.Match[bytes]) -> bytes:
    return b"%%%02X" % found.group()[0]


def encode(event: CloudEvent) -> list[tuple[bytes, bytes]]:
    """Binary mode: the headers of an event, names in lower case, Content-Type last. The body is the event's data, unchanged.

    Space, double quote, percent and all characters outside U+0021 to U+007E are percent-encoded (3.1.3.2).
    """
    headers = [
        (b"ce-" + name, _UNSAFE.sub(_escape, value)) for name, value in event.attributes.items() if name != b"datacontenttype"
    ]
    content_type = event.attributes.get(b"datacontenttype", b"")
    if content_type:
        headers.append((b"content-type", content_type))
    elif event.is_json:
        headers.append((b"content-type", b"application/json"))
    return headers
