"""A store group with proxies between its replicas, and between these and the controllers: what chaos happens to.

Each replica's process is a gateway too, and a controller, unless these are processes of their own; before the replicas stands a
gateway of its own. Replica 1 has a slow disk, replica 3 a small volume.
"""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from types import TracebackType
from typing import Final

from domain.controller.group import StoreGroup
from gateway.cluster.operator.controllers import ClusterControllers
from tests.interop.controller.controllers import until
from tests.interop.node import Node, free_ports
from tests.interop.replication.chaos.damage import Damage
from tests.interop.replication.chaos.full_disk import SmallVolume
from tests.interop.replication.chaos.proxy import LoopbackProxy
from tests.interop.replication.logs import log_end, log_of
from tests.interop.replication.slow_disk import SlowDisk

COUNT: Final = 3
SETTINGS: Final = {
    "HEADGATE_STORE_SEGMENT_BYTES": str(1 << 16),
    "HEADGATE_STORE_CHECKPOINT_BYTES": str(1 << 18),
    "HEADGATE_STORE_CHECKPOINT_MS": "5000",
    "HEADGATE_STORE_FREE_RATIO_MIN": "0.01",
    "HEADGATE_STORE_PRESSURE_RATIO": "0",
    "HEADGATE_STORE_SCRUB_PASS_S": "2",
    "HEADGATE_STORE_SCRUB_BYTES_MIN": str(1 << 21),
}
HEAL_S: Final = 240.0


class ChaosGroup:
    """Three replicas, a gateway, and everything that can go wrong between them.

    nodes     the replicas; `gateway` stands before them
    apart     the controllers that are processes of their own
    follow    proxy before the replication port of each replica
    control   (replica, controller) -> proxy
    disk      the one of the first replica, which can be made slow; None without a C compiler
    damage    what is damaged of their logs
    skipped   faults that are not possible here, and why
    """

    def __init__(self, folder: Path, apart: bool = False) -> None:
        """`apart`: the controllers are processes of their own."""
        self.disk = SlowDisk(folder, writes=True) if shutil.which("cc") else None
        self.volume = SmallVolume(folder / "replica-3" / "data")
        self.skipped = [] if self.disk is not None else ["no C compiler (cc) for the slow disk"]
        self.skipped += [self.volume.missing] if self.volume.missing else []
        ports = [free_ports()["controller"] for _ in range(COUNT)]
        self.controllers = [f"127.0.0.1:{port}" for port in ports]
        peers = {"HEADGATE_CONTROLLER_PEERS": json.dumps(self.controllers)}
        self.follow: list[LoopbackProxy] = []
        self.control: dict[tuple[int, int], LoopbackProxy] = {}
        self.nodes: list[Node] = []
        for number in range(COUNT):
            ways = []
            for at, port in enumerate(ports):
                way = free_ports()["controller"]
                self.control[number, at] = LoopbackProxy(way, port)
                ways.append(f"127.0.0.1:{way}")
            address = free_ports()["replication"]
            environment = {
                **({} if apart else peers),
                "HEADGATE_REPLICATION_CONTROLLERS": json.dumps(ways),
                "HEADGATE_REPLICATION_ADDRESS": f"127.0.0.1:{address}",
                **SETTINGS,
                **(self.disk.environment if number == 0 and self.disk is not None else {}),
            }
            roles = ("gateway,store",) if apart else ("gateway,store,controller", f"--port=controller={ports[number]}")
            node = Node(folder / f"replica-{number + 1}", "--roles", *roles, verb="run", environment=environment)
            node.choose_ports()
            self.follow.append(LoopbackProxy(address, node.port("replication")))
            self.nodes.append(node)
        stores = ",".join(f"127.0.0.1:{node.port('remoting')}" for node in self.nodes)
        self.gateway = Node(folder / "gateway", "--roles", "gateway", "--store", stores, verb="run")
        self.apart = [
            Node(
                folder / f"controller-{port}",
                "--roles",
                "controller",
                f"--port=controller={port}",
                verb="run",
                environment=peers,
            )
            for port in (ports if apart else ())
        ]
        self.damage = Damage(self.nodes)
        self.running: set[Node] = set()
        self.paused: set[Node] = set()

    def __enter__(self) -> ChaosGroup:
        try:
            for node in (*self.apart, *self.nodes):
                self.start(node)
            until(lambda: len(self.members()) == COUNT, "all replicas are in sync", HEAL_S)
            self.start(self.gateway)
            until(self.gateway.serves, "the gateway serves", HEAL_S)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End everything."""
        for node in list(self.running):
            self.kill(node)
        for proxy in self.proxies():
            proxy.close()
        self.volume.close()

    def proxies(self) -> list[LoopbackProxy]:
        """All of them."""
        return [*self.follow, *self.control.values()]

    def start(self, node: Node) -> None:
        """Start without waiting."""
        node.folder.mkdir(exist_ok=True)
        node.spawn()
        self.running.add(node)

    def kill(self, node: Node) -> None:
        """kill -9."""
        self.running.discard(node)
        self.paused.discard(node)
        node.kill()

    def pause(self, node: Node) -> None:
        """SIGSTOP."""
        node.signal(signal.SIGSTOP)
        self.paused.add(node)

    def resume(self, node: Node) -> None:
        """SIGCONT."""
        self.paused.discard(node)
        if node in self.running:
            node.signal(signal.SIGCONT)

    def heal(self) -> None:
        """All faults end."""
        for proxy in self.proxies():
            proxy.heal()
        for node in list(self.paused):
            self.resume(node)
        if self.volume.is_full:
            self.volume.free()
        if self.disk is not None:
            self.disk.well()
        self.revive_all()

    def revive_all(self) -> None:
        """Start whoever was killed, or has ended by itself."""
        for node in (*self.apart, *self.nodes, self.gateway):
            self.revive(node)

    def revive(self, node: Node) -> None:
        """Start a node that was killed, or that has ended by itself: an operator's supervisor would."""
        if node in self.running and node.ended():
            self.kill(node)
        if node not in self.running:
            self.start(node)

    def group(self) -> StoreGroup | None:
        """The store group, by the word of the controllers; None while nobody tells."""
        controllers = ClusterControllers(self.controllers, None, None)
        try:
            return controllers.group("broker-a")[0]
        except Exception:  # whatever it is, it is asked again
            return None
        finally:
            controllers.close()

    def members(self) -> list[int]:
        """Ids of the SyncStateSet."""
        group = self.group()
        return [] if group is None else list(group.in_sync)

    def leader(self) -> Node | None:
        """The replica that serves, if one does."""
        for node in self.nodes:
            if node in self.running and node not in self.paused and node.serves():
                return node
        return None

    def logs_equal(self) -> bool:
        """True when all logs end at one place and are the same from where all of them begin."""
        ends = {log_end(node) for node in self.nodes}
        if len(ends) != 1:
            return False
        begin = max(min(int(each.name) for each in (node.data / "log").iterdir() if each.name.isdigit()) for node in self.nodes)
        return len({log_of(node, begin, max(ends)) for node in self.nodes}) == 1
