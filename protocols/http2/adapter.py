"""The adapter of HTTP/2, and its declaration: a stream protocol that carries applications."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, final

from domain.refusal import Ending, Reason
from protocols.adapter import Connection, Peer
from protocols.declaration import Declaration, NoSettings
from protocols.http2.connection import Http2Connection
from protocols.http2.engine import EngineFactory
from protocols.http2.recognition import begins, without_tls
from protocols.setting import Setting

WORDS: Final[Mapping[str, Reason | None]] = {
    "goaway": Ending.GOODBYE,
    "ping-timeout": Ending.KEEP_ALIVE,
}


def choose() -> tuple[str, EngineFactory]:
    """The engine of this process and its name: nghttp2 where its binding is built, else h2.

    HEADGATE_PURE=1 forces h2; HEADGATE_REQUIRE_COMPILED=1 raises ImportError instead of using h2.
    """
    if os.environ.get("HEADGATE_PURE") != "1":
        try:
            from protocols.http2 import engine_nghttp2
        except ImportError:
            if os.environ.get("HEADGATE_REQUIRE_COMPILED") == "1":
                raise
        else:
            return "nghttp2", engine_nghttp2.Session
    from protocols.http2 import engine_h2  # imported here, since h2 costs start time and memory

    return "h2", engine_h2.Session


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
