"""HTTP/2 as the gateway knows it: a stream protocol that carries applications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from protocols.adapter import Connection, Peer
from protocols.http2.application import ApplicationFactory
from protocols.http2.choice import choose
from protocols.http2.connection import Http2Connection


@final
class Http2Adapter:
    """The stream protocol `http2`. `engine` names what reads its frames: nghttp2 or h2."""

    name = "http2"

    def __init__(self, applications: Sequence[ApplicationFactory]) -> None:
        self._applications = list(applications)
        self.engine, self._session = choose()

    def connect(self, peer: Peer, now: int) -> Connection:
        """A new connection."""
        return Http2Connection(self._session, self._applications, peer, now)
