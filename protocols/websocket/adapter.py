"""WebSocket as the gateway knows it: which protocol is spoken at which path, over HTTP/1.1 and over HTTP/2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from protocols.adapter import Adapter, Peer, unheard
from protocols.declaration import Declaration, Listener
from protocols.http2.application import Reply
from protocols.setting import Setting
from protocols.websocket.config import WebSocketConfig
from protocols.websocket.connection import WebSocketConnection
from protocols.websocket.reasons import WORDS
from protocols.websocket.recognition import begins_carrying
from protocols.websocket.stream import WebSocketStreams


@final
class WebSocketAdapter:
    """`protocols.adapter.Adapter`, and `protocols.http2.application.ApplicationFactory`.

    inside    path -> adapter, looked at for each connection; an adapter's name is the sub-protocol to negotiate
    refused   counts streams of HTTP/2 that are refused, as Setting has it
    """

    name = "websocket"

    def __init__(
        self,
        inside: Mapping[str, Adapter],
        config: WebSocketConfig,
        refused: Callable[[str, str], None] = unheard,
    ) -> None:
        self._refused = refused
        self._inside = inside
        self._config = config

    def connect(self, peer: Peer, now: int) -> WebSocketConnection:
        """A new connection; its opening handshake has 10 s."""
        return WebSocketConnection(self._inside, self._config, peer, now)

    def open(self, reply: Reply, peer: Peer, now: int) -> WebSocketStreams:
        """Its share of a new HTTP/2 connection."""
        return WebSocketStreams(self._inside, self._config, reply, peer, self._refused)


def _adapter(setting: Setting, config: WebSocketConfig) -> WebSocketAdapter:
    return WebSocketAdapter(setting.carried, config, setting.refused)


PROTOCOL: Final = Declaration(
    "websocket",
    settings=WebSocketConfig,
    stream=_adapter,
    application=_adapter,
    listeners=(
        # Any other path gets an answer too.
        Listener("websocket", 8083, "MQTT over WebSocket, path /mqtt", ("websocket",), {"http": "websocket"}, place=70),
        Listener(
            "websockets",
            8084,
            "MQTT over secure WebSocket, path /mqtt",
            ("websocket",),
            {"http": "websocket"},
            secure=True,
            place=80,
        ),
    ),
    # Its application is asked before that of HTTP, which takes every request.
    rank=30,
    begins_carrying=begins_carrying,
    otherwise="http",
    alpn=("http/1.1",),
    words=WORDS,
)
