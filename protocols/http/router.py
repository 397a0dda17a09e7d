"""Method and target -> handler, by the table of routes. Matches of targets are cached."""

from __future__ import annotations

from typing import Final, final

from protocols.http.handler import Handler, HandlerContext, Match, Outcome, Route
from protocols.http.path import decode, destination, split
from protocols.http.problem import RefusalError, problem
from protocols.http.request import Request
from protocols.http.response import Response

REMEMBERED_MAX: Final = 1_024
REMEMBERED_BYTES_MAX: Final = 256

_PATH: Final = "{path…}".encode()


@final
class Options(Handler):
    """OPTIONS for routes without a handler of their own for it (RFC 9110, 9.3.7)."""

    __slots__ = ()

    def start(self, request: Request, ticket: object) -> Outcome:
        """204 with Allow; with the fields of CORS for a preflight request."""
        return None, Response(204, self.options(request))


@final
class Router:
    """Finds handlers. Matches of targets without a query are cached, up to REMEMBERED_MAX.

    site      the hosts and web pages that are served
    uploads   the bound of unfinished requests
    """

    def __init__(self, context: HandlerContext) -> None:
        self._context = context
        self.site = context.site
        self.uploads = context.uploads
        self._patterns = [
            (route, [part.encode() for part in route.pattern.split("/")], _allow(route)) for route in context.routes
        ]
        self._remembered: dict[bytes, Match] = {}

    def find(self, request: Request) -> Handler:
        """The handler of a request. Raises RefusalError: 400 for a bad target, 404, 405 with Allow."""
        target = request.target
        match = self._remembered.get(target)
        if match is None:
            if target == b"*" and request.method == b"OPTIONS":
                return Options(Match(self._context, {}, b"OPTIONS"))
            match = self._match(target)
            if not match.query and len(target) <= REMEMBERED_BYTES_MAX:
                if len(self._remembered) >= REMEMBERED_MAX:
                    self._remembered.clear()
                self._remembered[target] = match
        make = match.methods.get(request.method)
        if make is None and request.method == b"HEAD":
            make = match.methods.get(b"GET")
        if make is not None:
            return make(match)
        if request.method == b"OPTIONS":
            return Options(match)
        method = request.method.decode("latin-1")
        raise RefusalError(problem(405, "method-not-allowed", f"{method} is not for this path", [(b"allow", match.allow)]))

    def _match(self, target: bytes) -> Match:
        segments, query = split(target)
        for route, parts, allow in self._patterns:
            found = _fit(parts, segments)
            if found is None:
                continue
            names, levels = found
            match = Match(self._context, route.methods, allow)
            match.query = query
            match.names = {name: decode(raw) for name, raw in names}
            if levels:
                match.topic, match.path = destination(levels)
            return match
        raise RefusalError(problem(404, "path-unknown", "nothing is served at this path"))


def _allow(route: Route) -> bytes:
    methods = set(route.methods) | {b"OPTIONS"}
    if b"GET" in methods:
        methods.add(b"HEAD")
    return b", ".join(sorted(methods))


def _fit(parts: list[bytes], segments: list[bytes]) -> tuple[list[tuple[str, bytes]], list[bytes]] | None:
    """Raw values of the named segments and raw levels of a path; None when the pattern does not match."""
    many = next((at for at, part in enumerate(parts) if part.startswith(_PATH)), -1)
    levels: list[bytes] = []
    if many >= 0:
        extra = len(segments) - len(parts)
        if extra < 0:
            return None
        levels = segments[many : many + extra + 1]
        tail = parts[many][len(_PATH) :]
        if not levels[-1].endswith(tail):
            return None
        levels[-1] = levels[-1][: len(levels[-1]) - len(tail)]
        segments = [*segments[:many], b"", *segments[many + extra + 1 :]]
    elif len(segments) != len(parts):
        return None
    names: list[tuple[str, bytes]] = []
    for at, (part, segment) in enumerate(zip(parts, segments, strict=True)):
        if at == many:
            continue
        if part[:1] != b"{":
            if part != segment:
                return None
            continue
        name, _, tail = part[1:].partition(b"}")
        if tail:
            if not segment.endswith(tail):
                return None
            names.append((name.decode(), segment[: -len(tail)]))
        else:
            names.append((name.decode(), segment))
    return names, levels
