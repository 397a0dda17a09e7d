"""The choice of the engine of this process."""

from __future__ import annotations

import os

from protocols.http2.engine import EngineFactory


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
