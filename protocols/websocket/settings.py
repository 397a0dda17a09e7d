"""The settings of WebSocket: table `[websocket]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass

from protocols.hosts import host_name, origin_host


@dataclass(frozen=True, slots=True)
class WebSocketSettings:
    """The web origins that may connect. A client without an Origin field is not a browser and is not restricted.

    origins   web origins whose pages may connect (RFC 6455, 10.2), as `https://example.org`, beside those of the host that
              they connect to; `*`: every one
    hosts     names that pages may address this node by, as in `[http]`
    """

    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def admits(self, origin: str, host: str) -> bool:
        """True when a page from `origin` may connect to `host` (its Host field), on any port; "": no Origin field."""
        if not origin or "*" in self.origins:
            return True
        if host_name(origin_host(origin).encode()) == host_name(host.encode()) != "":
            return True
        return origin.lower() in (known.lower().rstrip("/") for known in self.origins)
