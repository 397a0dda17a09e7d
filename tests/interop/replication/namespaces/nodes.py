"""Three stores, three controllers and two gateways, each a process in a network namespace of its own.

Each store has a small volume and a disk that can be made slow. A fourth store's place is free, and one for a copy of a store.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from domain.controller.group import StoreGroup
from gateway.cluster.operator.controllers import ClusterControllers
from tests.interop.node import ROOT
from tests.interop.replication.chaos.full_disk import SmallVolume
from tests.interop.replication.chaos.history import Bounds, Stored
from tests.interop.replication.chaos.nodes import SETTINGS
from tests.interop.replication.namespaces.network import Network
from tests.interop.replication.slow_disk import SlowDisk
from tests.patience import until

GROUP: Final = "broker-a"
STORES: Final = ("store-1", "store-2", "store-3")
CONTROLLERS: Final = ("controller-1", "controller-2", "controller-3")
GATEWAYS: Final = ("gateway-1", "gateway-2")
NEW: Final = "store-4"
COPY: Final = "copy"
ALL: Final = (*STORES, *CONTROLLERS, *GATEWAYS, NEW, COPY)
START_S: Final = 120.0
STOP_S: Final = 45.0
COMMAND_S: Final = 120.0
ANSWER_S: Final = 30.0


class NamespaceNode:
    """A process of `headgate run`. Its ports are the default ones, at an address of its own."""

    def __init__(self, network: Network, name: str, folder: Path, options: Sequence[str], environment: dict[str, str]) -> None:
        self.name = name
        self.data = folder / name / "data"
        self.log = folder / f"{name}.log"
        self.address = network.address[name]
        self.is_paused = False
        self._process: subprocess.Popen[bytes] | None = None
        hosts = ("--host", "0.0.0.0", "--advertise", self.address)
        self._command = [
            *network.inside(name), sys.executable, "-m", "gateway", "run", "--data", str(self.data), *hosts, *options,
        ]  # fmt: skip
        own = {"HEADGATE_INSECURE": "true", "HEADGATE_ADMIN_HOST": "0.0.0.0"}
        self._environment = {**os.environ, **own, **environment}

    @property
    def runs(self) -> bool:
        """True while there is a process, which may be paused."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start without waiting, unless it runs."""
        if self.runs:
            return
        self.data.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment
            )

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and wait."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP."""
        if self._process is not None and self.runs:
            self._process.send_signal(signal.SIGSTOP)
            self.is_paused = True

    def resume(self) -> None:
        """SIGCONT, when it is paused."""
        if self._process is not None and self.is_paused:
            self._process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def serves(self) -> bool:
        """True when /readyz says so within a second."""
        try:
            with urllib.request.urlopen(f"http://{self.address}:8088/readyz", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, path: str) -> Any:
        """The JSON of a GET of the HTTP API."""
        with urllib.request.urlopen(f"http://{self.address}:8080{path}", timeout=ANSWER_S) as answer:
            return json.load(answer)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        self.is_paused = False
        if process is not None:
            process.send_signal(number)
            process.wait(STOP_S)


