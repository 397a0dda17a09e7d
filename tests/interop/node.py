"""A real `headgate up` for one test: its own process, data folder and ports.

    node = Node(tmp_path, "--durability", "page")
    node.start()
    node.port("mqtt"), node.admin("/metrics")
    node.kill(); node.start()          the same data and ports
    node.stop()

Also a context manager. What the server printed is in `node.log`, and in the message of every failure here.

With TEST_GATEWAYS=3 in the environment of the tests, the same node is a store, three gateways and a balancer before them
(tests/interop/cluster/spread.py), so that every test can be run over a cluster.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Protocol

from gateway.node.protocols import installed
from tests.interop import warm
from tests.interop.cluster.spread import Spread
from tests.interop.warm import WarmProcess

ROOT = Path(__file__).resolve().parents[2]
READY_S = 300.0
STOP_S = 45.0
ATTEMPTS = 5
RANGE = (12_000, 32_000)
GATEWAYS_USER = "gateways:of-the-tests"
"""The Super user of a store that has none of its own: gateways have to be one."""
_CHANCE = random.SystemRandom()
_CLAIMS = Path(tempfile.gettempdir()) / f"headgate-test-ports-{os.getuid()}"
_claims: list[int] = []
"""An open file. A process that uses port N holds a lock on byte N; the locks end with the process."""
_mine: set[int] = set()


class Ports(Protocol):
    """Something with a port on loopback for each of several protocols, as a node."""

    def port(self, name: str) -> int:
        """The port of one listener, as `Node.port`."""


class Node:
    """One server process on loopback.

    `options`: of `headgate up`, or of another `verb`; `environment`: added to that of the test. `root` may be set to the
    source tree of another version, and `unknown_ports` to the listeners that it does not have.
    """

    def __init__(self, folder: Path, *options: str, environment: dict[str, str] | None = None, verb: str = "up") -> None:
        self._verb = verb
        self.root = ROOT
        self.unknown_ports: frozenset[str] = frozenset()
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "headgate.log"
        self.options = options
        self.environment = {**os.environ, **(environment or {})}
        self._ports: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | WarmProcess | None = None
        self._spread = Spread.of_environment() if verb == "up" else None

    def __enter__(self) -> Node:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def choose_ports(self) -> None:
        """Choose the ports before the first start, for who has to know them then."""
        self._ports = self._ports or free_ports()

    def start(self) -> Node:
        """Start and wait until it is ready. Ports are chosen at the first start and kept."""
        if self._process is not None:
            raise AssertionError("the node is running already")
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in range(ATTEMPTS if not self._ports else 1):
            fresh = not self._ports
            if fresh:
                self._ports = free_ports()
            self.spawn()
            if self.ready():
                return self
            text = self.text()
            if not (fresh and "is taken by another process" in text):
                break
            self._ports = {}
        raise AssertionError(f"headgate did not become ready:\n{self.text()[-8000:]}")

    def stop(self) -> int:
        """Send SIGTERM and wait. Returns the exit status, 0 for a clean stop. Does nothing when the server is not running."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Send SIGKILL and wait. Does nothing when the server is not running."""
        return self._end(signal.SIGKILL)

    def restart(self) -> Node:
        """Stop and start with the same data and ports."""
        self.stop()
        return self.start()

    def ended(self) -> bool:
        """True when the process has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    @property
    def pid(self) -> int:
        """The server's process id."""
        if self._process is None:
            raise AssertionError("the node is not running")
        return self._process.pid

    @property
    def pids(self) -> list[int]:
        """The process ids of the server: one, or those of the store and the gateways."""
        return [self.pid, *([] if self._spread is None else self._spread.pids)]

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the server."""
        for pid in self.pids:
            os.kill(pid, number)

    def port(self, name: str) -> int:
        """The port of one listener: nameserver remoting grpc http mqtt mqtts websocket coap admin."""
        return self._ports[name]

    def admin(self, path: str, user: str | None = None) -> str:
        """The body of a GET on the admin port.

        `user`: its name, a colon and its password; "": nobody; None: the node's first Super user, when it is started with one.
        """
        user = self._super_user() if user is None else user
        fields = {"Authorization": "Basic " + base64.b64encode(user.encode()).decode()} if user else {}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port('admin')}{path}", headers=fields)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = str(answer.read().decode())
        if self._spread is not None and path == "/metrics":
            return self._spread.metrics(text, self.port("admin"), fields)
        return text

    def _super_user(self) -> str:
        if "--admin" in self.options:
            return self.options[self.options.index("--admin") + 1]
        if "--admin-file" in self.options:
            return Path(self.options[self.options.index("--admin-file") + 1]).read_text().splitlines()[0]
        return self.environment.get("HEADGATE_ADMIN", "")

    def _controlled(self) -> bool:
        """Whether the configuration file controls access."""
        if "--config" not in self.options:
            return False
        return "[access]" in Path(self.options[self.options.index("--config") + 1]).read_text().splitlines()

    def _key(self) -> Path | None:
        """A file with the Super user that gateways are for their store; None: access is not controlled."""
        if "--admin-file" in self.options:
            return Path(self.options[self.options.index("--admin-file") + 1])
        user = self._super_user()
        if not user:
            return None
        file = self.folder / "gateway-key"
        file.write_text(f"{user}\n")
        return file

    def text(self) -> str:
        """The server's output since the first start."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def claim(self) -> None:
        """Choose the ports, unless they are."""
        self._ports = self._ports or free_ports()

    def spawn(self) -> None:
        """Start without waiting: `ready` does that."""
        self.claim()
        ports = [f"--port={name}={port}" for name, port in self._ports.items() if name not in self.unknown_ports]
        options = [*ports, *self.options]
        verb = [self._verb, "--data", str(self.data)] if self._spread is None else self._spread.store(self.data)
        if self._spread is not None and not self._super_user() and self._controlled():
            self.environment["HEADGATE_ADMIN"] = GATEWAYS_USER
        self._process = None
        if self.root == ROOT and self._spread is None:
            self._process = warm.start([*verb, *options], self.environment, self.root, self.log)
        with self.log.open("ab") as output:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "gateway", *verb, *options],
                    cwd=self.root, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=self.environment,
                )  # fmt: skip
            if self._spread is not None:
                self._spread.spawn(self.data, self._ports, options, self.environment, output, self._key())

    def ready(self) -> bool:
        """Wait until it serves. False: it has ended, or takes too long and is killed."""
        assert self._process is not None
        limit = time.monotonic() + READY_S
        while time.monotonic() < limit:
            if self._process.poll() is not None:
                self._process = None
                if self._spread is not None:
                    self._spread.end(signal.SIGKILL)
                return False
            if not self._is_up():
                time.sleep(0.02)
            elif self._spread is None or self._spread.ready(self._ports):
                return True
        self.kill()
        return False

    def _is_up(self) -> bool:
        """True when it serves. A controller by itself is ready when the others are there: its ports are open before."""
        if self.options[:2] != ("--roles", "controller"):
            return self.serves()
        try:
            return bool(json.loads(self.admin("/healthz"))["status"] == "serving")
        except OSError:
            return False

    def serves(self) -> bool:
        """True when the node takes requests, as its /readyz says."""
        try:
            self.admin("/readyz")
        except OSError:
            return False
        return True

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if self._spread is not None:
            self._spread.end(number)
        process.send_signal(number)
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"headgate did not stop within {STOP_S} s:\n{self.text()[-8000:]}") from None


