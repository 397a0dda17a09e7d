"""A store and gateways before it, each a process of its own on loopback.

with Cluster(tmp_path, gateways=2) as cluster:
    cluster.store, cluster.gateways[0].port("mqtt")
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from tests.interop.node import Node

ROLES = "--roles"


class Cluster:
    """One process with the role store, and some with the role gateway."""

    def __init__(self, folder: Path, gateways: int = 2, *options: str) -> None:
        self.folder = folder
        self.store = Node(folder / "store", ROLES, "store", *options, verb="run")
        self.gateways: list[Node] = []
        self._count = gateways

    def __enter__(self) -> Cluster:
        self.store.start()
        for number in range(self._count):
            self.gateways.append(self.gateway(f"gateway{number}"))
        for node in self.gateways:
            node.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for node in (*self.gateways, self.store):
            node.stop()

    def gateway(self, name: str, *options: str) -> Node:
        """A gateway before the store, not started yet."""
        where = f"127.0.0.1:{self.store.port('remoting')}"
        return Node(self.folder / name, ROLES, "gateway", "--store", where, *options, verb="run")
