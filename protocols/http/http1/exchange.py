"""One request and its response on an HTTP/1.1 connection; the ticket of its command."""

from __future__ import annotations

from typing import final

from protocols.http.flow import Flow
from protocols.http.handler import Handler
from protocols.http.request import Request
from protocols.http.response import Response
from protocols.http.slices import SlicedRequest


@final
class Exchange:
    """A request from its complete head to its response.

    request      None when it was refused before its head was complete, or once its command exists
    handler      None: refused, or answered
    refusal      the response of a refused request
    content_max  most bytes of content
    held         bytes of its content that its command holds
    shared       bytes of its content that count against the bound of unfinished requests
    slices       the work on it, while it is done in slices
    head_only    True: the method is HEAD, so the response has no body
    http10       True: the request is HTTP/1.0
    origin       origin of another site whose page may read the response; b"" for none
    output       the encoded response, b"" until known; it is written after the responses of earlier requests
    keep_alive   False: the connection is closed after this response
    flow         what makes the content of a response in parts; None: there is none
    feeds        True: the content of the request is passed on as it arrives
    pieces       content that was not passed on yet
    fed          True: that content is complete
    fault        the refusal of invalid content that was passed on in part
    """

    __slots__ = (
        "content_max",
        "fault",
        "fed",
        "feeds",
        "flow",
        "handler",
        "head_only",
        "held",
        "http10",
        "keep_alive",
        "origin",
        "output",
        "pieces",
        "refusal",
        "request",
        "shared",
        "slices",
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
        self.shared = 0
        self.slices: SlicedRequest | None = None
        self.origin = b""
        self.output = b""
        self.flow: Flow | None = None
        self.feeds = self.fed = False
        self.pieces: list[bytes] = []
        self.fault: Response | None = None
