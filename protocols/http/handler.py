"""What a request is carried out by, and what all of them share."""

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
"""A command and no response: the response comes from `finish`. A response: the request is done, whatever the command."""


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """What all handlers of the node share.

    wall_ms          the time, epoch milliseconds
    webhook_origins  origins that may post events after a WebHook handshake; `*` for all
    webhook_rate     requests a minute granted in a handshake; 0: no bound
    expressions      compiled filters of requests
    authority        checks credentials, None where access is not controlled
    """

    wall_ms: Callable[[], int]
    webhook_origins: tuple[str, ...] = ("*",)
    webhook_rate: int = 0
    expressions: Expressions = field(default_factory=Expressions)
    authority: Authority | None = None


@final
class Match:
    """A target that a route fits.

    names        the values of `{name}` parts, decoded
    topic, path  of a `{path…}` part: the domain topic and its `originMqttTopic`, "" when that is just the topic
    query        the raw query
    context         what handlers share
    allow        the methods of the route, as the Allow field says them
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
    """One request being carried out: made when its head is there, started when its content is, finished by the answer.

    body_max   bytes of content that it takes, as sent and as decoded; `takes` may say otherwise for one request
    long_poll      True: the answer may be a long time coming, and is of use only to a client that is still there
    repeatable      True: it may be large, and asking again does no harm once `undo` is carried out
    """

    __slots__ = ("_match", "long_poll")
    body_max: int = 0
    repeatable: bool = False

    def __init__(self, match: Match) -> None:
        self._match = match
        self.long_poll = False

    def content_limit(self, request: Request) -> int:
        """Bytes of content that this request may have. May raise RefusalError."""
        return self.body_max

    def carry_out(self, request: Request, ticket: object) -> Outcome:
        """`start`, for whoever has sent the request where access is controlled. May raise RefusalError."""
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
        """The request is complete, its content coding undone. May raise RefusalError."""

    def finish(self, event: Event) -> Response:
        """The answer to the command of `start`. Never raises. Here: what any command can be answered with."""
        if isinstance(event, Refused):
            return of_failure(event.failure)
        return problem(500, "internal", "the gateway gave an answer of another kind")

    def undo(self, event: Event, ticket: object) -> Command | None:
        """What makes good an answer that is not given; None when there is nothing to make good."""
        return None


Make = Callable[[Match], Handler]


@dataclass(frozen=True, slots=True)
class Route:
    """A pattern of segments and what its methods are carried out by.

    A part of the pattern is a word, `{name}` with a word behind it or not, or `{path…}`: one segment or more.
    """

    pattern: str
    methods: Mapping[bytes, Make] = field(default_factory=dict)
