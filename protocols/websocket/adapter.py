"""The adapter of WebSocket over HTTP/1.1 and HTTP/2, which serves a protocol at each path, and its declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from protocols.adapter import Adapter, Peer, ignore_refusal
from protocols.declaration import Declaration, Listener
from protocols.hosts import Hosts
from protocols.http2.application import Reply
from protocols.setting import Setting
from protocols.websocket.connection import WebSocketConnection
from protocols.websocket.reasons import WORDS
from protocols.websocket.recognition import begins_carrying
from protocols.websocket.settings import WebSocketSettings
from protocols.websocket.stream import WebSocketStreams


@final
class WebSocketAdapter:
    """The stream adapter (`protocols.adapter.Adapter`) and the HTTP/2 application (`ApplicationFactory`) of WebSocket.

    tunnels   True: its application accepts only an extended CONNECT
    inside    path -> adapter, read for each connection; the adapter's name is the sub-protocol to be negotiated
    refused   counts refused HTTP/2 streams and frames above the limit, as `Setting.refused`
    """

    name = "websocket"
    tunnels: Final = True

    def __init__(
        self,
        inside: Mapping[str, Adapter],
        config: WebSocketSettings,
        refused: Callable[[str, str], None] = ignore_refusal,
        advertised: str = "",
    ) -> None:
        self._refused = refused
        self._inside = inside
        self._config = config
        self._hosts = Hosts(config.hosts, advertised)

    def connect(self, peer: Peer, now: int) -> WebSocketConnection:
        """A new connection; its opening handshake must be complete within 10 s."""
        return WebSocketConnection(self._inside, self._config, self._hosts, peer, now, self._refused)

    def open(self, reply: Reply, peer: Peer, now: int) -> WebSocketStreams:
        """The WebSocket streams of a new HTTP/2 connection."""
        return WebSocketStreams(self._inside, self._config, self._hosts, reply, peer, self._refused)


def _adapter(setting: Setting, config: WebSocketSettings) -> WebSocketAdapter:
    return WebSocketAdapter(setting.carried, config, setting.refused, setting.host)


PROTOCOL: Final = Declaration(
    "websocket",
    settings=WebSocketSettings,
    stream=_adapter,
    application=_adapter,
    listeners=(
        # A request for another path goes to the adapter too, which answers 404.
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
    # The rank puts its HTTP/2 application before that of HTTP, which accepts every request.
    rank=30,
    begins_carrying=begins_carrying,
    otherwise="http",
    alpn=("http/1.1",),
    words=WORDS,
)
