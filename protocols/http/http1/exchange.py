"""One request and its response on an HTTP/1.1 connection; the ticket of its command."""

from __future__ import annotations

from typing import final

from protocols.http.flow import Flow
from protocols.http.request import Request
from protocols.http.request_run import RequestRun
from protocols.http.response import Response


@final
class Exchange(RequestRun):
    """A request and its place in the order of its connection.

    output       the encoded response, b"" until known; it is written after the responses of earlier requests
    keep_alive   False: the connection is closed after this response
    flow         makes the content of a response in parts; None: the response is whole
    pieces       content that was not passed on yet
    fed          True: that content is complete
    fault        the refusal of invalid content that was passed on in part
    """

    __slots__ = ("fault", "fed", "flow", "http10", "keep_alive", "output", "pieces")

    def __init__(self, request: Request | None, keep_alive: bool, http10: bool) -> None:
        super().__init__(request)
        self.keep_alive = keep_alive
        self.http10 = http10
        self.output = b""
        self.flow: Flow | None = None
        self.fed = False
        self.pieces: list[bytes] = []
        self.fault: Response | None = None
