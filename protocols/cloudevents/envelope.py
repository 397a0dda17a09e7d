"""The text of an event in structured mode, kept without its data: MQTT has to forward a payload unaltered.

A message holds the data of an event as its body, so that an event is the same message whichever way it came. The property
HG_ENVELOPE keeps the text around the data: `<form><offset of the data> <content type>` U+000A `<text without the data>`. Form
`j`: the data is the body; `b`: the body in base64; `s`: the body as a JSON string; `n`: there is none; `-`: the text could not
be kept, and the event is encoded again. Of a binary event format the text without the data is in base64: form `J` is then as
`j`, and `N` as `n`.
"""

from __future__ import annotations

import binascii
import contextlib
import re
from typing import Final

import orjson

from domain.message import property as properties
from protocols.cloudevents import formats, json
from protocols.cloudevents.event import CloudEvent
from protocols.cloudevents.http import MODES, STRUCTURED, STRUCTURED_JSON

ENVELOPE_BYTES_MAX: Final = 8 * 1024
"""Bytes of a text that is kept."""

_KEPT = re.compile(rb"([jbsnJN-])(\d{1,8}) ([^\n]*)\n(.*)", re.DOTALL)


def stored_form(text: bytes, event: CloudEvent, content_type: str) -> bytes:
    """The property HG_ENVELOPE of a valid event. `content_type`: as its sender gave it, "" for none.

    Nothing is searched for in JSON: a search from the right of data that nearly repeats itself takes the square of its length.
    """
    kind = content_type.replace("\n", "").encode()
    if not _is_json(kind):
        return _binary_form(text, event.data, kind)
    form, at, end = _place(text, event)
    rest = b""
    if form != b"-" and len(text) - (end - at) <= ENVELOPE_BYTES_MAX:
        rest = text[:at] + text[end:]
    if not rest or b"\x01" in rest or b"\x02" in rest:
        form, at, rest = b"-", 0, b""
    return properties.HG_ENVELOPE_START + form + b"%d " % at + kind + b"\n" + rest + b"\x02"


def _is_json(kind: bytes) -> bool:
    """True for a content type of the JSON format, and for none."""
    return not kind or MODES.get(_bare(kind), STRUCTURED) == STRUCTURED


def _bare(kind: bytes) -> bytes:
    return kind.partition(b";")[0].strip().lower()


def _binary_form(text: bytes, data: bytes, kind: bytes) -> bytes:
    """The property of an event in a binary format. The data may be taken for any bytes of the text that are equal to it."""
    form, at = b"N", 0
    if data:
        form, at = b"J", text.find(data)
    rest = text[:at] + text[at + len(data) :]
    if at < 0 or len(rest) > ENVELOPE_BYTES_MAX:
        form, at, rest = b"-", 0, b""
    return properties.HG_ENVELOPE_START + form + b"%d " % at + kind + b"\n" + binascii.b2a_base64(rest, newline=False) + b"\x02"


def structured(stored: bytes, event: CloudEvent, typed: bool = True) -> tuple[str, bytes]:
    """(content type, text) of an event in structured mode: as it was sent, or encoded again.

    `typed`: False for readers that do not get the content type, and can only expect JSON.
    """
    kept = _KEPT.fullmatch(properties.find(stored, properties.HG_ENVELOPE_START))
    if kept is None:
        return STRUCTURED_JSON.decode(), json.encode(event)
    form, at, rest = kept.group(1), int(kept.group(2)), kept.group(4)
    kind = kept.group(3).decode("utf-8", "replace") or STRUCTURED_JSON.decode()
    if not typed and not _is_json(kind.encode()):
        return STRUCTURED_JSON.decode(), json.encode(event)
    if form == b"-":
        return kind, formats.encode(_bare(kind.encode()), event)
    if form in (b"J", b"N"):
        try:
            rest = binascii.a2b_base64(rest)
        except binascii.Error:  # of a client that has set the property itself
            return kind, formats.encode(_bare(kind.encode()), event)
        return kind, rest[:at] + (event.data if form == b"J" else b"") + rest[at:]
    return kind, b"".join((rest[:at], _rendered(form, event.data), rest[at:]))


def _place(text: bytes, event: CloudEvent) -> tuple[bytes, int, int]:
    """(form of the data in a text, where it begins and ends there); form `-`: it can be made from the data by no form."""
    at, end, data = event.data_at, event.data_end, event.data
    if not data:
        return b"n", 0, 0
    if end - at == len(data) and text.startswith(data, at):
        return b"j", at, end
    if text[at : at + 1] == b'"':
        inside = end - at - 2
        if inside == len(data) and text.startswith(data, at + 1):
            return b"j", at + 1, end - 1
        if inside == (len(data) + 2) // 3 * 4 and text.startswith(_rendered(b"b", data), at + 1):
            return b"b", at + 1, end - 1
        if text[at:end] == _rendered(b"s", data):
            return b"s", at, end
    return b"-", 0, 0


def _rendered(form: bytes, data: bytes) -> bytes:
    """The text that data has in an envelope; b"" when it has none in that form."""
    if form == b"j":
        return data
    if form == b"b":
        return binascii.b2a_base64(data, newline=False)
    if form == b"s":
        with contextlib.suppress(UnicodeDecodeError):
            return orjson.dumps(data.decode())
    return b""
