"""Recognition of an HTTP/1.1 connection by its first bytes."""

from __future__ import annotations

from typing import Final

METHOD_BYTES_MAX: Final = 23
_TOKEN: Final = frozenset(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def begins(head: bytes) -> bool | None:
    """True for a method and a space (RFC 9112 section 3): a token of at most 23 bytes. None: more bytes are needed."""
    for index, byte in enumerate(head):
        if byte == 0x20:
            return index > 0
        if byte not in _TOKEN:
            return False
    return None if len(head) <= METHOD_BYTES_MAX else False
