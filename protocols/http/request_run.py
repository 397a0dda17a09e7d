"""One request above its frames, in either version of HTTP: judged by its head, carried out, answered (RFC 9110)."""

from __future__ import annotations

from domain import limits
from domain.access.principal import GATEWAY, Principal
from domain.command import Command
from domain.event import Event
from protocols.host_shares import HostShare
from protocols.http.handler import Handler, Outcome, Steps
from protocols.http.problem import RefusalError, no_proxy, unsent_answers
from protocols.http.request import DISCARDED_BYTES_MAX, Request, head_fault, no_room
from protocols.http.response import Response
from protocols.http.router import Router


class RequestRun:
    """A request from its complete head to its response. The connection that it arrived on frames both, and orders them.

    request      None when it was refused before its head was complete, or once its command has its own copy of the content
    handler      None: refused, or answered
    content_max  most bytes of content that are accepted, or discarded after a refusal
    feeds        True: its content is passed on as it arrives
    head_only    True: the method is HEAD, so the response has no body
    origin       origin of another site whose page may read the response; b"" for none
    shared       bytes of its content that count against the bound of unfinished requests
    held         bytes of content that its command holds
    steps        the work on it, while it is done in slices, which run as the connection's deadlines; None: it is not
    due          monotonic ns of its next slice: at once, in the next turn that has time for its host
    _principal   the sender of the commands that the slices make; None: access is not controlled
    """

    __slots__ = (
        "_principal", "content_max", "due", "feeds", "handler", "head_only", "held", "origin", "refusal", "request", "shared",
        "steps",
    )  # fmt: skip

    def __init__(self, request: Request | None) -> None:
        self.request = request
        self.handler: Handler | None = None
        self.refusal: Response | None = None
        self.head_only = request is not None and request.method == b"HEAD"
        self.content_max = DISCARDED_BYTES_MAX
        self.feeds = False
        self.origin = b""
        self.shared = 0
        self.held = 0
        self.steps: Steps | None = None
        self.due: int
        self._principal: Principal | None

    def judge(self, request: Request, router: Router) -> Handler | None:
        """Judge the complete head: sets `handler`, or `refusal`. Returns the handler of the target, also if that refuses it."""
        handler: Handler | None = None
        if request.method == b"CONNECT":
            self.refusal = no_proxy()
            return handler
        try:
            self.origin = router.site.judge(request)
            handler = router.find(request)
            limit = handler.content_limit(request)
            self.refusal = head_fault(request, limit)
            if self.refusal is None:
                handler.admit(request)
                self.handler = handler
                self.content_max = limit
                self.feeds = handler.uploads
        except RefusalError as refusal:
            self.refusal = refusal.response
        return handler

    def start(self, ticket: object, share: HostShare, now: int) -> Outcome:
        """Carry out the request: its command, its response, neither, or its refusal. `share` holds bytes of work in slices."""
        request, handler = self.request, self.handler
        if request is None or handler is None:
            return None, self.refusal
        steps = handler.in_slices(request, ticket, self.content_max, share)
        if steps is not None:
            uncounted = len(request.body) - self.shared
            if share.take(uncounted):
                self.shared += uncounted
                self.steps = steps
                self._principal = handler.principal
                return self.next_slice(share, now)
            self._copied(request, share)
            return None, no_room().response
        try:
            command, response = handler.carry_out(request, ticket)
        except RefusalError as refusal:
            command, response = None, refusal.response
        self._copied(request, share)
        return command, response

    def next_slice(self, share: HostShare, now: int) -> Outcome:
        """Run one slice of the work on a large request. The response is None when an event has answered the request already."""
        steps, request = self.steps, self.request
        assert steps is not None
        assert request is not None
        before = share.held
        try:
            command = next(steps)
        except StopIteration as stop:
            response: Response | None = stop.value
        except RefusalError as refusal:
            response = refusal.response
        else:
            self.shared += share.held - before
            self.due = now
            if command is not None and self._principal is not None:
                command.principal = self._principal
            return command, None
        self.shared += share.held - before
        self.steps = None
        self._copied(request, share)
        return None, None if self.handler is None else response

    def _copied(self, request: Request, share: HostShare) -> None:
        """The command has its own copy of the content; the run of a long poll lives for long."""
        self.held = 0 if self.handler is None else len(request.body)
        share.give(self.shared)
        self.shared = 0
        self.request = None

    def repeatable_response(
        self, handler: Handler, event: Event, ticket: object, room: int, unsent: int
    ) -> tuple[Response, list[Command]]:
        """(the response of a repeatable handler, the commands that undo its omissions): 429 for a client that does not read.

        room     bytes that a large response may have
        unsent   bytes of earlier responses that the client has not read
        """
        most = max(limits.SMALL_ANSWER_BYTES, room)
        if handler.content_bytes(event) <= most:  # a larger one is not even made: base64 of 4 MiB takes 10 ms
            response = handler.finish(event)
            if len(response.body) <= most:
                return response, by_the_gateway(handler.left_out(ticket))
        return unsent_answers(unsent), by_the_gateway(handler.undo(event, ticket))


def by_the_gateway(command: Command | None) -> list[Command]:
    """The command as one of the gateway itself: it needs no right of the client."""
    if command is None:
        return []
    command.principal = GATEWAY
    return [command]
