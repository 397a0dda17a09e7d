"""The adapter of HTTP, and its declaration: HTTP/1.1 connections, and an application on HTTP/2, with the same handlers."""

from __future__ import annotations

from typing import Final, final

from protocols.adapter import Peer
from protocols.cloudevents.routes import EventRoutes
from protocols.declaration import Declaration, Listener
from protocols.http.application import HttpApplication
from protocols.http.connection import HttpConnection
from protocols.http.handler import HandlerContext
from protocols.http.http1.context import ConnectionContext
from protocols.http.reasons import WORDS
from protocols.http.recognition import begins
from protocols.http.response import DateLine
from protocols.http.router import Router
from protocols.http.routes import ROUTES
from protocols.http.settings import HttpSettings
from protocols.http.site import Site
from protocols.http2.application import Reply
from protocols.http2.recognition import without_tls
from protocols.setting import Setting


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
