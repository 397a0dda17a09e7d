"""The adapter of HTTP/2, and its declaration: a stream protocol that carries applications."""

from __future__ import annotations

from typing import Final, final

from protocols.adapter import Connection, Peer
from protocols.declaration import Declaration, NoSettings
from protocols.http2.choice import choose
from protocols.http2.connection import Http2Connection
from protocols.http2.reasons import WORDS
from protocols.http2.recognition import begins, without_tls
from protocols.setting import Setting


@final
class Http2Adapter:
    """`protocols.adapter.Adapter`. `engine` is the name of the frame parser: nghttp2 or h2."""

    name = "http2"

    def __init__(self, setting: Setting, _config: NoSettings) -> None:
        self._applications = setting.applications
        self._uploads = setting.uploads
        self._unread = setting.unread
        self._refused = setting.refused
        self.engine, self._session = choose()

    def connect(self, peer: Peer, now: int) -> Connection:
        """A new connection."""
        return Http2Connection(self._session, self._applications, peer, now, self._uploads, self._refused, self._unread)


PROTOCOL: Final = Declaration(
    "http2",
    stream=Http2Adapter,
    rank=20,
    begins=begins,
    without_tls=without_tls,
    alpn=("h2",),
    label="http",
    words=WORDS,
)
