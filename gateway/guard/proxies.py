"""The table `[proxy]` of the configuration: whose word counts about whose a connection is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, final

from domain.errors import ConfigError
from gateway.access.source import SourceAddresses

KEYS: Final = ("peers", "required")
REMEMBERED: Final = 4_096


@final
class Proxies:
    """Peers that may send the PROXY protocol's header.

    peers      addresses, networks and ranges, written as in policies; empty: nobody
    required   True: these peers must send it. False: they may
    """

    def __init__(self, table: Mapping[str, object]) -> None:
        """Raises ConfigError."""
        unknown = sorted(set(table) - set(KEYS))
        if unknown:
            raise ConfigError(f"proxy has no setting {unknown[0]!r}; it has {', '.join(KEYS)}")
        peers, required = table.get("peers", []), table.get("required", False)
        if not isinstance(peers, list) or not all(isinstance(peer, str) for peer in peers):
            raise ConfigError("proxy.peers is a list of addresses and networks")
        if not isinstance(required, bool):
            raise ConfigError("proxy.required is true or false")
        try:
            self._sources = [SourceAddresses(peer) for peer in peers]
        except ValueError as error:
            raise ConfigError(f"proxy.peers: {error}") from error
        self.required = required
        self.holds = lru_cache(REMEMBERED)(self._holds)

    def _holds(self, host: str) -> bool:
        """True when `host` is one of them."""
        return any(source.holds(host) for source in self._sources)

    def __bool__(self) -> bool:
        return bool(self._sources)
