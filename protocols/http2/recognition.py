"""How a connection of HTTP/2 begins."""

from __future__ import annotations

from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def begins(head: bytes) -> bool | None:
    """The client's connection preface (RFC 9113 section 3.4)."""
    if not PREFACE.startswith(head):
        return False
    return True if len(head) == len(PREFACE) else None
