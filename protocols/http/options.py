"""OPTIONS for routes without a handler of their own for it (RFC 9110, 9.3.7)."""

from __future__ import annotations

from typing import final

from protocols.http.handler import Handler, Outcome
from protocols.http.request import Request
from protocols.http.response import Response


@final
class Options(Handler):
    """204 with the methods of the route."""

    __slots__ = ()

    def start(self, request: Request, ticket: object) -> Outcome:
        """204 with Allow; with the fields of CORS for a preflight request."""
        return None, Response(204, self.options(request))
