"""The settings of WebSocket: table `[websocket]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebSocketConfig:
    """Whose pages may connect. A client that names no origin is no browser, and is not asked.

    origins   web origins whose pages may connect (RFC 6455, 10.2), as `https://example.org`; `*`: every one
    """

    origins: tuple[str, ...] = ("*",)

    def admits(self, origin: str) -> bool:
        """Whether a page from `origin` may connect; "": none was named. Scheme and host have no case."""
        if not origin or "*" in self.origins:
            return True
        return origin.lower() in (known.lower().rstrip("/") for known in self.origins)
