"""Recognition of an HTTP/2 connection by its first bytes."""

from __future__ import annotations

from typing import Final

from domain.refusal import TLS_ONLY

_SETTINGS: Final = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_GOAWAY: Final = 0x7
_INADEQUATE_SECURITY: Final = 0xC
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def begins(head: bytes) -> bool | None:
    """True for the client's connection preface (RFC 9113 section 3.4). None: more bytes are needed."""
    if not PREFACE.startswith(head):
        return False
    return True if len(head) == len(PREFACE) else None


def without_tls(_: bytes) -> bytes:
    """The answer on a port that takes TLS only: SETTINGS, and GOAWAY with INADEQUATE_SECURITY (RFC 9113 sections 6.8, 7)."""
    payload = bytes(4) + _INADEQUATE_SECURITY.to_bytes(4, "big") + TLS_ONLY.encode()
    return _SETTINGS + len(payload).to_bytes(3, "big") + bytes((_GOAWAY, 0)) + bytes(4) + payload
