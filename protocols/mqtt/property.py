"""MQTT 5 properties (2.2.2): a table of their types and of the packets that may carry them, a decoder, an encoder."""

from __future__ import annotations

from typing import Final

from protocols.mqtt.wire import PacketError, binary, put_binary, put_varint, text, varint, varint_size

PAYLOAD_FORMAT: Final = 0x01
MESSAGE_EXPIRY: Final = 0x02
CONTENT_TYPE: Final = 0x03
RESPONSE_TOPIC: Final = 0x08
CORRELATION_DATA: Final = 0x09
SUBSCRIPTION_ID: Final = 0x0B
SESSION_EXPIRY: Final = 0x11
ASSIGNED_CLIENT_ID: Final = 0x12
SERVER_KEEP_ALIVE: Final = 0x13
AUTH_METHOD: Final = 0x15
AUTH_DATA: Final = 0x16
REQUEST_PROBLEM: Final = 0x17
WILL_DELAY: Final = 0x18
REQUEST_RESPONSE: Final = 0x19
RESPONSE_INFORMATION: Final = 0x1A
SERVER_REFERENCE: Final = 0x1C
REASON_STRING: Final = 0x1F
RECEIVE_MAXIMUM: Final = 0x21
TOPIC_ALIAS_MAXIMUM: Final = 0x22
TOPIC_ALIAS: Final = 0x23
MAXIMUM_QOS: Final = 0x24
RETAIN_AVAILABLE: Final = 0x25
USER_PROPERTY: Final = 0x26
MAXIMUM_PACKET_SIZE: Final = 0x27
WILDCARD_AVAILABLE: Final = 0x28
SUBSCRIPTION_ID_AVAILABLE: Final = 0x29
SHARED_AVAILABLE: Final = 0x2A

CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15
WILL: Final = 16
"""Packet types (2.1.2). As places of properties: them, and WILL for the will properties of a CONNECT."""

_FLAG, _BYTE, _TWO, _FOUR, _VAR, _TEXT, _BINARY, _PAIR = range(8)
_ACKS = (PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK)
_KINDS: Final[dict[int, tuple[int, tuple[int, ...]]]] = {
    PAYLOAD_FORMAT: (_FLAG, (PUBLISH, WILL)),
    MESSAGE_EXPIRY: (_FOUR, (PUBLISH, WILL)),
    CONTENT_TYPE: (_TEXT, (PUBLISH, WILL)),
    RESPONSE_TOPIC: (_TEXT, (PUBLISH, WILL)),
    CORRELATION_DATA: (_BINARY, (PUBLISH, WILL)),
    SUBSCRIPTION_ID: (_VAR, (PUBLISH, SUBSCRIBE)),
    SESSION_EXPIRY: (_FOUR, (CONNECT, CONNACK, DISCONNECT)),
    ASSIGNED_CLIENT_ID: (_TEXT, (CONNACK,)),
    SERVER_KEEP_ALIVE: (_TWO, (CONNACK,)),
    AUTH_METHOD: (_TEXT, (CONNECT, CONNACK, AUTH)),
    AUTH_DATA: (_BINARY, (CONNECT, CONNACK, AUTH)),
    REQUEST_PROBLEM: (_FLAG, (CONNECT,)),
    WILL_DELAY: (_FOUR, (WILL,)),
    REQUEST_RESPONSE: (_FLAG, (CONNECT,)),
    RESPONSE_INFORMATION: (_TEXT, (CONNACK,)),
    SERVER_REFERENCE: (_TEXT, (CONNACK, DISCONNECT)),
    REASON_STRING: (_TEXT, (CONNACK, DISCONNECT, AUTH, *_ACKS)),
    RECEIVE_MAXIMUM: (_TWO, (CONNECT, CONNACK)),
    TOPIC_ALIAS_MAXIMUM: (_TWO, (CONNECT, CONNACK)),
    TOPIC_ALIAS: (_TWO, (PUBLISH,)),
    MAXIMUM_QOS: (_FLAG, (CONNACK,)),
    RETAIN_AVAILABLE: (_FLAG, (CONNACK,)),
    USER_PROPERTY: (_PAIR, (CONNECT, CONNACK, PUBLISH, WILL, SUBSCRIBE, UNSUBSCRIBE, DISCONNECT, AUTH, *_ACKS)),
    MAXIMUM_PACKET_SIZE: (_FOUR, (CONNECT, CONNACK)),
    WILDCARD_AVAILABLE: (_FLAG, (CONNACK,)),
    SUBSCRIPTION_ID_AVAILABLE: (_FLAG, (CONNACK,)),
    SHARED_AVAILABLE: (_FLAG, (CONNACK,)),
}
_NOT_ZERO: Final = frozenset({SUBSCRIPTION_ID, RECEIVE_MAXIMUM, MAXIMUM_PACKET_SIZE})


