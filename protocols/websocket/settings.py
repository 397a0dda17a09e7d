"""The settings of WebSocket: table `[websocket]` of the configuration file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from protocols.hosts import host_name, origin_host

Admits = Callable[[str, str], bool]
"""(origin of a page, Host field of its request) -> whether it may connect."""


@dataclass(frozen=True, slots=True)
class WebSocketSettings:
    """The web origins that may connect. A client without an Origin field is not a browser and is not restricted.

    origins   web origins whose pages may connect (RFC 6455, 10.2), as `https://example.org`, beside those of the host and port
              that they connect to, and of its other ports where access is controlled; `*`: every one
    hosts     names that pages may address this node by, as in `[http]`
    """

    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def admits(self, origin: str, host: str, controlled: bool) -> bool:
        """True when a page from `origin` may connect to `host` (its Host field); "": no Origin field.

        `controlled`: clients have credentials, which browsers do not add: pages of all ports of the host may connect.
        """
        if not origin or "*" in self.origins:
            return True
        page = origin_host(origin)
        if page == host.lower() != "" or (controlled and host_name(page.encode()) == host_name(host.encode()) != ""):
            return True
        return origin.lower() in (known.lower().rstrip("/") for known in self.origins)
