"""Recognition of an HTTP/2 connection by its first bytes."""

from __future__ import annotations

from typing import Final

from domain.refusal import TLS_ONLY

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def begins(head: bytes) -> bool | None:
    """True for the client's connection preface (RFC 9113 section 3.4). None: more bytes are needed."""
    if not PREFACE.startswith(head):
        return False
    return True if len(head) == len(PREFACE) else None


def without_tls(_: bytes) -> bytes:
    """The answer to HTTP of any version on a port that takes TLS only, in HTTP/1.1.

    SETTINGS and GOAWAY would be the answer in HTTP/2, but gRPC's clients take such a connection for established: they connect
    again at once and repeat the call, without end. After other bytes they wait longer each time, and the call fails.
    """
    text = f"{TLS_ONLY}: use https, or wss for WebSocket\n".encode()
    head = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text
