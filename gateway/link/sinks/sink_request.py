"""Requests to sinks as bytes of HTTP/1.1 (RFC 9112)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from domain.subscription.sink import Sink, sink

_FIELD_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
"""No CR, LF, NUL or other control character but HTAB (RFC 9110, 5.5)."""


@lru_cache(4_096)
def target_of(url: str) -> Sink:
    """The parts of a sink's URL. Raises SubscriptionError."""
    return sink(url)


@lru_cache(4_096)
def _head(method: str, url: str) -> bytes:
    """Request line, and the fields that all requests to one URL have."""
    target = target_of(url)
    host = f"[{target.host}]" if ":" in target.host else target.host
    port = "" if target.port == (443 if target.secure else 80) else f":{target.port}"
    lines = (
        f"{method} {target.target} HTTP/1.1", f"host: {host}{port}", "user-agent: headgate", "accept: */*",
        "accept-encoding: identity",
    )  # fmt: skip
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def encode(method: str, url: str, fields: Sequence[tuple[str, str]], body: bytes) -> bytes:
    """A whole request. Raises SubscriptionError for the URL, ValueError for a field whose value cannot be sent."""
    parts = [f"{name}: {value}\r\n" for name, value in fields]
    text = "".join(parts)
    if text.count("\n") != len(parts) or text.count("\r") != len(parts) or "\0" in text:
        wrong = next((name for name, value in fields if _FIELD_VALUE.fullmatch(value) is None), "?")
        raise ValueError(f"the field {wrong} has a character that no field can have")
    length = f"content-length: {len(body)}\r\n\r\n" if method == "POST" or body else "\r\n"
    return b"".join((_head(method, url), text.encode("utf-8", "replace"), length.encode(), body))
