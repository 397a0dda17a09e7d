"""Handlers of requests, the routes that make them, and the context that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import final

from domain.access import Authority
from domain.command import Command
from domain.event import Event, Refused
from domain.filter.expression import Expressions
from protocols.http.access import identify
from protocols.http.problem import of_failure, problem
from protocols.http.request import Request
from protocols.http.response import Response

Outcome = tuple[Command | None, Response | None]
"""A command without a response: `finish` makes the response. With a response: the request is answered at once."""


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """Facts of the node that handlers need.

    wall_ms          epoch milliseconds
    webhook_origins  origins that may post events after a WebHook handshake; `*` for all
    webhook_rate     requests a minute granted in a handshake; 0: no bound
    expressions      compiled filters of requests
    authority        verifies credentials; None without access control
    """

    wall_ms: Callable[[], int]
    webhook_origins: tuple[str, ...] = ("*",)
    webhook_rate: int = 0
    expressions: Expressions = field(default_factory=Expressions)
    authority: Authority | None = None


@final
class Match:
    """A target that a route matches.

    methods   the handlers of the route, by method
    names     decoded values of the `{name}` parts
    topic     domain topic of a `{path…}` part
    path      `originMqttTopic` of a `{path…}` part; "" when it equals the topic
    query     the raw query
    context   facts of the node
    allow     value of the Allow field: the methods of the route
    """

    __slots__ = ("allow", "context", "methods", "names", "path", "query", "topic")

    def __init__(self, context: HandlerContext, methods: Mapping[bytes, Make], allow: bytes) -> None:
        self.context = context
        self.methods = methods
        self.allow = allow
        self.names: dict[str, str] = {}
        self.topic = ""
        self.path = ""
        self.query = b""


class Handler(ABC):
    """Handles one request: made with its head, started with its content, finished with the event of its command.

    body_max     most bytes of content, as sent and as decoded; `content_limit` may differ for one request
    long_poll    True: the answer may take long, and is discarded when the client hangs up
    repeatable   True: the response may be large, and the client can repeat the request after `undo`
    """

    __slots__ = ("_match", "long_poll")
    body_max: int = 0
    repeatable: bool = False

    def __init__(self, match: Match) -> None:
        self._match = match
        self.long_poll = False

    def content_limit(self, request: Request) -> int:
        """Most bytes of content of this request. May raise RefusalError."""
        return self.body_max

    def carry_out(self, request: Request, ticket: object) -> Outcome:
        """Authenticate the request where access is controlled, then `start`. May raise RefusalError."""
        authority = self._match.context.authority
        if authority is None or request.method == b"OPTIONS":
            return self.start(request, ticket)
        principal = identify(authority, request)
        command, response = self.start(request, ticket)
        if command is not None:
            command.principal = principal
        return command, response

    @abstractmethod
    def start(self, request: Request, ticket: object) -> Outcome:
        """Handle a complete request whose content is decoded. May raise RefusalError."""

    def finish(self, event: Event) -> Response:
        """The response to the event of the command. Never raises. Here: Refused; subclasses handle their events."""
        if isinstance(event, Refused):
            return of_failure(event.failure)
        return problem(500, "internal", "the gateway gave an answer of another kind")

    def undo(self, event: Event, ticket: object) -> Command | None:
        """The command that undoes the effect of an answer that is not sent; None when there is none."""
        return None


Make = Callable[[Match], Handler]


@dataclass(frozen=True, slots=True)
class Route:
    """A pattern of segments, and the handlers of its methods.

    A part of the pattern is a word; `{name}`, with or without a word after it; or `{path…}`, which matches one segment or more.
    """

    pattern: str
    methods: Mapping[bytes, Make] = field(default_factory=dict)
