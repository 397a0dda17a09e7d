"""The adapter of HTTP, and its declaration: HTTP/1.1 connections, and an application on HTTP/2, with the same handlers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from domain.errors import ErrorCode
from domain.refusal import Ending, Reason
from protocols.adapter import Peer
from protocols.cloudevents.routes import EventRoutes
from protocols.declaration import Declaration, Listener
from protocols.http.application import HttpApplication
from protocols.http.connection import HttpConnection
from protocols.http.handler import HandlerContext
from protocols.http.http1.context import ConnectionContext
from protocols.http.response import DateLine
from protocols.http.router import Router
from protocols.http.routes import ROUTES
from protocols.http.settings import HttpSettings
from protocols.http.site import Site
from protocols.http2.application import Reply
from protocols.http2.recognition import without_tls
from protocols.request_line import after_empty_line
from protocols.setting import Setting

METHOD_BYTES_MAX: Final = 23
_TOKEN: Final = frozenset(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
WORDS: Final[Mapping[str, Reason | None]] = {
    "path-unknown": ErrorCode.NOT_SUPPORTED,
    "method-not-allowed": ErrorCode.NOT_SUPPORTED,
    "method-unknown": ErrorCode.NOT_SUPPORTED,
    "version-unknown": ErrorCode.NOT_SUPPORTED,
    "transfer-coding-unknown": ErrorCode.NOT_SUPPORTED,
    "expectation-failed": ErrorCode.NOT_SUPPORTED,
    "request-syntax": Ending.MALFORMED,
    "head-too-large": ErrorCode.ARGUMENT_ILLEGAL,
    "target-too-long": ErrorCode.ARGUMENT_ILLEGAL,
    "request-timeout": Ending.FRAME_DEADLINE,
    "host-unknown": ErrorCode.NOT_ALLOWED,
    "origin-refused": ErrorCode.NOT_ALLOWED,
    "tls-required": ErrorCode.NOT_ALLOWED,
    "uploads-full": ErrorCode.OVERLOADED,
    "value-not-found": ErrorCode.MESSAGE_NOT_FOUND,
    "user-unknown": ErrorCode.ARGUMENT_ILLEGAL,
    "context-unknown": ErrorCode.ARGUMENT_ILLEGAL,
    "event-id-invalid": ErrorCode.ARGUMENT_ILLEGAL,
    "event-id-expired": ErrorCode.OFFSET_NOT_FOUND,
    "websocket-version": ErrorCode.NOT_SUPPORTED,
    "websocket-message": ErrorCode.ARGUMENT_ILLEGAL,
    "websocket-frame-too-large": ErrorCode.MESSAGE_TOO_LARGE,
    **{f"refused-{status}": Ending.REQUEST_REFUSED for status in range(400, 600)},
}


def begins(head: bytes) -> bool | None:
    """True for a method and a space (RFC 9112 section 3), also behind one empty line. None: more bytes are needed.

    The method, with an empty line before it, has at most METHOD_BYTES_MAX bytes.
    """
    for index, byte in enumerate(after_empty_line(head)):
        if byte == 0x20:
            return index > 0
        if byte not in _TOKEN:
            return False
    return None if len(head) <= METHOD_BYTES_MAX else False


@final
class HttpAdapter:
    """`protocols.adapter.Adapter`."""

    name = "http"

    def __init__(self, setting: Setting, config: HttpSettings) -> None:
        router, date = Router(context(setting, config)), DateLine(setting.wall_ms)
        self._context = ConnectionContext(router, date, setting.refused, setting.unread)

    def connect(self, peer: Peer, now: int) -> HttpConnection:
        """A new connection; its first request must begin within 10 s."""
        return HttpConnection(self._context, peer, now)


@final
class HttpApplicationFactory:
    """`protocols.http2.application.ApplicationFactory`."""

    name = "http"

    def __init__(self, setting: Setting, config: HttpSettings) -> None:
        self._refused = setting.refused
        self._router = Router(context(setting, config))
        self._date = DateLine(setting.wall_ms)

    def open(self, reply: Reply, peer: Peer, now: int) -> HttpApplication:
        """The application of a new connection."""
        return HttpApplication(self._router, self._date, reply, peer, self._refused)


def context(setting: Setting, config: HttpSettings) -> HandlerContext:
    """The context of all handlers."""
    site = Site(config.hosts, setting.host, config.origins, config.webhook_origins)
    return HandlerContext(
        setting.wall_ms,
        ROUTES if config.event_routes else tuple(route for route in ROUTES if route.pattern),
        site,
        config.webhook_origins,
        config.webhook_rate,
        authority=setting.authority,
        uploads=setting.uploads,
        webhook_tls=config.webhook_tls,
        webhook_callbacks=frozenset(config.webhook_callbacks),
        grant=setting.grant,
        event_routes=EventRoutes(config.event_routes),
        cloudevents_03=config.cloudevents_03,
        refused=setting.refused,
        sinks=setting.sinks,
    )


PROTOCOL: Final = Declaration(
    "http",
    settings=HttpSettings,
    stream=HttpAdapter,
    application=HttpApplicationFactory,
    listeners=(
        Listener("http", 8080, "HTTP/1.1, HTTP/2, CloudEvents, and every stream protocol above and below", None, place=40),
    ),
    rank=40,
    begins=begins,
    without_tls=without_tls,
    alpn=("http/1.1",),
    words=WORDS,
)
