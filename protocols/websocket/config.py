"""WebSocket's own settings: table `[websocket]` of the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from domain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class WebSocketConfig:
    """origins   web origins whose pages may connect (RFC 6455, 10.2), as `https://example.org`; `*`: every one.
    A client that names no origin is no browser, and is not asked."""

    origins: tuple[str, ...] = ("*",)

    def admits(self, origin: str) -> bool:
        """Whether a page from `origin` may connect; "": none was named. Scheme and host have no case."""
        return not origin or "*" in self.origins or origin.lower() in self.origins


def read(options: Mapping[str, object]) -> WebSocketConfig:
    """Options -> config. Raises ConfigError."""
    for name in options:
        if name != "origins":
            raise ConfigError(f"websocket has no setting {name!r}; did you mean origins?")
    origins = options.get("origins", ["*"])
    if not isinstance(origins, list | tuple) or not all(isinstance(origin, str) for origin in origins):
        raise ConfigError("websocket.origins is a list of origins, as in ['https://example.org']")
    return WebSocketConfig(tuple(origin.lower().rstrip("/") for origin in origins))
