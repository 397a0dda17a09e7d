"""Headgate and Apache RocketMQ, each started on free ports with a data folder of its own."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks.process import Process, free_port
from gateway.node.protocols import installed

ROOT = Path(__file__).resolve().parent.parent
APACHE_JARS = ROOT / ".deps" / "apache"
START_S = 60.0


class AbsentError(Exception):
    """A peer is not installed. The message contains the command that installs it."""


class Counter(Protocol):
    """Counts the instructions of a server."""

    def begin(self) -> None:
        """Count from now on."""

    def end(self) -> float:
        """Stop counting. Returns the instructions since `begin`."""


@dataclass
class Server:
    """A running server of one side: its processes, the port of each protocol, and what counts its instructions, if any.

    roles        what a process does -> the process, where the figures of each are wanted
    store_port   where gateways reach its store; 0: they do not
    """

    name: str
    ports: dict[str, int]
    processes: list[Process] = field(default_factory=list)
    counter: Counter | None = None
    roles: dict[str, Process] = field(default_factory=dict)
    store_port: int = 0

    def cpu_s(self) -> float:
        """CPU time of all its processes, in seconds."""
        return sum(process.cpu_s() for process in self.processes)

    def anonymous_mb(self) -> float:
        """Anonymous memory of all its processes, in megabytes."""
        return sum(process.anonymous_mb() for process in self.processes)

    def stop(self) -> None:
        """Stop the processes in the reverse order of their start."""
        for process in reversed(self.processes):
            process.stop()


def headgate(
    folder: Path,
    durability: str,
    root: Path = ROOT,
    python: str = sys.executable,
    under: Sequence[str] = (),
    start_s: float = START_S,
) -> Server:
    """Start `headgate up` of the checkout at `root`. `under` is a command that runs it; it has `start_s` to become ready."""
    ports = {name: free_port() for name in installed().ports}
    command = [*under, python, "-m", "gateway", "up", "--data", str(folder / "data"), "--durability", durability]
    for name, port in ports.items():
        command += ["--port", f"{name}={port}"]
    server = Server("headgate", ports, [Process(command, folder, {"PYTHONPATH": str(root)})])
    _up(server, server.processes[0], "remoting", "admin", seconds=start_s)
    _ready(server, start_s)
    return server


def gateway_and_store(folder: Path, durability: str) -> Server:
    """Start a process with the role store and one with the role gateway before it. The ports are those of the gateway."""
    own = {name: free_port() for name in ("nameserver", "remoting", "admin")}
    run = [sys.executable, "-m", "gateway", "run", "--durability", durability]
    told = {"PYTHONPATH": str(ROOT)}
    command = [*run, "--roles", "store", "--data", str(folder / "store" / "data"), *_ports(own)]
    server = Server("gateway and store", own, [Process(command, folder / "store", told)])
    server.roles["store"] = server.processes[0]
    _up(server, server.processes[0], "remoting", "admin")
    server.store_port = own["remoting"]
    gateway = gateway_before(folder, server)
    server.ports = gateway.ports
    server.processes += gateway.processes
    server.roles["gateway"] = gateway.processes[0]
    return server


def gateway_before(folder: Path, store: Server) -> Server:
    """Start a gateway before the store of a server."""
    ports = {name: free_port() for name in installed().ports}
    own = folder / f"gateway{ports['admin']}"
    command = [sys.executable, "-m", "gateway", "run", "--roles", "gateway", "--store", f"127.0.0.1:{store.store_port}"]
    process = Process([*command, "--data", str(own / "data"), *_ports(ports)], own, {"PYTHONPATH": str(ROOT)})
    server = Server("gateway", ports, [process])
    _up(server, process, "remoting", "admin")
    _ready(server, START_S)
    return server


def _ports(ports: dict[str, int]) -> list[str]:
    return [f"--port={name}={port}" for name, port in ports.items()]


def apache(folder: Path, durability: str) -> Server:
    """Start Apache RocketMQ: a name server, and a broker with the gRPC proxy in the same JVM (its LOCAL mode)."""
    return _apache(folder, durability, apart=False)


def apache_proxy(folder: Path, durability: str) -> Server:
    """Start Apache RocketMQ: a name server, a broker, and a proxy in CLUSTER mode before it, each in a JVM of its own.

    `remoting` is the broker's port, on which topics are made; `proxy` is the proxy's.
    """
    return _apache(folder, durability, apart=True)


def gateway_and_apache(folder: Path, durability: str) -> Server:
    """Start Apache's name server and broker, and a gateway of Headgate before them.

    `remoting` is the broker's port, as in `apache_proxy`; `proxy` is the port of the gateway at which the broker is served.
    """
    server = _apache(folder / "apache", durability, apart=True, proxy=False)
    ports = {name: free_port() for name in installed().ports}
    own = folder / "gateway"
    where = f"rocketmq://127.0.0.1:{server.ports['nameserver']}"
    command = [sys.executable, "-m", "gateway", "run", "--roles", "gateway", "--store", where, "--durability", durability]
    told = {"PYTHONPATH": str(ROOT), "HEADGATE_STORE_BROKER_PORTS": str(server.ports["proxy"])}
    gateway = Process([*command, "--data", str(own / "data"), *_ports(ports)], own, told)
    server.processes.append(gateway)
    server.roles = {"store": server.processes[1], "gateway": gateway}
    server.ports = {**ports, "remoting": server.ports["remoting"], "proxy": server.ports["proxy"]}
    return _up(server, gateway, "grpc", "proxy")


def _apache(folder: Path, durability: str, *, apart: bool, proxy: bool = True) -> Server:
    if not APACHE_JARS.is_dir():
        raise AbsentError("Apache RocketMQ is not there: cd benchmarks/apache && mvn dependency:copy-dependencies "
                     "-DoutputDirectory=../../.deps/apache")  # fmt: skip
    ports = {"nameserver": free_port(), "remoting": _apache_port(), "grpc": free_port(), "proxy": free_port()}
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "conf").mkdir(parents=True)
    (folder / "ns.conf").write_text(f"listenPort={ports['nameserver']}\n")
    flush = "SYNC_FLUSH" if durability == "flushed" else "ASYNC_FLUSH"
    (folder / "bk.conf").write_text(
        f"brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\nbrokerIP1=127.0.0.1\n"
        f"namesrvAddr=127.0.0.1:{ports['nameserver']}\nlistenPort={ports['remoting']}\nstorePathRootDir={folder}/store\n"
        f"flushDiskType={flush}\nautoCreateTopicEnable=true\nmappedFileSizeCommitLog=268435456\n"
    )
    (folder / "conf" / "rmq-proxy.json").write_text(
        json.dumps(
            {
                "rocketMQClusterName": "DefaultCluster",
                "proxyMode": "CLUSTER" if apart else "LOCAL",
                "namesrvAddr": f"127.0.0.1:{ports['nameserver']}",
                "grpcServerPort": ports["grpc"],
                "remotingListenPort": ports["proxy"],
            }
        )
    )
    java = [
        "java", "-Xms1g", "-Xmx2g", "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", f"-Drocketmq.home.dir={folder}",
        f"-Duser.home={folder}", "-cp", f"{APACHE_JARS}/*",
    ]  # fmt: skip
    start = "org.apache.rocketmq."
    server = Server("apache", ports)
    server.processes.append(Process([*java, f"{start}namesrv.NamesrvStartup", "-c", f"{folder}/ns.conf"], folder / "ns"))
    _up(server, server.processes[0], "nameserver")
    where = ["-n", f"127.0.0.1:{ports['nameserver']}"]
    home = {"RMQ_PROXY_HOME": str(folder)}
    if not apart:
        both = [*java, f"{start}proxy.ProxyStartup", "-pm", "local", "-bc", f"{folder}/bk.conf", *where]
        server.processes.append(Process(both, folder / "bk", home))
        return _up(server, server.processes[1], "remoting", "grpc")
    server.processes.append(Process([*java, f"{start}broker.BrokerStartup", "-c", f"{folder}/bk.conf", *where], folder / "bk"))
    _up(server, server.processes[1], "remoting")
    if not proxy:
        return server
    server.processes.append(Process([*java, f"{start}proxy.ProxyStartup", "-pm", "cluster", *where], folder / "px", home))
    server.roles = {"store": server.processes[1], "gateway": server.processes[2]}
    return _up(server, server.processes[2], "grpc", "proxy")


def _up(server: Server, process: Process, *names: str, seconds: float = START_S) -> Server:
    """Wait until the process listens on its ports. Stops the server when it does not."""
    try:
        for name in names:
            process.wait_port(server.ports[name], seconds)
    except (RuntimeError, TimeoutError):
        server.stop()
        raise
    return server


def _ready(server: Server, seconds: float) -> None:
    """Wait until /readyz says that the node serves. Stops the server when it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{server.ports['admin']}/readyz", timeout=5),
        ):
            return
        time.sleep(0.05)
    server.stop()
    raise TimeoutError("the node is not ready")


def _apache_port() -> int:
    """A free port whose neighbours are free too: the broker also opens those."""
    while True:
        port = free_port()
        if port > 10_000 and port < 60_000:
            return port
