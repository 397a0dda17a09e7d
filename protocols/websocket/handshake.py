"""The head of an opening handshake (RFC 6455, 4.1; RFC 9112): bounds and syntax that are checked before it is parsed."""

from __future__ import annotations

import re
from typing import Final

from protocols.websocket_frame import is_key

HEAD_BYTES_MAX: Final = 16 * 1024
FIELDS_MAX: Final = 100
HEAD_END: Final = b"\r\n\r\n"

_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n)")


def head_fault(head: bytes) -> int:
    """The status with which a complete head is refused, 0 when it may be parsed.

    431: more than FIELDS_MAX fields. 400: bare CR or LF, another version than HTTP/1.1, a key that is not 16 bytes in base64.
    """
    if _BARE.search(head) is not None:
        return 400
    lines = head[: -len(HEAD_END)].split(b"\r\n")
    if len(lines) > FIELDS_MAX + 1:
        return 431
    if not lines[0].endswith(b" HTTP/1.1"):
        return 400
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"sec-websocket-key" and not is_key(value.strip()):
            return 400
    return 0


def refusal(status: int) -> bytes:
    """A whole response."""
    reason = {400: "Bad Request", 431: "Request Header Fields Too Large"}[status]
    body = b"WebSocket is spoken here (RFC 6455), version 13\n"
    head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body
