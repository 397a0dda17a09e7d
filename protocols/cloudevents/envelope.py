"""The JSON text of an event in structured mode, kept without its data: MQTT has to forward a payload unaltered.

A message holds the data of an event as its body, so that an event is the same message whichever way it came. The property
HG_ENVELOPE keeps the text around the data: `<form><offset of the data> <content type>` U+000A `<text without the data>`. Form
`j`: the data is the body; `b`: the body in base64; `s`: the body as a JSON string; `n`: there is none; `-`: the text could not
be kept, and the event is encoded anew.
"""

from __future__ import annotations

import binascii
import contextlib
import re
from typing import Final

import orjson

from domain import property as properties
from protocols.cloudevents import json
from protocols.cloudevents.event import CloudEvent
from protocols.cloudevents.http import STRUCTURED_JSON

ENVELOPE_BYTES_MAX: Final = 8 * 1024
"""Bytes of a text that is kept."""

_KEPT = re.compile(rb"([jbsn-])(\d{1,8}) ([^\n]*)\n(.*)", re.DOTALL)


def stored_form(text: bytes, event: CloudEvent, content_type: str) -> bytes:
    """The property HG_ENVELOPE of a valid event. `content_type`: as its sender gave it, "" for none."""
    kind = content_type.replace("\n", "").encode()
    form, at, rest = b"-", 0, b""
    for name, data in _renderings(event.data):
        at = text.rfind(data)
        if at >= 0:
            form, rest = name, text[:at] + text[at + len(data) :]
            break
    if len(rest) > ENVELOPE_BYTES_MAX or b"\x01" in rest or b"\x02" in rest:
        form, at, rest = b"-", 0, b""
    return properties.HG_ENVELOPE_START + form + b"%d " % at + kind + b"\n" + rest + b"\x02"


def structured(stored: bytes, event: CloudEvent) -> tuple[str, bytes]:
    """(content type, text) of an event in structured mode: as it was sent, or encoded anew."""
    kept = _KEPT.fullmatch(properties.find(stored, properties.HG_ENVELOPE_START))
    if kept is None:
        return STRUCTURED_JSON.decode(), json.encode(event)
    form, at, rest = kept.group(1), int(kept.group(2)), kept.group(4)
    kind = kept.group(3).decode("utf-8", "replace") or STRUCTURED_JSON.decode()
    if form == b"-":
        return kind, json.encode(event)
    data = dict(_renderings(event.data)).get(form, b"")
    return kind, rest[:at] + data + rest[at:]


def _renderings(data: bytes) -> list[tuple[bytes, bytes]]:
    """The texts that data can have in an envelope, by form."""
    if not data:
        return [(b"n", b"")]
    out = [(b"j", data), (b"b", binascii.b2a_base64(data, newline=False))]
    with contextlib.suppress(UnicodeDecodeError):
        out.append((b"s", orjson.dumps(data.decode())))
    return out
