"""Numbers of principals on a stream: each principal is sent once, and referenced by its number from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.access.principal import GATEWAY, Principal
from protocols.remoting.nodes.calls.octets import Out
from protocols.remoting.nodes.forwarding import item

PRINCIPALS_MAX: Final = 65_536


@final
class PrincipalNumbers:
    """Principal numbers of one stream. When PRINCIPALS_MAX are in use, numbering restarts, and principals are sent again."""

    __slots__ = ("_last", "_numbers", "_put")

    def __init__(self, put: Callable[[Out], None]) -> None:
        """`put` adds an item to the stream."""
        self._put = put
        self._numbers: dict[Principal, int] = {}
        self._last = item.GATEWAY_PRINCIPAL

    def of(self, principal: Principal | None) -> int:
        """The number of a principal. A new principal is put on the stream first."""
        if principal is None:
            return item.NO_PRINCIPAL
        if principal is GATEWAY:
            return item.GATEWAY_PRINCIPAL
        number = self._numbers.get(principal)
        if number is None:
            if len(self._numbers) >= PRINCIPALS_MAX:
                self._numbers.clear()
                self._last = item.GATEWAY_PRINCIPAL
            self._last += 1
            number = self._numbers[principal] = self._last
            self._put(item.put_principal(number, principal))
        return number
