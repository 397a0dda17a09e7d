"""A store group of real processes: controllers, and replicas that are gateways too."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from domain.controller.group import StoreGroup
from domain.errors import ConfigError
from gateway.cluster.operator.controllers import ClusterControllers
from tests.interop.controller.controllers import Controllers, until
from tests.interop.node import Node
from tests.store.faults.soak import SOAK

SEND_S = 2.0
CONTROLLERS = 3 if SOAK else 1
"""Controllers of a group whose test does nothing to them: two processes more cost CPU and prove nothing."""


class StoreGroupNodes:
    """The replicas of one store group. `nodes` can be killed and started again.

    nameservers   host:port of name servers apart, at which the replicas register
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        *options: str,
        controllers: int = CONTROLLERS,
        environment: dict[str, str] | None = None,
        named: bool = False,
        late: int = 0,
    ) -> None:
        """`environment`: further variables of the replicas; `named`: the controllers are name servers, too.

        `late`: so many of the replicas, the last ones, are not started at the begin.
        """
        self._late = late
        self.controllers = Controllers(folder, controllers, "nameserver,controller" if named else "controller")
        self.nameservers: list[str] = []
        environment = {
            "HEADGATE_REPLICATION_CONTROLLERS": json.dumps(self.controllers.addresses),
            **(environment or {}),
        }
        if named:
            for node in self.controllers.nodes:
                node.claim()
                self.nameservers.append(f"127.0.0.1:{node.port('nameserver')}")
            environment["HEADGATE_REGISTRATION_NAMESERVERS"] = json.dumps(self.nameservers)
        self.nodes = [
            Node(folder / f"replica-{number}", "--roles", "gateway,store", *options, verb="run", environment=environment)
            for number in range(1, count + 1)
        ]
        self.running: set[Node] = set()
        self.gateways: list[Node] = []

    def __enter__(self) -> StoreGroupNodes:
        self.controllers.__enter__()
        for node in self.nodes[: len(self.nodes) - self._late]:
            has_data = node.data.exists()
            self.start(node)
            if has_data:
                self.leader()  # the first one founds the group with what it has
        self.leader()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for node in self.gateways:
            node.kill()
        for node in list(self.running):
            self.kill(node)
        self.controllers.__exit__(kind, error, trace)

    def start(self, node: Node) -> None:
        """Start a replica, without waiting: it is ready only when it leads."""
        node.folder.mkdir(exist_ok=True)
        node.spawn()
        self.running.add(node)

    def gateway(self, folder: Path) -> Node:
        """Start a gateway before all replicas, and wait until it serves."""
        stores = ",".join(f"127.0.0.1:{node.port('remoting')}" for node in self.nodes)
        gateway = Node(folder, "--roles", "gateway", "--store", stores, verb="run")
        gateway.start()
        self.gateways.append(gateway)
        return gateway

    def kill(self, node: Node) -> None:
        """kill -9."""
        self.running.discard(node)
        node.kill()

    def leader(self) -> Node:
        """The replica that leads; waits until there is one."""
        found: list[Node] = []

        def one() -> bool:
            found[:] = [node for node in self.running if node.serves()]
            return bool(found)

        until(one, "a replica leads")
        return found[0]

    def members(self) -> list[int]:
        """Ids of the SyncStateSet, by the word of the controllers."""
        return list(self._group().in_sync)

    def await_members(self, *ids: int) -> None:
        """Wait until the SyncStateSet is this."""

        def are() -> bool:
            try:
                return self.members() == list(ids)
            except ConfigError:  # no controller leads, for now
                return False

        until(are, f"the SyncStateSet is {ids}")

    def _group(self) -> StoreGroup:
        controllers = ClusterControllers(self.controllers.addresses, None, None)
        try:
            return controllers.group("broker-a")[0]
        finally:
            controllers.close()

    def send(self, topic: str, body: str) -> float:
        """Send a message by HTTP to whoever takes it, again and again; seconds until it was acknowledged."""
        began = time.monotonic()
        while True:
            for node in self.nodes:
                if node in self.running and post(node, topic, body):
                    return time.monotonic() - began
            assert time.monotonic() - began < 60, f"nobody takes {body!r}"
            time.sleep(0.02)

    def bodies(self, topic: str) -> list[str]:
        """The messages of a topic, as the leader has them, in the order of each queue."""
        return read_all(self.leader(), topic)


def registering_at(names: Node, file: Path) -> Path:
    """Write a configuration of replicas that register at a name server apart. Returns the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    where = f"127.0.0.1:{names.port('nameserver')}"
    file.write_text(f'[registration]\nnameservers = ["{where}"]\n')
    return file


def post(node: Node, topic: str, body: str, seconds: float = SEND_S) -> bool:
    """Send one message by HTTP; True when it is acknowledged."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{node.port('http')}/v1/topics/{topic}/messages", data=body.encode(), method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return bool(answer.status == 201)
    except (urllib.error.URLError, OSError):
        return False


def read_all(node: Node, topic: str) -> list[str]:
    """All messages of a topic by HTTP, queue by queue."""
    found: list[str] = []
    for queue in ask(node, f"/v1/topics/{topic}/queues")["queues"]:
        offset = int(queue["min"])
        while offset < int(queue["max"]):
            page = ask(node, f"/v1/topics/{topic}/queues/{queue['queue']}?offset={offset}&max=32")
            found += [base64.b64decode(each["body"]).decode() for each in page["messages"]]
            assert int(page["next"]) > offset
            offset = int(page["next"])
    return found


def ask(node: Node, path: str) -> Any:
    """The JSON of a GET."""
    with urllib.request.urlopen(f"http://127.0.0.1:{node.port('http')}{path}", timeout=30) as answer:
        return json.load(answer)