class NamespaceCluster:
    """The nodes by name, and what is known of them. Logs and data stay in `folder` until the volumes are unmounted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.network = Network(ALL)
        self.controllers = [f"{self.network.address[name]}:9878" for name in CONTROLLERS]
        peers = json.dumps(self.controllers)
        stores = ",".join(f"{self.network.address[name]}:10911" for name in STORES)
        self.volumes: dict[str, SmallVolume] = {}
        self.disks: dict[str, SlowDisk] = {}
        self.nodes: dict[str, NamespaceNode] = {}
        for name in (*STORES, NEW, COPY):
            self.volumes[name] = SmallVolume(folder / name / "data")
            environment = {"HEADGATE_REPLICATION_CONTROLLERS": peers, **SETTINGS}
            if shutil.which("cc") is not None:
                self.disks[name] = SlowDisk(folder / name)
                environment |= self.disks[name].environment
            self._add(name, ("--roles", "store"), environment)
        for name in CONTROLLERS:
            self._add(name, ("--roles", "controller"), {"HEADGATE_CONTROLLER_PEERS": peers})
        for name in GATEWAYS:
            self._add(name, ("--roles", "gateway", "--store", stores), {})

    def _add(self, name: str, options: Sequence[str], environment: dict[str, str]) -> None:
        self.nodes[name] = NamespaceNode(self.network, name, self.folder, options, environment)

    def __enter__(self) -> NamespaceCluster:
        self.network.__enter__()
        try:
            for name in (*CONTROLLERS, *STORES, *GATEWAYS):
                self.nodes[name].start()
            until(self.is_whole, START_S, self.state)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End everything."""
        for node in self.nodes.values():
            node.kill()
        for volume in self.volumes.values():
            volume.close()
        self.network.__exit__(None, None, None)

    def group(self) -> StoreGroup | None:
        """The store group, by the word of the controllers; None while nobody tells."""
        asked = ClusterControllers(self.controllers, None, None)
        try:
            return asked.group(GROUP)[0]
        except Exception:  # whatever it is, it is asked again
            return None
        finally:
            asked.close()

    def store_of(self, replica: int) -> str:
        """The node of a replica; "": there is none."""
        group = self.group()
        address = "" if group is None else group.address(replica).partition(":")[0]
        return next((name for name in (*STORES, NEW) if self.network.address[name] == address), "")

    def leader(self) -> str:
        """The store that leads; waits until there is one."""
        found: list[str] = []

        def is_found() -> bool:
            group = self.group()
            found[:] = [] if group is None else [self.store_of(group.leader)]
            return bool(found and found[0])

        until(is_found, START_S, lambda: "no store leads")
        return found[0]

    def leading_controller(self) -> str:
        """The controller that leads; waits until there is one."""
        found: list[str] = []

        def is_found() -> bool:
            found[:] = [name for name in CONTROLLERS if self._leads(name)]
            return bool(found)

        until(is_found, START_S, lambda: "no controller leads")
        return found[0]

    def _leads(self, name: str) -> bool:
        address = f"{self.network.address[name]}:9878"
        asked = ClusterControllers([address], None, None)
        try:
            found = asked.controller(address).found
        finally:
            asked.close()
        return found is not None and found.leads

    def replicas_of(self, name: str) -> list[int]:
        """The ids under which the controllers know a store, ascending."""
        group = self.group()
        address = self.network.address[name]
        return [] if group is None else [each.id for each in group.replicas if each.address.partition(":")[0] == address]

    def is_whole(self) -> bool:
        """All stores that run are in sync, none is too many, and both gateways serve."""
        group = self.group()
        if group is None or not all(self.nodes[name].serves() for name in GATEWAYS):
            return False
        inside = {group.address(replica).partition(":")[0] for replica in group.in_sync}
        return inside == {node.address for name, node in self.nodes.items() if name in (*STORES, NEW) and node.runs}

    def state(self) -> str:
        """For people: what the controllers say, and who runs."""
        running = [name for name, node in self.nodes.items() if node.runs]
        return f"{self.group()}; running: {running}; serving: {[name for name in running if self.nodes[name].serves()]}"

    def headgate(self, *words: str) -> tuple[int, str]:
        """A command of `headgate cluster`: exit status and output."""
        command = [sys.executable, "-m", "gateway", "cluster", *words, "--controller", self.controllers[0]]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=COMMAND_S)
        return done.returncode, done.stdout + done.stderr

    def heal(self) -> None:
        """All faults of the network, the disks and of time end, and whoever should run does."""
        self.network.heal()
        for node in self.nodes.values():
            node.resume()
        for volume in self.volumes.values():
            if volume.is_full:
                volume.free()
        for disk in self.disks.values():
            disk.well()
        for name in (*CONTROLLERS, *STORES, *GATEWAYS):
            self.nodes[name].start()

    def stored(self, topic: str) -> tuple[Sequence[Stored], dict[int, Bounds]]:
        """All messages of a topic as a gateway gives them, and the bounds of its queues."""
        gateway = self.nodes[GATEWAYS[0]]
        found: list[Stored] = []
        bounds: dict[int, Bounds] = {}
        for queue in gateway.ask(f"/v1/topics/{topic}/queues")["queues"]:
            number, offset, end = int(queue["queue"]), int(queue["min"]), int(queue["max"])
            bounds[number] = Bounds(offset, end)
            while offset < end:
                page = gateway.ask(f"/v1/topics/{topic}/queues/{number}?offset={offset}&max=32")
                found += [Stored(number, int(each["offset"]), _body(each)) for each in page["messages"]]
                assert int(page["next"]) > offset
                offset = int(page["next"])
        return found, bounds


def _body(message: Mapping[str, str]) -> str:
    return base64.b64decode(message["body"]).decode()
