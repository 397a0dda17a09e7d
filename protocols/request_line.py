"""The beginning of an HTTP/1.1 request (RFC 9112), for each reader: an empty line before it, a target in absolute-form."""

from __future__ import annotations

import re
from typing import Final

EMPTY_LINE: Final = b"\r\n"
_PATH = re.compile(rb"[/?#]")


def after_empty_line(head: bytes) -> bytes:
    """`head` without one empty line at its beginning (RFC 9112, 2.2); b"" while it may become one."""
    if head[:1] != b"\r":
        return head
    return head[2:] if head[:2] == EMPTY_LINE else head[1:] and head


def absolute(target: bytes) -> tuple[bytes, bytes] | None:
    """A target in absolute-form -> its authority, which replaces Host, and the rest in origin-form (RFC 9112, 3.2.2).

    None: another form, another scheme, no host, or user information (RFC 9110, 4.2.1 and 4.2.4).
    """
    scheme, mark, rest = target.partition(b"://")
    if not mark or scheme.lower() not in (b"http", b"https"):
        return None
    found = _PATH.search(rest)
    end = len(rest) if found is None else found.start()
    authority, path = rest[:end], rest[end:]
    if authority[:1] in (b"", b":") or b"@" in authority:
        return None
    return authority, path if path[:1] == b"/" else b"/" + path
