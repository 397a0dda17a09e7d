"""Peers that may send the PROXY protocol."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, final

from domain.errors import ConfigError
from gateway.access.source import SourceAddresses
from gateway.guard.settings import ProxySettings

REMEMBERED: Final = 4_096


@final
class Proxies:
    """Peers that may send the PROXY protocol's header (`ProxySettings`). `required`: they must."""

    def __init__(self, config: ProxySettings) -> None:
        """Raises ConfigError for an invalid address."""
        try:
            self._sources = [SourceAddresses(peer) for peer in config.peers]
        except ValueError as error:
            raise ConfigError(f"proxy.peers: {error}") from error
        self.required = config.required
        self.holds = lru_cache(REMEMBERED)(self._holds)

    def _holds(self, host: str) -> bool:
        """True when `host` is one of the peers."""
        return any(source.holds(host) for source in self._sources)

    def __bool__(self) -> bool:
        return bool(self._sources)
