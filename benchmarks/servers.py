"""Headgate, started on free ports with a data folder of its own."""

from __future__ import annotations

import contextlib
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
START_S = 60.0
GENERATOR_CONNECTIONS = 10_000_000
"""Connections that a server takes of one address: all those of a benchmark come from there."""


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

    beside       ports of further gateways before the same store, among which connections are divided
    roles        what processes do -> the processes, where the figures of each are wanted
    store_port   where gateways reach its store; 0: they do not
    """

    name: str
    ports: dict[str, int]
    processes: list[Process] = field(default_factory=list)
    counter: Counter | None = None
    beside: list[dict[str, int]] = field(default_factory=list)
    roles: dict[str, list[Process]] = field(default_factory=dict)
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
    notified = {"PYTHONPATH": str(root), "HEADGATE_LIMITS_CONNECTIONS_PER_ADDRESS": str(GENERATOR_CONNECTIONS)}
    server = Server("headgate", ports, [Process(command, folder, notified)])
    up(server, server.processes[0], "remoting", "admin", seconds=start_s)
    _ready(server, start_s)
    return server


def gateway_and_store(folder: Path, durability: str) -> Server:
    """Start a process with the role store and one with the role gateway before it. The ports are those of the gateway."""
    own = {name: free_port() for name in ("nameserver", "remoting", "admin")}
    run = [sys.executable, "-m", "gateway", "run", "--durability", durability]
    notified = {"PYTHONPATH": str(ROOT)}
    command = [*run, "--roles", "store", "--data", str(folder / "store" / "data"), *port_options(own)]
    server = Server("gateway and store", own, [Process(command, folder / "store", notified)])
    server.roles["store"] = [server.processes[0]]
    up(server, server.processes[0], "remoting", "admin")
    server.store_port = own["remoting"]
    gateway = gateway_before(folder, server)
    server.ports = gateway.ports
    server.processes += gateway.processes
    server.roles["gateway"] = gateway.processes
    return server


def gateway_before(folder: Path, store: Server) -> Server:
    """Start a gateway before the store of a server."""
    ports = {name: free_port() for name in installed().ports}
    own = folder / f"gateway{ports['admin']}"
    command = [sys.executable, "-m", "gateway", "run", "--roles", "gateway", "--store", f"127.0.0.1:{store.store_port}"]
    process = Process([*command, "--data", str(own / "data"), *port_options(ports)], own, {"PYTHONPATH": str(ROOT)})
    server = Server("gateway", ports, [process])
    up(server, process, "remoting", "admin")
    _ready(server, START_S)
    return server


def port_options(ports: dict[str, int]) -> list[str]:
    """Options of the command that set ports."""
    return [f"--port={name}={port}" for name, port in ports.items()]


def up(server: Server, process: Process, *ports: str | int, seconds: float = START_S) -> Server:
    """Wait until the process listens on these ports, given by number or by name. Stops the server when it does not."""
    try:
        for port in ports:
            process.wait_port(server.ports[port] if isinstance(port, str) else port, seconds)
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
