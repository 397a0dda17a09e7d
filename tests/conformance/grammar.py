"""A second, independent parser of MQTT's syntax to check the first one: does a client's byte stream have a malformed packet?

It knows nothing of `protocols/`, says only yes, no or not yet, and looks at one packet at a time (3.1.1 and 5.0, 2 and 3).
"""

from __future__ import annotations

from typing import Final

INCOMPLETE: Final = -1
MALFORMED: Final = -2

_CONNECT, _PUBLISH, _SUBSCRIBE, _UNSUBSCRIBE, _DISCONNECT, _AUTH, _WILL = 1, 3, 8, 10, 14, 15, 16
_ACKS: Final = (4, 5, 6, 7)
_SIZES: Final = {"byte": 1, "two": 2, "four": 4}
_PROPERTIES: Final[dict[int, tuple[str, tuple[int, ...]]]] = {
    0x01: ("byte", (_PUBLISH, _WILL)), 0x02: ("four", (_PUBLISH, _WILL)), 0x03: ("text", (_PUBLISH, _WILL)),
    0x08: ("text", (_PUBLISH, _WILL)), 0x09: ("data", (_PUBLISH, _WILL)), 0x0B: ("var", (_SUBSCRIBE,)),
    0x11: ("four", (_CONNECT, _DISCONNECT)), 0x15: ("text", (_CONNECT, _AUTH)), 0x16: ("data", (_CONNECT, _AUTH)),
    0x17: ("byte", (_CONNECT,)), 0x18: ("four", (_WILL,)), 0x19: ("byte", (_CONNECT,)),
    0x1F: ("text", (*_ACKS, _DISCONNECT, _AUTH)), 0x21: ("two", (_CONNECT,)), 0x22: ("two", (_CONNECT,)),
    0x23: ("two", (_PUBLISH,)), 0x26: ("pair", (1, 3, 8, 10, 14, 15, 16, *_ACKS)), 0x27: ("four", (_CONNECT,)),
}  # fmt: skip
"""What a client may send, by packet."""
_CODES: Final = {
    4: {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}, 5: {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    6: {0x00, 0x92}, 7: {0x00, 0x92},
    14: {0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x99}, 15: {0x18, 0x19},
}  # fmt: skip


class BadError(Exception):
    """The packet is malformed."""


class Reader:
    """A packet's bytes, read from the left."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        if size > self.left():
            raise BadError
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def blob(self) -> bytes:
        return self.take(self.number(2))

    def text(self) -> str:
        try:
            text = self.blob().decode()
        except UnicodeDecodeError:
            raise BadError from None
        if "\0" in text:
            raise BadError
        return text

    def var(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 127) << shift
            if byte < 128:
                if shift and not byte:
                    raise BadError
                return value
            shift += 7
            if shift > 21:
                raise BadError


def packet(data: bytes, version: int) -> tuple[int, int]:
    """(size of the first packet, version from then on); size INCOMPLETE or MALFORMED. `version` 0: CONNECT is due."""
    if not version and data and data[0] != 0x10:
        return MALFORMED, version
    if len(data) < 2:
        return INCOMPLETE, version
    size = 0
    for place in range(4):
        if 1 + place >= len(data):
            return INCOMPLETE, version
        byte = data[1 + place]
        size |= (byte & 127) << 7 * place
        if byte < 128:
            if place and not byte:
                return MALFORMED, version
            break
    else:
        return MALFORMED, version
    whole = 2 + place + size
    if whole > len(data):
        return INCOMPLETE, version
    try:
        version = _judge(data[0], Reader(data[2 + place : whole]), version)
    except BadError:
        return MALFORMED, version
    return whole, version


def _judge(first: int, body: Reader, version: int) -> int:
    kind, flags = first >> 4, first & 15
    if (kind == _CONNECT) is not (version == 0):
        raise BadError
    if kind == _PUBLISH:
        _publish(flags, body, version)
        return version
    if flags != (2 if kind in (6, 8, 10) else 0) or kind in (0, 2, 9, 11, 13) or (kind == 15 and version < 5):
        raise BadError
    if kind == _CONNECT:
        return _connect(body)
    if kind in (_SUBSCRIBE, _UNSUBSCRIBE):
        _filters(kind, body, version)
    elif kind in _ACKS:
        if not body.number(2):
            raise BadError
        _reason(kind, body, version)
    elif kind in (_DISCONNECT, _AUTH):
        _reason(kind, body, version)
    if body.left():
        raise BadError
    return version


def _reason(kind: int, body: Reader, version: int) -> None:
    if version == 5 and body.left():
        if body.number(1) not in _CODES[kind]:
            raise BadError
        if body.left():
            _properties(kind, body)
    elif kind == _AUTH:
        raise BadError


def _connect(body: Reader) -> int:
    name, version = body.blob(), body.number(1)
    if version in (0x83, 0x84):  # of a bridge: mosquitto, `try_private`
        version -= 0x80
    if (name, version) not in ((b"MQTT", 4), (b"MQTT", 5), (b"MQIsdp", 3)):
        raise BadError
    flags = body.number(1)
    body.number(2)
    if flags & 1 and version != 3:
        raise BadError
    if flags & 0x18 == 0x18 or (not flags & 4 and flags & 0x38) or (version == 4 and flags & 0xC0 == 0x40):
        raise BadError
    if version == 5:
        _properties(_CONNECT, body)
    body.text()
    if flags & 4:
        if version == 5:
            _properties(_WILL, body)
        body.text()
        body.blob()
    if flags & 0x80:
        body.text()
    if flags & 0x40:
        body.blob()
    if body.left():
        raise BadError
    return version


def _publish(flags: int, body: Reader, version: int) -> None:
    qos = flags >> 1 & 3
    topic = body.text()
    if qos == 3 or (qos == 0 and flags & 8) or "+" in topic or "#" in topic:
        raise BadError
    if qos and not body.number(2):
        raise BadError
    if version != 5:
        if not topic:
            raise BadError
        return
    given = _properties(_PUBLISH, body)
    if (not topic and 0x23 not in given) or "+" in given.get(0x08, "") or "#" in given.get(0x08, ""):
        raise BadError


def _filters(kind: int, body: Reader, version: int) -> None:
    if not body.number(2):
        raise BadError
    if version == 5:
        _properties(kind, body)
    if not body.left():
        raise BadError
    while body.left():
        name = body.text()
        if kind == _SUBSCRIBE:
            options = body.number(1)
            if options & 3 == 3 or options & (0xC0 if version == 5 else 0xFC) or options & 0x30 == 0x30:
                raise BadError
            if options & 4 and name.startswith("$share/"):
                raise BadError


def _properties(where: int, body: Reader) -> dict[int, str]:
    section = Reader(body.take(body.var()))
    given: dict[int, str] = {}
    while section.left():
        name = section.var()
        kind, places = _PROPERTIES.get(name, ("", ()))
        if where not in places or (name in given and kind != "pair"):
            raise BadError
        given[name] = ""
        if kind == "text":
            given[name] = section.text()
        elif kind == "data":
            section.blob()
        elif kind == "pair":
            section.text()
            section.text()
        else:
            value = section.var() if kind == "var" else section.number(_SIZES[kind])
            if (kind == "byte" and value > 1) or (not value and name in (0x0B, 0x21, 0x27, 0x23)):
                raise BadError
    if where == _CONNECT and 0x16 in given and 0x15 not in given:
        raise BadError
    return given
