"""HTTP as the gateway knows it: HTTP/1.1 connections, and an application on HTTP/2, over the same handlers."""

from __future__ import annotations

from typing import final

from protocols.adapter import Peer, Setting
from protocols.http.application import HttpApplication
from protocols.http.config import desk
from protocols.http.connection import HttpConnection
from protocols.http.response import DateLine
from protocols.http.router import Router
from protocols.http2.application import Reply


@final
class HttpAdapter:
    """`protocols.adapter.Adapter`. Raises ConfigError at construction for a bad setting."""

    name = "http1"

    def __init__(self, setting: Setting) -> None:
        self._wall_ms = setting.wall_ms
        self._refused = setting.refused
        self._router = Router(desk(setting))
        self._date = DateLine()

    def connect(self, peer: Peer, now: int) -> HttpConnection:
        """A new connection; its first request has 10 s to begin."""
        return HttpConnection(self._router, self._date, self._wall_ms, peer, now, self._refused)


@final
class HttpApplicationFactory:
    """`protocols.http2.application.ApplicationFactory`."""

    name = "http"

    def __init__(self, setting: Setting) -> None:
        self._wall_ms = setting.wall_ms
        self._refused = setting.refused
        self._router = Router(desk(setting))
        self._date = DateLine()

    def open(self, reply: Reply, peer: Peer, now: int) -> HttpApplication:
        """The application of a new connection."""
        return HttpApplication(self._router, self._date, self._wall_ms, reply, peer, self._refused)