def free_ports() -> dict[str, int]:
    """A free port on loopback for every listener, all different; each is free for TCP and UDP alike.

    The ports are below the system's ephemeral ports: a client that repeatedly connects to a killed node could otherwise get the
    node's own port, connect to itself, and prevent the node's restart. No port is given out twice, by this or another process
    that runs tests: the ports of a killed node stay free for its restart. A port beside another one is there.
    """
    held: list[socket.socket] = []
    found: dict[str, int] = {}
    beside = installed().beside
    try:
        for name in installed().ports:
            distances = {other: distance for other, (base, distance) in beside.items() if base == name}
            while name not in found and name not in beside:
                port = _CHANCE.randrange(*RANGE)
                chosen = {name: port, **{other: port + distance for other, distance in distances.items()}}
                if all(_held(each, held) for each in chosen.values()):
                    found.update(chosen)
    finally:
        for each in held:
            each.close()
    return found


def _held(port: int, held: list[socket.socket]) -> bool:
    """Reserve a port for this process, and bind it until the sockets are closed. Returns False when it is not free."""
    if not _claimed(port):
        return False
    try:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            held.append(socket.socket(socket.AF_INET, kind))
            held[-1].bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


def _claimed(port: int) -> bool:
    """Reserve a port for this process. Returns False when another process that runs tests has reserved it."""
    if port in _mine:
        return False
    if not _claims:
        _claims.append(os.open(_CLAIMS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        fcntl.lockf(_claims[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _mine.add(port)
    return True
