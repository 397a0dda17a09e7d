"""Datagrams that were read and wait to be handled: hosts take turns, and the ports of a host take turns within its share."""

from __future__ import annotations

from collections import deque
from typing import Final, final

Address = tuple[str, int]

DATAGRAMS_MAX: Final = 8_192
BYTES_MAX: Final = 16 * 1024 * 1024
OF_ADDRESS_MAX: Final = 256
"""Datagrams of one address that wait; further ones are dropped."""
NEWCOMERS_MAX: Final = 2_048
"""Datagrams beyond DATAGRAMS_MAX, for hosts of which nothing waits."""


@final
class Inbox:
    """Waiting datagrams. What is dropped when there is no room is the newest of who sends most.

    count   datagrams that wait
    bytes   their bytes
    """

    __slots__ = ("_hosts", "bytes", "count")

    def __init__(self) -> None:
        self._hosts: dict[str, dict[Address, deque[bytes]]] = {}
        self.bytes = 0
        self.count = 0

    def add(self, data: bytes, address: Address) -> bool:
        """Append a datagram to those of its address. False: there is no room for it."""
        ports = self._hosts.get(address[0])
        if ports is None:
            if self.count >= DATAGRAMS_MAX + NEWCOMERS_MAX or self.bytes >= 2 * BYTES_MAX:
                return False
            ports = self._hosts[address[0]] = {}
        elif self.count >= DATAGRAMS_MAX or self.bytes >= BYTES_MAX:
            return False
        waiting = ports.get(address)
        if waiting is None:
            waiting = ports[address] = deque()
        elif len(waiting) >= OF_ADDRESS_MAX:
            return False
        waiting.append(data)
        self.count += 1
        self.bytes += len(data)
        return True

    def take(self) -> tuple[bytes, Address]:
        """The next datagram, of the host and the address whose turn it is. `count` is not 0."""
        hosts = self._hosts
        host, ports = next(iter(hosts.items()))
        address, waiting = next(iter(ports.items()))
        data = waiting.popleft()
        self.count -= 1
        self.bytes -= len(data)
        if not waiting:
            del ports[address]
        elif len(ports) > 1:
            del ports[address]
            ports[address] = waiting
        if not ports:
            del hosts[host]
        elif len(hosts) > 1:
            del hosts[host]
            hosts[host] = ports
        return data, address
