"""MQTT's data types: integers, strings, variable byte integers; and the error of a malformed or illegal packet."""

from __future__ import annotations

from typing import Final

V3: Final = 3
V4: Final = 4
V5: Final = 5

VARINT_MAX: Final = 268_435_455


class PacketError(Exception):
    """A malformed packet, or one that breaks the protocol. `code` is MQTT 5's reason code (2.4), `text` the reason string.

    The decoders and handlers of this folder raise it, and the connection catches it: it never leaves the folder.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def short(data: bytes, at: int) -> int:
    """The two byte integer at `at`. PacketError 0x81 when `data` ends inside it."""
    if at + 2 > len(data):
        raise PacketError(0x81, "the packet ends inside a two byte integer")
    return data[at] << 8 | data[at + 1]


def binary(data: bytes, at: int) -> bytes:
    """The binary data at `at`, without its two byte length (1.5.6); it occupies 2 + len bytes. PacketError 0x81."""
    end = at + 2 + short(data, at)
    if end > len(data):
        raise PacketError(0x81, "a length reaches past the end of the packet")
    return data[at + 2 : end]


def text(raw: bytes) -> str:
    """The text of a UTF-8 encoded string (1.5.4). PacketError for surrogates, overlong forms and U+0000. U+FEFF is kept."""
    if 0 in raw:
        raise PacketError(0x81, "a string holds U+0000")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise PacketError(0x81, "a string is not UTF-8") from None


def varint(data: bytes, at: int) -> int:
    """The variable byte integer at `at` (1.5.5). PacketError 0x81 when incomplete or not in its shortest form.

    `varint_size` returns how many bytes it occupies.
    """
    value = 0
    for place in range(4):
        if at + place >= len(data):
            raise PacketError(0x81, "the packet ends inside a variable byte integer")
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if byte == 0 and place > 0:
                raise PacketError(0x81, "a variable byte integer is longer than it needs to be")
            return value
    raise PacketError(0x81, "a variable byte integer of more than four bytes")


def varint_size(value: int) -> int:
    """Bytes that `value`, 0 to VARINT_MAX, occupies as a variable byte integer."""
    return 1 if value < 128 else 2 if value < 16_384 else 3 if value < 2_097_152 else 4


def put_varint(value: int) -> bytes:
    """`value`, 0 to VARINT_MAX, as a variable byte integer."""
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_binary(data: bytes) -> bytes:
    """Binary data or a UTF-8 string, at most 65,535 bytes, with its length."""
    return len(data).to_bytes(2, "big") + data


def framed(first: int, body: bytes) -> bytes:
    """A whole packet: fixed header and body."""
    return bytes((first,)) + put_varint(len(body)) + body
