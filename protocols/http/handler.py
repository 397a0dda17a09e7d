"""Handlers of requests, the routes that make them, and the context that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

from domain.access.access import Authority
from domain.access.principal import Principal
from domain.command import Command
from domain.event import Done, Event, Refused
from domain.filter.expression import Expressions
from domain.subscription.sink import Network
from protocols.adapter import ignore_refusal
from protocols.cloudevents.routes import EventRoutes
from protocols.host_shares import HostShare, HostShares
from protocols.http.access import identify
from protocols.http.documents import Documents
from protocols.http.problem import of_failure, problem
from protocols.http.request import Request, inflate, is_compressed
from protocols.http.response import Fields, Response
from protocols.http.site import Site
from protocols.setting import ignore_grant

Outcome = tuple[Command | None, Response | None]
"""A command without a response: `finish` makes the response. With a response: the request is answered at once."""
Steps = Generator[Command | None, None, Response | None]
"""The work on one request: yields a command or None where a slice ends; returns the response, None when an event makes it."""


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """Facts of the node that handlers need.

    webhook_origins  origins that may post events after a WebHook handshake; `*` for all
    webhook_rate     requests a minute granted in a handshake; 0: no bound
    authority        verifies credentials; None without access control
    uploads          bounds the bytes of unfinished requests
    cloudevents_03   True: events of CloudEvents 0.3 are accepted
    refused          counts a refusal inside a response that goes on
    webhook_callbacks  hosts that consent is sent to
    grant            sends consent to a callback URL: called with URL, origin, and requests a minute (0: no bound)
    event_routes     rules that choose the topic of events sent to `/`
    sinks            networks that sinks of webhooks may be in besides public ones; None: they are not judged here
    """

    wall_ms: Callable[[], int]
    routes: tuple[Route, ...]
    site: Site
    webhook_origins: tuple[str, ...] = ("*",)
    webhook_rate: int = 0
    expressions: Expressions = field(default_factory=Expressions)
    authority: Authority | None = None
    uploads: HostShares = field(default_factory=HostShares)
    documents: Documents = field(default_factory=Documents)
    cloudevents_03: bool = False
    refused: Callable[[str, str], None] = ignore_refusal
    webhook_tls: bool = True
    webhook_callbacks: frozenset[str] = frozenset()
    grant: Callable[[str, str, int], None] = ignore_grant
    event_routes: EventRoutes = field(default_factory=EventRoutes)
    sinks: Sequence[Network] | None = ()


@final
class Match:
    """A target that a route matches.

    methods   the handlers of the route, by method
    names     decoded values of the `{name}` parts
    topic     domain topic of a `{path…}` part; "" without one
    path      `originMqttTopic` of a `{path…}` part; "" when it equals the topic
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

    description  description for users of the API; the first sentence is its summary
    body_max     most bytes of content, as sent and as decoded; `content_limit` may differ for one request
    long_poll    True: the answer may take long, and is discarded when the client hangs up
    repeatable   True: the response may be large, and the client can repeat the request after `undo`
    uploads      True: `start` is called with the head of a request, and its response has a flow that the content belongs to
    sliced       True: the work may take longer than a turn of the loop: `steps` carries it out
    principal    the sender of the request; None: access is not controlled
    """

    __slots__ = ("_match", "long_poll", "principal", "sliced")
    description: ClassVar[str] = ""
    body_max: int = 0
    repeatable: bool = False
    uploads: bool = False

    def __init__(self, match: Match) -> None:
        self._match = match
        self.long_poll = False
        self.sliced = False
        self.principal: Principal | None = None

    def content_limit(self, request: Request) -> int:
        """Most bytes of content of this request. May raise RefusalError."""
        return self.body_max

    def admit(self, request: Request) -> None:
        """Judge the head of a request, before its content: authenticate where access is controlled. May raise RefusalError."""
        authority = self._match.context.authority
        if authority is not None and request.method != b"OPTIONS":
            self.principal = identify(authority, request)

    def options(self, request: Request) -> Fields:
        """The fields of an answer to OPTIONS: the methods of the route, and the fields for a preflight request."""
        match = self._match
        return [(b"allow", match.allow), *match.context.site.preflight(request, match.allow)]

    def carry_out(self, request: Request, ticket: object) -> Outcome:
        """`start`, for the principal of the request. May raise RefusalError."""
        command, response = self.start(request, ticket)
        if command is not None and self.principal is not None:
            command.principal = self.principal
        return command, response

    def in_slices(self, request: Request, ticket: object, body_max: int, share: HostShare) -> Steps | None:
        """The work on a complete request that is not done in one turn; None: `carry_out` does it at once."""
        if not self.sliced and not is_compressed(request):
            return None
        return self._decoded(request, ticket, body_max, share)

    def _decoded(self, request: Request, ticket: object, body_max: int, share: HostShare) -> Steps:
        if is_compressed(request):
            for _ in inflate(request, body_max, share):
                yield None
        return (yield from self.steps(request, ticket))

    def steps(self, request: Request, ticket: object) -> Steps:
        """`start` in slices. Here: in one. May raise RefusalError."""
        command, response = self.start(request, ticket)
        if command is not None:
            yield command
        return response

    @abstractmethod
    def start(self, request: Request, ticket: object) -> Outcome:
        """Handle a complete request whose content is decoded. May raise RefusalError."""

    def finish(self, event: Event) -> Response:
        """The response to the event of the command. Never raises. Here: Refused, and Done; subclasses handle their events."""
        if isinstance(event, Done):
            return Response(204, [])
        if isinstance(event, Refused):
            return of_failure(event.failure)
        return problem(500, "internal", "the gateway gave an answer of another kind")

    def content_bytes(self, event: Event) -> int:
        """About how many bytes the content of a large response will have, before it is made: base64 adds a third to records."""
        return 0

    def collect(self, event: Event) -> Response | None:
        """The response to the events of several commands, None while some are missing. Here: there is one command."""
        return self.finish(event)

    def left_out(self, ticket: object) -> Command | None:
        """The command that undoes the part of an answer that its response leaves out; after `finish`. None: there is none."""
        return None

    def undo(self, event: Event, ticket: object) -> Command | None:
        """The command that undoes the effect of an answer that is not sent; None when there is none."""
        return None


Make = Callable[[Match], Handler]


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """A pattern of segments, and the handlers of its methods. Each is itself alone, so a table of routes can be a key.

    A part of the pattern is a word; `{name}`, or `{path…}`, which matches one segment or more; either with
    or without a word after it.
    """

    pattern: str
    methods: Mapping[bytes, Make] = field(default_factory=dict)