class Properties:
    """The properties of one packet, or of one will.

    numbers            integers and flags by property identifier
    texts              UTF-8 strings by property identifier
    blobs              binary data by property identifier
    user               user properties in order, repeats kept
    subscription_ids   subscription identifiers in order
    """

    __slots__ = ("blobs", "numbers", "subscription_ids", "texts", "user")

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.texts: dict[int, str] = {}
        self.blobs: dict[int, bytes] = {}
        self.user: list[tuple[str, str]] = []
        self.subscription_ids: list[int] = []

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Properties):
            return False
        return (
            self.numbers == other.numbers
            and self.texts == other.texts
            and self.blobs == other.blobs
            and self.user == other.user
            and self.subscription_ids == other.subscription_ids
        )

    def __hash__(self) -> int:
        return hash(tuple(self.user))

    def number(self, name: int, absent: int) -> int:
        """An integer property, or `absent`."""
        return self.numbers.get(name, absent)


NONE: Final = Properties()
"""The properties of a packet without properties. Shared: never to be changed."""


def size_at(data: bytes, at: int) -> int:
    """Bytes of the property section at `at`, its length field included. PacketError 0x81 when `data` ends inside it."""
    length = varint(data, at)
    total = varint_size(length) + length
    if at + total > len(data):
        raise PacketError(0x81, "the property length reaches past the end of the packet")
    return total


def decode(data: bytes, at: int, where: int) -> Properties:
    """The property section at `at` of a packet of type `where`; `size_at` gives its size.

    PacketError 0x81 for malformed bytes, 0x82 for a property that does not belong there, comes twice, or is out of range.
    """
    length = varint(data, at)
    if length == 0:
        return NONE
    at += varint_size(length)
    end = at + length
    if end > len(data):
        raise PacketError(0x81, "the property length reaches past the end of the packet")
    section = data[:end]
    out = Properties()
    while at < end:
        name = varint(section, at)
        at += varint_size(name)
        known = _KINDS.get(name)
        if known is None:
            raise PacketError(0x81, f"there is no property {name:#04x}")
        kind, places = known
        if where not in places:
            raise PacketError(0x82, f"property {name:#04x} does not belong in this packet")
        at = _value(section, at, name, kind, where, out)
    return out


def _value(section: bytes, at: int, name: int, kind: int, where: int, out: Properties) -> int:
    """Read one value into `out`. Returns where the next property begins."""
    if kind == _PAIR:
        key = binary(section, at)
        at += 2 + len(key)
        value = binary(section, at)
        out.user.append((text(key), text(value)))
        return at + 2 + len(value)
    if kind in (_TEXT, _BINARY):
        raw = binary(section, at)
        if name in out.texts or name in out.blobs:
            raise PacketError(0x82, f"property {name:#04x} comes twice")
        if kind == _TEXT:
            out.texts[name] = text(raw)
        else:
            out.blobs[name] = raw
        return at + 2 + len(raw)
    number, size = _number(section, at, kind)
    if (kind == _FLAG and number > 1) or (number == 0 and name in _NOT_ZERO):
        raise PacketError(0x82, f"property {name:#04x} cannot be {number}")
    if name == SUBSCRIPTION_ID:
        if where == SUBSCRIBE and out.subscription_ids:
            raise PacketError(0x82, "two subscription identifiers in one SUBSCRIBE")
        out.subscription_ids.append(number)
    elif name in out.numbers:
        raise PacketError(0x82, f"property {name:#04x} comes twice")
    else:
        out.numbers[name] = number
    return at + size


def _number(section: bytes, at: int, kind: int) -> tuple[int, int]:
    """(integer, bytes that it occupies)."""
    if kind == _VAR:
        number = varint(section, at)
        return number, varint_size(number)
    size = 1 if kind <= _BYTE else 2 if kind == _TWO else 4
    if at + size > len(section):
        raise PacketError(0x81, "the properties end inside an integer")
    return int.from_bytes(section[at : at + size], "big"), size


def encode(properties: Properties) -> bytes:
    """A property section, its length first."""
    out: list[bytes] = []
    for name, number in properties.numbers.items():
        kind = _KINDS[name][0]
        out.append(bytes((name,)) + number.to_bytes(1 if kind <= _BYTE else 2 if kind == _TWO else 4, "big"))
    for name, value in properties.texts.items():
        out.append(bytes((name,)) + put_binary(value.encode()))
    for name, blob in properties.blobs.items():
        out.append(bytes((name,)) + put_binary(blob))
    for number in properties.subscription_ids:
        out.append(b"\x0b" + put_varint(number))
    for key, value in properties.user:
        out.append(b"\x26" + put_binary(key.encode()) + put_binary(value.encode()))
    body = b"".join(out)
    return put_varint(len(body)) + body
