"""One request and its response on an HTTP/1.1 connection: the ticket that its command carries."""

from __future__ import annotations

from typing import final

from protocols.http.handler import Handler
from protocols.http.request import Request
from protocols.http.response import Response


@final
class Exchange:
    """A request on its way through the gateway.

    content_max  bytes of content that it may have
    handler      None: refused before it was complete, `refusal` says how
    held         bytes of content that the gateway has of it
    output       the response as bytes, b"" until it is known; it waits for the responses before it
    keep_alive   False: the connection ends with this response
    linger       True: the peer may still be sending, so what comes is read and dropped for a moment after the response
    """

    __slots__ = (
        "content_max",
        "handler",
        "head_only",
        "held",
        "http10",
        "keep_alive",
        "linger",
        "output",
        "refusal",
        "request",
    )

    def __init__(self, request: Request | None, keep_alive: bool, http10: bool) -> None:
        self.request = request
        self.handler: Handler | None = None
        self.refusal: Response | None = None
        self.head_only = request is not None and request.method == b"HEAD"
        self.keep_alive = keep_alive
        self.http10 = http10
        self.content_max = 0
        self.held = 0
        self.linger = False
        self.output = b""
