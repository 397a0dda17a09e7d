"""Datagrams that were read and wait to be handled: hosts take turns, and the ports of a host take turns within its share."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final, final

from domain.address import network_of_host

Address = tuple[str, int]

DATAGRAMS_MAX: Final = 8_192
BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes of datagrams that wait; twice as many with those of newcomers."""
OF_ADDRESS_MAX: Final = 256
"""Datagrams of one address that wait; further ones are dropped."""
NEWCOMERS_MAX: Final = 2_048
"""Datagrams beyond DATAGRAMS_MAX, for hosts of which nothing waits."""


@final
class Inbox:
    """Waiting datagrams. Without room, the newest one of the sender with most datagrams is dropped.

    _hosts   host (`network_of_host`) -> address -> its waiting datagrams, a lone one as it is
    """

    __slots__ = ("_hosts", "bytes", "count")

    def __init__(self) -> None:
        self._hosts: dict[str, dict[Address, bytes | deque[bytes]]] = {}
        self.bytes = 0
        self.count = 0

    @property
    def full(self) -> bool:
        """True when there is room for hosts only of which nothing waits."""
        return self.count >= DATAGRAMS_MAX or self.bytes >= BYTES_MAX

    @property
    def is_of_one_host(self) -> bool:
        """True when all that waits is of one host."""
        return len(self._hosts) == 1

    def waits(self, host: str, address: Address | None) -> bool:
        """True while a datagram of the host waits, or of one of its addresses."""
        ports = self._hosts.get(host)
        return ports is not None and (address is None or address in ports)

    def add(self, data: bytes, address: Address) -> bool:
        """Append a datagram to those of its address. False: there is no room for it."""
        return self._add(data, address, network_of_host(address[0]))

    def _add(self, data: bytes, address: Address, host: str) -> bool:
        ports = self._hosts.get(host)
        if ports is None:
            if self.count >= DATAGRAMS_MAX + NEWCOMERS_MAX or self.bytes >= 2 * BYTES_MAX:
                return False
            ports = self._hosts[host] = {}
        elif self.count >= DATAGRAMS_MAX or self.bytes >= BYTES_MAX:
            return False
        waiting = ports.get(address)
        if waiting is None:
            ports[address] = data
        elif isinstance(waiting, bytes):
            ports[address] = deque((waiting, data))
        elif len(waiting) >= OF_ADDRESS_MAX:
            return False
        else:
            waiting.append(data)
        self.count += 1
        self.bytes += len(data)
        return True

    def add_all(self, datagrams: list[tuple[bytes, Address]]) -> int:
        """Append datagrams. Returns the number of those for which there is no room."""
        dropped = 0
        last = host = ""
        for data, address in datagrams:
            if address[0] != last:
                last = address[0]
                host = network_of_host(last)
            if not self._add(data, address, host):
                dropped += 1
        return dropped

    def take(self) -> tuple[bytes, Address]:
        """The next datagram, of the host and the address whose turn it is. `count` is not 0."""
        hosts = self._hosts
        host = next(iter(hosts))
        ports = hosts[host]
        address = next(iter(ports))
        waiting = ports[address]
        if isinstance(waiting, bytes):
            data = waiting
            del ports[address]
        else:
            data = waiting.popleft()
            del ports[address]
            if waiting:
                ports[address] = waiting
        self.count -= 1
        self.bytes -= len(data)
        if not ports:
            del hosts[host]
        elif len(hosts) > 1:
            del hosts[host]
            hosts[host] = ports
        return data, address

    def take_some(self, most: int) -> list[tuple[bytes, Address]]:
        """Take the datagrams whose turn it is, `most` of them or all."""
        taken: list[tuple[bytes, Address]] = []
        while len(taken) < most and self.count:
            if len(self._hosts) > 1:
                taken.append(self.take())
            else:
                self._take_round(taken, most)
        return taken

    def _take_round(self, taken: list[tuple[bytes, Address]], most: int) -> None:
        """Append one datagram of each address of the only host, until there are `most`: as `take`, in less time."""
        ((host, ports),) = self._hosts.items()
        for address in list(islice(ports, most - len(taken))):
            waiting = ports.pop(address)
            if isinstance(waiting, bytes):
                data = waiting
            else:
                data = waiting.popleft()
                if waiting:
                    ports[address] = waiting
            self.count -= 1
            self.bytes -= len(data)
            taken.append((data, address))
        if not ports:
            del self._hosts[host]
