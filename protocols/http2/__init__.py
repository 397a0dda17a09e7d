"""HTTP/2 (RFC 9113): one connection, many streams, each handed to the application that accepts it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from protocols.adapter import Connection, Peer, Setting
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


def create(setting: Setting, applications: Sequence[ApplicationFactory]) -> Http2Adapter:
    """The adapter, with its applications in the order in which they are asked. Setting: every entry point is given it."""
    return Http2Adapter(applications)
