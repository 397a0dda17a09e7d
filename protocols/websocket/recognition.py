"""How a WebSocket begins: a request to one of the paths that it is opened at."""

from __future__ import annotations

from collections.abc import Sequence

from protocols.declaration import Rule


def begins_carrying(paths: Sequence[str]) -> Rule:
    """The rule for `GET` of these paths, each followed by a space or a question mark; any other request is HTTP's.

    A path is told apart within the bytes that recognition looks at when it has at most 19.
    """
    requests = [b"GET " + path.encode() for path in paths]

    def begins(head: bytes) -> bool | None:
        """Whether these are the first bytes of such a request."""
        if any(head.startswith(request) and head[len(request) : len(request) + 1] in (b" ", b"?") for request in requests):
            return True
        return None if any(len(head) <= len(request) and request.startswith(head) for request in requests) else False

    return begins
