"""Brokers of the cluster as reported by name servers, and the port of this gateway at which each is served."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, final

from domain.address import endpoint_of, endpoint_text
from domain.errors import ConfigError
from gateway.apache.relay.settings import RelaySettings

MASTER: Final = 0
OpenPort = Callable[[int], int]
"""Serve clients of remoting at one more port, 0 for any -> the port. Raises ConfigError when it cannot be had."""

log = logging.getLogger("headgate.rocketmq")


@final
class RelayBrokers:
    """Brokers learned from replies of name servers. A port stays with the address of its broker.

    host       host of this gateway in the addresses that clients get
    _sets      name of a broker -> broker id -> address
    _ports     address of a broker -> port
    _pins      port -> address
    _refused   ports that another process has
    _logged    texts that were logged already
    """

    def __init__(self, host: str, settings: RelaySettings, kept: Mapping[str, int], keep: Callable[[str, int], None]) -> None:
        """`kept`: the ports of earlier runs, address -> port; `keep`: called with the address and the port of a new one."""
        self.host = host
        self._settings = settings
        self._kept = dict(kept)
        self._keep = keep
        self._refused: set[int] = set()
        self._sets: dict[str, dict[int, str]] = {}
        self._ports: dict[str, int] = {}
        self._pins: dict[int, str] = {}
        self._logged: set[str] = set()
        self.open_port: OpenPort | None = None

    @property
    def ports(self) -> Mapping[str, int]:
        """Address of a broker -> the port of this gateway at which it is served."""
        return self._ports

    def learn(self, name: str, addresses: Mapping[int, str]) -> None:
        """Take the addresses of a broker from a name server: broker id -> address."""
        self._sets[name] = dict(addresses)

    def forget_others(self, names: set[str]) -> None:
        """Drop the brokers that are not in `names`."""
        for name in [each for each in self._sets if each not in names]:
            del self._sets[name]

    def master(self, name: str) -> str:
        """The address of a broker's master or acting master; "" for an unknown broker."""
        found = self._sets.get(name, {})
        return min(((each, where) for each, where in found.items() if each >= MASTER), default=(0, ""))[1]

    def masters(self) -> list[str]:
        """The addresses of all masters, in the order of their names."""
        return [self.master(name) for name in sorted(self._sets)]

    def holds(self, name: str, address: str) -> bool:
        """True when `address` belongs to broker `name`, or `name` is unknown."""
        found = self._sets.get(name)
        return not found or address in found.values()

    def name_at(self, address: str) -> str:
        """The name of the broker at an address; "": unknown."""
        return next((name for name, found in self._sets.items() if address in found.values()), "")

    def pin(self, port: int) -> str:
        """The address of the broker that is served at a port; "" for other ports."""
        return self._pins.get(port, "")

    def reached_at(self, address: str) -> str:
        """The address at which clients reach the broker at `address`: a port of this gateway, which is opened, or `address`."""
        port = self._ports.get(address) or self._opened(address)
        return endpoint_text(self.host, port) if port else address

    def _opened(self, address: str) -> int:
        if self.open_port is None or not self._settings.broker_ports or endpoint_of(address) is None:
            return 0
        if len(self._ports) >= self._settings.brokers_max:
            self._notify(f"more than {self._settings.brokers_max} brokers: clients reach {address} without this gateway")
            return 0
        kept = self._kept.get(address, 0)
        taken = {*self._kept.values(), *self._pins, *self._refused}
        first = self._settings.broker_ports
        free = [each for each in range(first, min(65_536, first + 2 * self._settings.brokers_max)) if each not in taken]
        for port in [kept, *free] if kept else free:
            try:
                found = self.open_port(port)
            except ConfigError as error:
                self._refused.add(port)
                self._notify(f"port {port} is not to be had for broker {address}, which gets another one: {error}")
                continue
            self._ports[address] = found
            self._pins[found] = address
            if found != kept:
                self._keep(address, found)
            log.info("broker %s at %s is served at port %d", self.name_at(address), address, found)
            return found
        return 0

    def _notify(self, text: str) -> None:
        if text not in self._logged and len(self._logged) < 1_024:
            self._logged.add(text)
            log.warning("%s", text)
