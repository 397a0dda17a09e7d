"""Traffic on the ports of gateways, as the store's node adds it up for `$SYS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, final

LIVES_MAX: Final = 4_096
"""Gateways whose counts are remembered; the one that said nothing for the longest time is forgotten."""


class Traffic(NamedTuple):
    """Messages and bytes from and to clients."""

    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def less(self, other: Traffic) -> Traffic:
        """The increase since `other`; 0 where there is none."""
        return Traffic(*(max(0, mine - its) for mine, its in zip(self, other, strict=True)))

    def plus(self, other: Traffic) -> Traffic:
        """The sum of both."""
        return Traffic(*(mine + its for mine, its in zip(self, other, strict=True)))


@final
class OwnTraffic:
    """Traffic of a gateway since the start of the store's process.

    life       16 bytes that identify the gateway's process
    _counted   returns the counts of its ports since its own start
    """

    def __init__(self, life: bytes, counted: Callable[[], Traffic]) -> None:
        self.life = life
        self._counted = counted
        self._before = Traffic()
        self._store_life = ""

    def with_store(self, store_life: str) -> None:
        """A connection to the store's process with this life is open: set the start of the count if the life is new."""
        if self._store_life not in ("", store_life):
            self._before = self._counted()
        self._store_life = store_life

    def now(self) -> Traffic:
        """Traffic of this gateway since the current life of the store's process began."""
        return self._counted().less(self._before)


@final
class GatewaysTraffic:
    """Traffic of all gateways, at the store's node. Repeated reports of a gateway over several connections count once.

    total   traffic since the start of this process, that of gateways that have gone included
    """

    def __init__(self) -> None:
        self.total = Traffic()
        self._known: dict[bytes, Traffic] = {}

    def notified(self, life: bytes, traffic: Traffic) -> None:
        """Add the report of a gateway: its traffic since its start."""
        known = self._known.pop(life, Traffic())
        more = traffic.less(known)
        self.total = self.total.plus(more)
        self._known[life] = known.plus(more)
        if len(self._known) > LIVES_MAX:
            del self._known[next(iter(self._known))]
