"""Recognition of an HTTP/2 connection by its first bytes."""

from __future__ import annotations

from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def begins(head: bytes) -> bool | None:
    """True for the client's connection preface (RFC 9113 section 3.4). None: more bytes are needed."""
    if not PREFACE.startswith(head):
        return False
    return True if len(head) == len(PREFACE) else None
