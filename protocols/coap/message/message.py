"""Syntax of the CoAP message over UDP (RFC 7252, section 3): header, token, options, payload.

0 version 2 bits = 1 | type 2 bits | token length 4 bits | 1 code | 2 message id 2 | token 0-8 | options | FF payload
"""

from __future__ import annotations

import struct
from typing import Final, final

CON: Final = 0
NON: Final = 1
ACK: Final = 2
RST: Final = 3

EMPTY: Final = 0x00
GET: Final = 0x01
POST: Final = 0x02
PUT: Final = 0x03
DELETE: Final = 0x04
FETCH: Final = 0x05
PATCH: Final = 0x06
IPATCH: Final = 0x07

CREATED: Final = 0x41
DELETED: Final = 0x42
VALID: Final = 0x43
CHANGED: Final = 0x44
CONTENT: Final = 0x45
CONTINUE: Final = 0x5F
BAD_REQUEST: Final = 0x80
UNAUTHORIZED: Final = 0x81
BAD_OPTION: Final = 0x82
FORBIDDEN: Final = 0x83
NOT_FOUND: Final = 0x84
METHOD_NOT_ALLOWED: Final = 0x85
NOT_ACCEPTABLE: Final = 0x86
REQUEST_INCOMPLETE: Final = 0x88
CONFLICT: Final = 0x89
PRECONDITION_FAILED: Final = 0x8C
TOO_LARGE: Final = 0x8D
UNSUPPORTED_FORMAT: Final = 0x8F
UNPROCESSABLE: Final = 0x96
TOO_MANY_REQUESTS: Final = 0x9D
INTERNAL: Final = 0xA0
NOT_IMPLEMENTED: Final = 0xA1
UNAVAILABLE: Final = 0xA3
GATEWAY_TIMEOUT: Final = 0xA4
PROXYING_NOT_SUPPORTED: Final = 0xA5

HEADER_BYTES: Final = 4
_HEAD: Final = struct.Struct(">BBH")
TOKEN_BYTES_MAX: Final = 8

Pairs = list[tuple[int, bytes]]


def name(code: int) -> str:
    """The dotted form of a code: `4.04` for 0x84."""
    return f"{code >> 5}.{code & 31:02d}"


@final
class Packet:
    """One decoded message.

    kind       CON, NON, ACK or RST
    token      0 to 8 bytes
    options    (number, value) pairs, numbers ascending; a repeated option has a pair for each value
    payload    b"" for none
    """

    __slots__ = ("code", "kind", "mid", "options", "payload", "token")

    def __init__(self, kind: int, code: int, mid: int, token: bytes, options: Pairs, payload: bytes) -> None:
        self.kind = kind
        self.code = code
        self.mid = mid
        self.token = token
        self.options = options
        self.payload = payload


def split(data: bytes, at: int) -> tuple[Pairs, int] | None:
    """Decode the options from `at` on -> (pairs, index of their end: the payload marker or the end of `data`).

    None for a format error: the reserved nibble 15, an incomplete value or extension, a number above 65,535 (section 3.1).
    """
    pairs: Pairs = []
    size = len(data)
    option = 0
    while at < size:
        head = data[at]
        if head == 0xFF:
            return pairs, at
        at += 1
        delta = head >> 4
        length = head & 15
        if delta == 15 or length == 15:
            return None
        if delta == 13:
            if at >= size:
                return None
            delta = 13 + data[at]
            at += 1
        elif delta == 14:
            if at + 1 >= size:
                return None
            delta = 269 + (data[at] << 8 | data[at + 1])
            at += 2
        if length == 13:
            if at >= size:
                return None
            length = 13 + data[at]
            at += 1
        elif length == 14:
            if at + 1 >= size:
                return None
            length = 269 + (data[at] << 8 | data[at + 1])
            at += 2
        option += delta
        end = at + length
        if end > size or option > 65_535:
            return None
        pairs.append((option, data[at:end]))
        at = end
    return pairs, at


def decode(data: bytes) -> Packet | None:
    """One datagram -> Packet, or None for a format error (sections 3 and 4.1).

    Format errors: too short, version other than 1, token length 9 to 15, malformed options, a payload marker without payload,
    an Empty message with a token, options or payload.
    """
    size = len(data)
    if size < 4 or data[0] >> 6 != 1:
        return None
    start = 4 + (data[0] & 15)
    if start > 12 or start > size:
        return None
    code = data[1]
    if code == 0 and size != 4:
        return None
    found = split(data, start)
    if found is None:
        return None
    pairs, at = found
    if at == size - 1:
        return None
    return Packet(data[0] >> 4 & 3, code, data[2] << 8 | data[3], data[4:start], pairs, data[at + 1 :])


def option(previous: int, number: int, value: bytes) -> bytes:
    """Encode one option that follows an option with number `previous` (section 3.1)."""
    delta = number - previous
    length = len(value)
    head = 0
    extension = b""
    if delta < 13:
        head = delta << 4
    elif delta < 269:
        head = 13 << 4
        extension = bytes((delta - 13,))
    else:
        head = 14 << 4
        extension = (delta - 269).to_bytes(2, "big")
    if length < 13:
        head |= length
    elif length < 269:
        head |= 13
        extension += bytes((length - 13,))
    else:
        head |= 14
        extension += (length - 269).to_bytes(2, "big")
    return bytes((head,)) + extension + value


def join(pairs: Pairs) -> bytes:
    """Encode options, sorted by number; options with the same number keep their order."""
    out: list[bytes] = []
    previous = 0
    for number, value in sorted(pairs, key=_number):
        out.append(option(previous, number, value))
        previous = number
    return b"".join(out)


def _number(pair: tuple[int, bytes]) -> int:
    return pair[0]


def encode(kind: int, code: int, mid: int, token: bytes, options: bytes, payload: bytes) -> bytes:
    """Encode a message. `options` is the result of `join`; the token has at most 8 bytes."""
    head = _HEAD.pack(0x40 | kind << 4 | len(token), code, mid)
    if payload:
        return b"".join((head, token, options, b"\xff", payload))
    return head + token + options


def empty(kind: int, mid: int) -> bytes:
    """Encode an Empty message: an acknowledgement, a reset or a ping."""
    return bytes((0x40 | kind << 4, 0, mid >> 8, mid & 255))


def uint(value: int) -> bytes:
    """Encode a number as an option value: big-endian, no leading zero byte, b"" for 0 (section 3.2)."""
    return value.to_bytes((value.bit_length() + 7) // 8, "big")
