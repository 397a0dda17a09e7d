"""HTTP/1.1 as the gateway knows it: connections over one router."""

from __future__ import annotations

from typing import final

from protocols.adapter import Peer, Setting
from protocols.http.config import desk
from protocols.http.connection import HttpConnection
from protocols.http.response import DateLine
from protocols.http.router import Router


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
