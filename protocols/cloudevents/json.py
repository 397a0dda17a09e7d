"""The JSON event format (CloudEvents 1.0.2, JSON event format): one event or a batch, in both directions.

This module scans the top level of the text, to detect duplicate names and to keep the bytes of `data` as they were sent.
msgspec checks the syntax of the whole event without building objects, and orjson parses each attribute: both refuse
invalid escapes and lone surrogates. A batch is split in slices, because its text may take longer than one turn of the loop.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Generator, Iterator
from typing import Any, Final

import msgspec
import orjson

from protocols.cloudevents.event import (
    ATTRIBUTES_MAX,
    TEXT_ATTRIBUTES,
    CloudEvent,
    CloudEventError,
    check,
    check_name,
    check_value,
    is_json_type,
)
from protocols.cloudevents.version import upgrade_members

_SPACE = re.compile(rb"[ \t\n\r]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb'[^ \t\n\r,\]}"{\[:]++')
# An unterminated string is one token too: otherwise the matcher would try every later quote as the start of a string.
_NESTING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+|[{}\[\]]', re.DOTALL)

MEMBERS_MAX: Final = ATTRIBUTES_MAX + 2
"""Most members of an event: its attributes, `data` and `data_base64`."""
SLICE_TOKENS: Final = 2_048
"""Strings and brackets of a batch that are scanned in one slice."""
AT_ONCE_BYTES: Final = 64 * 1024
"""An event up to this size is decoded in one turn; a larger one in slices."""
SLICE_CHARACTERS: Final = 1024 * 1024
"""Characters of base64 that are decoded in one slice, in 2 ms; a multiple of 4."""

_ENVELOPE: Final[Any] = msgspec.json.Decoder(
    msgspec.defstruct("Envelope", [("data", msgspec.Raw, msgspec.Raw(b"")), ("data_base64", msgspec.Raw, msgspec.Raw(b""))])
)
_VALUE: Final[Any] = msgspec.json.Decoder(msgspec.Raw)
_ENCODER: Final[Any] = msgspec.json.Encoder()
"""Makes a JSON string of base64 of bytes, in one pass."""


def _skip(data: bytes, at: int) -> int:
    found = _SPACE.match(data, at)
    return at if found is None else found.end()


def _scalar_end(data: bytes, at: int) -> int:
    """End of the string, number or literal that begins at `at`. It is not validated."""
    found = _STRING.match(data, at) if data[at : at + 1] == b'"' else _SCALAR.match(data, at)
    if found is None:
        raise CloudEventError("", f"no JSON value at byte {at}")
    return found.end()


def _value_end(data: bytes, at: int, name: str, envelope: Any) -> int:
    """End of the value that begins at `at`. Only that of `data` may be long or nested, and msgspec has found it already."""
    nested = data[at : at + 1] in (b"{", b"[")
    if name not in ("data", "data_base64"):
        if nested:
            raise CloudEventError(name, f"attribute {name} must be a string, a boolean or an integer")
        return _scalar_end(data, at)
    if envelope is None:
        if nested:
            raise CloudEventError(name, f"member {name!r} is not valid JSON")
        return _scalar_end(data, at)
    raw = bytes(envelope.data if name == "data" else envelope.data_base64)
    end = at + len(raw)
    if data[at:end] != raw:
        # msgspec keeps the last of equal names, so there is another one.
        raise CloudEventError(name, f"member {name!r} is given twice")
    return end


def _envelope(text: bytes) -> Any:
    """The members `data` and `data_base64` as raw text; None when the text is not one valid JSON object."""
    try:
        return _ENVELOPE.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def members(data: bytes) -> tuple[dict[str, bytes], bool, int]:
    """Split one JSON object into its members, whose values stay undecoded.

    Returns (name -> value, whether the text is valid JSON, where the value of `data` begins; 0 without `data`).

    Raises CloudEventError for other JSON, for a duplicate name, and for an object or array that is not `data`.
    """
    at = _skip(data, 0)
    if data[at : at + 1] != b"{":
        raise CloudEventError("", "a JSON object is wanted")
    envelope = _envelope(data)
    found: dict[str, bytes] = {}
    data_at = 0
    at = _skip(data, at + 1)
    more = data[at : at + 1] != b"}"
    while more:
        quoted = _STRING.match(data, at)
        if quoted is None:
            raise CloudEventError("", f"no member name at byte {at}")
        name = str(_load("", quoted.group()))
        at = _skip(data, quoted.end())
        if data[at : at + 1] != b":":
            raise CloudEventError(name, f"no colon after member {name!r}")
        if name in found:
            raise CloudEventError(name, f"member {name!r} is given twice")
        at = _skip(data, at + 1)
        end = _value_end(data, at, name, envelope)
        raw = found[name] = data[at:end]
        if name == "data" or (name == "data_base64" and raw != b"null"):
            data_at = at
        if len(found) > MEMBERS_MAX:
            raise CloudEventError("", f"an event has at most {ATTRIBUTES_MAX} attributes", too_large=True)
        at = _skip(data, end)
        more = data[at : at + 1] == b","
        if more:
            at = _skip(data, at + 1)
        elif data[at : at + 1] != b"}":
            raise CloudEventError("", f"no comma or closing brace at byte {at}")
    if _skip(data, at + 1) != len(data):
        raise CloudEventError("", "there is more after the JSON object")
    return found, envelope is not None, data_at


def elements(data: bytes, most: int, found: list[bytes]) -> Iterator[None]:
    """Append the raw elements of one JSON array to `found`; yields where a slice of the work ends.

    Raises CloudEventError for other JSON, and for more than `most` elements.
    """
    at = _skip(data, 0)
    if data[at : at + 1] != b"[":
        raise CloudEventError("", "a JSON array is wanted")
    at = _skip(data, at + 1)
    more = data[at : at + 1] != b"]"
    tokens = 0
    while more:
        if data[at : at + 1] in (b"{", b"["):
            depth = 0
            end = -1
            for token in _NESTING.finditer(data, at):
                tokens += 1
                if tokens >= SLICE_TOKENS:
                    tokens = 0
                    yield
                kind = data[token.start()]
                if kind == 0x22:
                    continue
                depth += 1 if kind in (0x7B, 0x5B) else -1
                if depth == 0:
                    end = token.end()
                    break
            if end < 0:
                raise CloudEventError("", "the JSON text ends in the middle of a value")
        else:
            end = _scalar_end(data, at)
        found.append(data[at:end])
        if len(found) > most:
            raise CloudEventError("", f"a batch has at most {most} events", too_large=True)
        at = _skip(data, end)
        more = data[at : at + 1] == b","
        if more:
            at = _skip(data, at + 1)
        elif data[at : at + 1] != b"]":
            raise CloudEventError("", f"no comma or closing bracket at byte {at}")
    if _skip(data, at + 1) != len(data):
        raise CloudEventError("", "there is more after the JSON array")


def _load(name: str, raw: bytes) -> object:
    try:
        value: object = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise CloudEventError(name, f"member {name!r} is not valid JSON" if name else "the JSON text is not valid") from None
    return value


def _attribute(name: bytes, raw: bytes) -> bytes | None:
    """The canonical string of one attribute value; None for JSON null, which means that it is absent (JSON format, 2.2)."""
    shown = name.decode()
    value = _load(shown, raw)
    if value is None:
        return None
    if isinstance(value, str):
        encoded = value.encode()
        check_value(name, encoded)
        return encoded
    if name in TEXT_ATTRIBUTES:
        raise CloudEventError(shown, f"attribute {shown} must be a string")
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        if not -0x80000000 <= value <= 0x7FFFFFFF:
            raise CloudEventError(shown, f"attribute {shown} is outside the 32-bit integers")
        return b"%d" % value
    raise CloudEventError(shown, f"attribute {shown} must be a string, a boolean or an integer")


def _base64(found: dict[str, bytes]) -> bytes | None:
    """The characters of the member `data_base64`; None without it."""
    raw = found.get("data_base64")
    if raw is None or raw == b"null":
        return None
    if "data" in found:
        raise CloudEventError("data", "data and data_base64 must not both be there")
    if raw[:1] == b'"' and b"\\" not in raw:
        encoded = raw[1:-1]
    else:
        text = _load("data_base64", raw)
        if not isinstance(text, str):
            raise CloudEventError("data_base64", "data_base64 must be a string")
        encoded = text.encode()
    if len(encoded) % 4 or 0 <= encoded.find(b"=") < len(encoded) - 2:  # of some of these Python takes a part
        raise _not_base64()
    return encoded


def _not_base64() -> CloudEventError:
    return CloudEventError("data_base64", "data_base64 is not valid base64")


def _bytes_of(encoded: bytes) -> bytes:
    """The bytes of whole groups of 4 base64 characters."""
    try:
        return binascii.a2b_base64(encoded, strict_mode=True)
    except (binascii.Error, ValueError):
        raise _not_base64() from None


def _data(found: dict[str, bytes], content_type: bytes | None, valid: bool) -> tuple[bytes, bool]:
    """(data, True when it is JSON text) from the member `data` (JSON format, 3.1). `valid`: the text around it is."""
    raw = found.get("data")
    if raw is None:
        return b"", False
    if content_type is None or is_json_type(content_type):
        # Whether a member of a valid object is valid is known, except for the characters of its strings.
        if not (_is_text(raw) if valid else is_json(raw)):
            raise CloudEventError("data", "member 'data' is not valid JSON")
        return raw, True
    if raw == b"null":
        return b"", False
    value = _load("data", raw) if raw[:1] == b'"' else None
    if not isinstance(value, str):
        raise CloudEventError("data", "data must be a string unless datacontenttype is JSON")
    return value.encode(), False


def _attributes(found: dict[str, bytes], typed: list[bytes]) -> dict[bytes, bytes]:
    """The attributes among the members of an event, checked. Names of those that are no strings are appended to `typed`."""
    attributes: dict[bytes, bytes] = {}
    for shown, raw in found.items():
        if shown in ("data", "data_base64"):
            continue
        name = shown.encode()
        check_name(name)
        value = _attribute(name, raw)
        if value is not None:
            attributes[name] = value
            if raw[:1] != b'"':
                typed.append(name)
    if len(attributes) > ATTRIBUTES_MAX:
        raise CloudEventError("", f"an event has at most {ATTRIBUTES_MAX} attributes", too_large=True)
    check(attributes)
    return attributes


def _event(
    attributes: dict[bytes, bytes],
    typed: list[bytes],
    found: dict[str, bytes],
    decoded: bytes | None,
    valid: bool,
    data_at: int,
) -> CloudEvent:
    """The event; `decoded` is the decoded `data_base64`, None without it. `typed`: as `CloudEvent.typed`."""
    content_type = attributes.get(b"datacontenttype")
    if decoded is None:
        data, as_json = _data(found, content_type, valid)
    else:
        data, as_json = decoded, content_type is not None and is_json_type(content_type)
    if not valid:
        raise CloudEventError("", "the JSON text is not valid")
    end = data_at + len(found["data" if decoded is None else "data_base64"]) if data_at else 0
    return CloudEvent(attributes, data, as_json, data_at, end, typed)


def decode(text: bytes, older: bool = False) -> CloudEvent:
    """One JSON event -> CloudEvent. `older`: 0.3 is accepted. Raises CloudEventError."""
    found, valid, data_at = members(text)
    if older:
        upgrade_members(found)
    typed: list[bytes] = []
    attributes = _attributes(found, typed)
    encoded = _base64(found)
    return _event(attributes, typed, found, None if encoded is None else _bytes_of(encoded), valid, data_at)


def decode_in_slices(text: bytes, older: bool = False) -> Generator[None, None, CloudEvent]:
    """`decode` of a large event: yields where a slice ends, each of which is one pass over the text or a part of it."""
    found, valid, data_at = members(text)
    if older:
        upgrade_members(found)
    typed: list[bytes] = []
    attributes = _attributes(found, typed)
    yield
    encoded = _base64(found)
    decoded: bytes | None = None
    if encoded is not None:
        parts: list[bytes] = []
        for at in range(0, len(encoded), SLICE_CHARACTERS):
            yield
            parts.append(_bytes_of(encoded[at : at + SLICE_CHARACTERS]))
        yield
        decoded = b"".join(parts)
    return _event(attributes, typed, found, decoded, valid, data_at)


def decode_element(text: bytes, older: bool = False) -> CloudEvent | CloudEventError:
    """One element of a batch -> the event, or the CloudEventError with the reason. `older`: 0.3 is accepted."""
    try:
        return decode(text, older)
    except CloudEventError as error:
        return error


def encode(event: CloudEvent) -> bytes:
    """CloudEvent -> one JSON event. JSON data is copied unchanged; other data a string if it can be one, else `data_base64`.

    An Integer is a number, a Boolean `true` or `false` (JSON format 1.0.2, 2.2).
    """
    out: dict[str, object] = {name.decode(): value.decode("utf-8", "replace") for name, value in event.attributes.items()}
    if event.typed:
        out.update([(name.decode(), value) for name, value in event.scalars()])
    data = event.data
    content_type = event.attributes.get(b"datacontenttype")
    if event.is_json and is_json(data):
        out["data"] = orjson.Fragment(data)
    elif data and content_type is not None and not is_json_type(content_type) and _is_text(data):
        out["data"] = data.decode()
    elif data:
        out["data_base64"] = orjson.Fragment(_ENCODER.encode(data))
    return orjson.dumps(out)


def encode_batch(events: list[CloudEvent]) -> bytes:
    """Events -> a JSON batch."""
    return b"[" + b",".join([encode(event) for event in events]) + b"]"


def is_json(data: bytes) -> bool:
    """True for one valid JSON value in UTF-8. Builds no objects."""
    try:
        _VALUE.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return _is_text(data)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
