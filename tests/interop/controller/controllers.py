"""Three controllers of Headgate, each a process of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from gateway.client.link import Link
from tests.interop.node import Node, free_ports

GET_METADATA_INFO = 1005
WAIT_S = 180.0


class Controllers:
    """The controllers, in the order of their settings. `nodes` can be killed and started again."""

    def __init__(self, folder: Path, count: int = 3, roles: str = "controller") -> None:
        """`roles`: of each process."""
        ports = [free_ports()["controller"] for _ in range(count)]
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        peers = json.dumps(self.addresses)
        self._folder = folder
        self._roles = roles
        self.nodes = [self._node(number, port, peers) for number, port in enumerate(ports)]

    def __enter__(self) -> Controllers:
        for node in self.nodes:
            node.start()
        self.leader()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for node in self.nodes:
            node.kill()

    def _node(self, number: int, port: int, peers: str) -> Node:
        return Node(
            self._folder / f"controller-{number}", "--roles", self._roles, f"--port=controller={port}", verb="run",
            environment={"HEADGATE_CONTROLLER_PEERS": peers},
        )  # fmt: skip

    def another(self, *seeds: str) -> Node:
        """Start one more controller, which looks for the others at `seeds`; it is not added yet."""
        port = free_ports()["controller"]
        address = f"127.0.0.1:{port}"
        node = self._node(len(self.nodes), port, json.dumps([*seeds, address]))
        self.nodes.append(node)
        self.addresses.append(address)
        node.start()
        return node

    def leader(self, other_than: Node | None = None) -> Node:
        """The controller that leads, by its own word; waits until there is one."""
        found: list[Node] = []

        def leads() -> bool:
            found[:] = [
                node for node, address in zip(self.nodes, self.addresses, strict=True)
                if node is not other_than and self._says(address).get("isLeader") == "true"
            ]  # fmt: skip
            return len(found) == 1

        until(leads, "one controller leads")
        return found[0]

    def address_of(self, node: Node) -> str:
        """host:port of a controller."""
        return self.addresses[self.nodes.index(node)]

    def _says(self, address: str) -> dict[str, str]:
        with suppress(OSError):
            link = Link(address, 5)
            try:
                (reply,) = link.ask([(GET_METADATA_INFO, {}, b"")])
            finally:
                link.close()
            return dict(reply.fields() or {})
        return {}


def until(holds: Callable[[], bool], what: str, seconds: float = WAIT_S) -> None:
    """Wait until something holds. AssertionError when it does not in time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it does not come true within {seconds:g} s that {what}"
        time.sleep(0.1)
