"""The end of a ClientHello in a stream, by its heads (RFC 8446, 4.1.2 and 5.1): a server need not begin before it is there."""

from __future__ import annotations

from typing import Final

HELLO_BYTES_MAX: Final = 64 * 1024
"""Bytes of the records of a ClientHello at most. OpenSSL takes 131,396; with keys of post-quantum groups it has some 2,000."""
RECORDS_MAX: Final = 64
"""Records that are looked at, for each piece that comes. Clients send one; a ClientHello in more is left to TLS itself."""
_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_RECORD_HEAD: Final = 5
"""Bytes of a record's head: type 1 | version 2 | length 2."""
_FRAGMENT_BYTES_MAX: Final = 1 << 14
_MESSAGE_HEAD: Final = 4
"""Bytes of a message's head: type 1 | length 3. It may be parted among records, and so may the message."""


def is_whole(data: bytes | bytearray) -> bool:
    """True when `data` begins with all records of a ClientHello, or with anything else, for TLS itself to refuse."""
    at, head, message = 0, b"", 0
    for _ in range(RECORDS_MAX):
        if len(data) < at + _RECORD_HEAD:
            return False
        if data[at] != _HANDSHAKE:
            return True
        begin = at + _RECORD_HEAD
        at = begin + (data[at + 3] << 8 | data[at + 4])
        if not begin < at <= begin + _FRAGMENT_BYTES_MAX:
            return True
        if len(head) < _MESSAGE_HEAD:
            head += data[begin : min(at, begin + _MESSAGE_HEAD - len(head))]
        if head and head[0] != _CLIENT_HELLO:
            return True
        message += at - begin
        if len(head) == _MESSAGE_HEAD and message >= _MESSAGE_HEAD + int.from_bytes(head[1:], "big"):
            return len(data) >= at
    return True
