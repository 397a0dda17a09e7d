"""WebSocket as the gateway knows it: which protocol is spoken at which path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from protocols.adapter import Adapter, Peer
from protocols.websocket.connection import WebSocketConnection


@final
class WebSocketAdapter:
    """`protocols.adapter.Adapter`. `inside` maps paths to adapters; an adapter's name is the sub-protocol to negotiate."""

    name = "websocket"

    def __init__(self, inside: Mapping[str, Adapter]) -> None:
        self._inside = inside

    def connect(self, peer: Peer, now: int) -> WebSocketConnection:
        """A new connection; its opening handshake has 10 s."""
        return WebSocketConnection(self._inside, peer, now)
