"""Recognition of a WebSocket by the first bytes of a connection: a request for a path that a WebSocket is served at."""

from __future__ import annotations

from collections.abc import Sequence

from protocols.declaration import Rule


def begins_carrying(paths: Sequence[str]) -> Rule:
    """The rule that matches `GET`, one of `paths`, and a space or a question mark; other requests are left to HTTP.

    A path may have at most 19 bytes: the rule has to decide within the bytes that recognition reads.
    """
    requests = [b"GET " + path.encode() for path in paths]

    def begins(head: bytes) -> bool | None:
        """True when `head` begins such a request, None while it may, False when it does not."""
        if any(head.startswith(request) and head[len(request) : len(request) + 1] in (b" ", b"?") for request in requests):
            return True
        return None if any(len(head) <= len(request) and request.startswith(head) for request in requests) else False

    return begins
