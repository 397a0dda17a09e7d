"""WebSocket as the gateway knows it: which protocol is spoken at which path, over HTTP/1.1 and over HTTP/2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

from protocols.adapter import Adapter, Peer, unheard
from protocols.http2.application import Reply
from protocols.websocket.config import read
from protocols.websocket.connection import WebSocketConnection
from protocols.websocket.stream import WebSocketStreams


@final
class WebSocketAdapter:
    """`protocols.adapter.Adapter`, and `protocols.http2.application.ApplicationFactory`.

    inside    path -> adapter, looked at for each connection; an adapter's name is the sub-protocol to negotiate
    options   the table `[websocket]`; raises ConfigError for what it cannot mean
    refused   counts streams of HTTP/2 that are refused, as Setting has it
    """

    name = "websocket"

    def __init__(
        self,
        inside: Mapping[str, Adapter],
        options: Mapping[str, object] | None = None,
        refused: Callable[[str, str], None] = unheard,
    ) -> None:
        self._refused = refused
        self._inside = inside
        self._config = read(options or {})

    def connect(self, peer: Peer, now: int) -> WebSocketConnection:
        """A new connection; its opening handshake has 10 s."""
        return WebSocketConnection(self._inside, self._config, peer, now)

    def open(self, reply: Reply, peer: Peer, now: int) -> WebSocketStreams:
        """Its share of a new HTTP/2 connection."""
        return WebSocketStreams(self._inside, self._config, reply, peer, self._refused)
