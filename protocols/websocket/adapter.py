"""The adapter of WebSocket over HTTP/1.1 and HTTP/2, which serves a protocol at each path, and its declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, final

from domain.errors import ErrorCode
from domain.refusal import Ending, Reason
from protocols.adapter import Adapter, Peer, ignore_refusal
from protocols.declaration import Declaration, Listener, Rule
from protocols.hosts import Hosts
from protocols.http2.application import Reply
from protocols.request_line import after_empty_line
from protocols.setting import Setting
from protocols.websocket.connection import WebSocketConnection
from protocols.websocket.settings import Admits, WebSocketSettings
from protocols.websocket.stream import WebSocketStreams

WORDS: Final[Mapping[str, Reason | None]] = {
    "websocket-handshake": Ending.HANDSHAKE_DEADLINE,
    "websocket-cut-short": Ending.CUT_SHORT,
    "websocket-frame-too-large": ErrorCode.MESSAGE_TOO_LARGE,
}


def begins_carrying(paths: Sequence[str]) -> Rule:
    """The rule that matches `GET`, one of `paths`, and a space or a question mark; other requests are left to HTTP.

    A path may have at most 17 bytes: behind an empty line, the rule has to decide within the bytes that recognition reads.
    """
    requests = [b"GET " + path.encode() for path in paths]

    def begins(head: bytes) -> bool | None:
        """True when `head` begins such a request, None while it may, False when it does not."""
        head = after_empty_line(head)
        if any(head.startswith(request) and head[len(request) : len(request) + 1] in (b" ", b"?") for request in requests):
            return True
        return None if any(len(head) <= len(request) and request.startswith(head) for request in requests) else False

    return begins


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
        controlled: bool = False,
    ) -> None:
        self._refused = refused
        self._inside = inside
        self._admits: Admits = partial(config.admits, controlled=controlled)
        self._hosts = Hosts(config.hosts, advertised)

    def connect(self, peer: Peer, now: int) -> WebSocketConnection:
        """A new connection; its opening handshake must be complete within 10 s."""
        return WebSocketConnection(self._inside, self._admits, self._hosts, peer, now, self._refused)

    def open(self, reply: Reply, peer: Peer, now: int) -> WebSocketStreams:
        """The WebSocket streams of a new HTTP/2 connection."""
        return WebSocketStreams(self._inside, self._admits, self._hosts, reply, peer, self._refused)


def _adapter(setting: Setting, config: WebSocketSettings) -> WebSocketAdapter:
    return WebSocketAdapter(setting.carried, config, setting.refused, setting.host, setting.authority is not None)


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
