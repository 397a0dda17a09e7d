"""The settings of WebSocket: table `[websocket]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebSocketConfig:
    """The web origins that may connect. A client without an Origin field is not a browser and is not restricted.

    origins   web origins whose pages may connect (RFC 6455, 10.2), as `https://example.org`; `*`: every one
    """

    origins: tuple[str, ...] = ("*",)

    def admits(self, origin: str) -> bool:
        """True when a page from `origin` may connect; "": no Origin field. Scheme and host are compared without case."""
        if not origin or "*" in self.origins:
            return True
        return origin.lower() in (known.lower().rstrip("/") for known in self.origins)
