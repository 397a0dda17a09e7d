"""Datagram ports of a node that does not serve yet: each datagram is refused as its protocol does it, or dropped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Final, final

DATAGRAMS_PER_TURN: Final = 64
"""Datagrams of one port that are refused in one turn of the loop."""
LAST: Final = 4_096
"""The same when it stops: more than a buffer holds."""
DATAGRAM_BYTES_MAX: Final = 65_535

Refusal = Callable[[bytes], bytes]
"""A datagram -> the answer to its sender, not longer than the datagram; b"" for none."""


@final
class RefusedDatagrams:
    """Reads bound datagram sockets until `stop`, so that nothing waits in them that would be carried out long afterwards."""

    def __init__(self, ports: Iterable[tuple[socket.socket, Refusal]], loop: asyncio.AbstractEventLoop) -> None:
        self._ports = list(ports)
        self._loop = loop
        for bound, refusal in self._ports:
            loop.add_reader(bound, self._refuse, bound, refusal)

    def _refuse(self, bound: socket.socket, refusal: Refusal, most: int = DATAGRAMS_PER_TURN) -> None:
        for _ in range(most):
            try:
                data, address = bound.recvfrom(DATAGRAM_BYTES_MAX)
                answer = refusal(data)
                if answer:
                    bound.sendto(answer, address)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # a peer's port was closed (ICMP), or it cannot be reached
                continue

    def stop(self) -> None:
        """Hand over the sockets to the node that serves. Datagrams that they hold by now are refused too."""
        for bound, refusal in self._ports:
            self._refuse(bound, refusal, LAST)
            self._loop.remove_reader(bound)
