"""Names of sinks, resolved and judged: a connection goes to an address that was looked at, and to no other."""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final, final

from domain.subscription.sink import Network, refusal

NAMES_S: Final = 10.0
"""The addresses of a name are kept so long."""
NAMES_MAX: Final = 4_096


class RefusedAddressError(OSError):
    """The addresses of a sink are none that sinks may have."""


@final
class SinkNames:
    """Resolves names. `allow`: networks besides public ones."""

    def __init__(self, allow: Sequence[Network]) -> None:
        self.allow = allow
        self._known: OrderedDict[tuple[str, bool], tuple[list[str], float]] = OrderedDict()
        self._asking: dict[tuple[str, bool], asyncio.Task[list[str]]] = {}

    async def addresses(self, host: str, secure: bool) -> list[str]:
        """Addresses to connect to, in their order; `host` may be one. Raises RefusedAddressError, socket.gaierror."""
        key = (host, secure)
        loop = asyncio.get_running_loop()
        known = self._known.get(key)
        if known is not None and loop.time() < known[1]:
            return known[0]
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = loop.create_task(self._resolve(host, secure))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        found = await asyncio.shield(task)
        self._known[key] = (found, loop.time() + NAMES_S)
        self._known.move_to_end(key)
        while len(self._known) > NAMES_MAX:
            self._known.popitem(last=False)
        return found

    async def _resolve(self, host: str, secure: bool) -> list[str]:
        try:
            found = [str(ip_address(host))]
        except ValueError:
            loop = asyncio.get_running_loop()
            answers = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(address[0]) for *_, address in answers))
        out: list[str] = []
        why = ""
        for address in found:
            refused = refusal(address, secure, self.allow)
            why = why or refused
            if not refused:
                out.append(address)
        if not out:
            raise RefusedAddressError(f"{host}: {why}" if why else f"{host} has no address")
        return out
