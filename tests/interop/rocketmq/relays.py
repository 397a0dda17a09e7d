"""Gateways before an Apache cluster, as remoting clients and tools see them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase
from types import TracebackType

from benchmarks.process import free_run
from tests.interop.rocketmq.gateway import gateway_before
from tests.patience import until

HOST = "127.0.0.1"


class RelayNode:
    """One gateway, from `with` to the end of the block.

    by_name       brokers have no ports of their own
    brokers       how many the cluster has
    environment   added to that of the gateway
    """

    def __init__(
        self, folder: Path, before: str, by_name: bool = False, brokers: int = 2, environment: Mapping[str, str] | None = None
    ) -> None:
        self._first_port = 0 if by_name else free_run()
        self._brokers = brokers
        self.node = gateway_before(before, folder, "--durability", "page", broker_ports=self._first_port)
        self.node.environment.update(environment or {})

    @property
    def nameserver(self) -> str:
        """host:port for clients."""
        return f"{HOST}:{self.node.port('nameserver')}"

    def at(self, number: int) -> str:
        """The address of a broker, in the order of their names. A broker gets another port when one is taken."""
        [*_, port] = re.findall(rf"broker broker-{ascii_lowercase[number]} at \S+ is served at port (\d+)", self.node.text())
        return f"{HOST}:{port}"

    def port_of(self, address: str) -> str:
        """The address here of the broker at `address`, a slave too."""
        [*_, port] = re.findall(rf"broker \S+ at {re.escape(address)} is served at port (\d+)", self.node.text())
        return f"{HOST}:{port}"

    def __enter__(self) -> RelayNode:
        self.node.start()
        if self._first_port:
            until(self._served, 60, self.text)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.node.kill()

    def _served(self) -> bool:
        """True when all brokers have their ports."""
        return self.node.text().count(" is served at port ") >= self._brokers

    def text(self) -> str:
        """What it has logged."""
        return self.node.text()[-4000:]
