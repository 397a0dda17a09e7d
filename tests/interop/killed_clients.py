"""Foreign clients in processes of their own that go on while what is behind them is killed: Java, Go, Python, Node, Rust."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.interop.grpc.setup import make_topic
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient, scenes

READY_S: Final = 90
RUN_S: Final = 200
KINDS: Final = {"transactions": "TRANSACTION", "between": "TRANSACTION"}
_SCRIPT: Final = Path(__file__).parent / "grpc" / "python_crash.py"

Command = tuple[list[str], dict[str, str]]
"""A command line, and what is added to its environment."""


@dataclass(frozen=True, slots=True)
class Programmes:
    """The compiled clients. `rust`: None leaves it out."""

    java: JavaClient
    java4: JavaClient
    grpc: list[str]
    remoting_go: Path
    grpc_go: Path
    node: Path
    rust: Path | None = None

    def commands(self, nameservers: str, broker: str, endpoints: str) -> dict[str, Command]:
        """Client -> its command.

        nameservers   with semicolons between
        broker        where the Java client asks for groups to pop
        endpoints     of gRPC, with semicolons between
        """
        clear = {"rocketmq.client.enableSsl": "false"}
        found: dict[str, Command] = {
            "java-remoting": ([*self.java.command("Suite"), "crash", nameservers, broker], {}),
            "java-grpc": ([*self.grpc, "GrpcSuite", "crash", endpoints], {}),
            "go-remoting": ([str(self.remoting_go), "crash", nameservers, "GoCrash", broker], {}),
            "go-grpc": ([str(self.grpc_go), "crash", endpoints, "GoGrpc", "GoGrpc-group"], clear),
            "python-grpc": ([sys.executable, str(_SCRIPT), endpoints, "PythonGrpc"], {}),
            "node-grpc": (["node", str(self.node / "crash.js"), endpoints, "NodeGrpc"], {}),
            "java4-remoting": ([*self.java4.command("Older"), "crash", nameservers, "Java4"], {}),
        }
        if self.rust is not None:
            found["rust-grpc"] = ([str(self.rust), endpoints, "crash", "RustGrpc-stream"], {})
        return found


def make_topics(node: Node) -> None:
    """The topics of the gRPC clients."""
    make_topic(node, "RustGrpc-stream", "NORMAL")
    for client in ("JavaGrpc", "GoGrpc", "PythonGrpc", "NodeGrpc"):
        for scene in ("stream", "transactions", "between"):
            make_topic(node, f"{client}-{scene}", KINDS.get(scene, "NORMAL"))


@contextmanager
def running(commands: Mapping[str, Command], folder: Path) -> Iterator[dict[str, Client]]:
    """The clients, each with a home of its own; all of them are ready to be disturbed. They end with the block."""
    clients: dict[str, Client] = {}
    try:
        for name, (command, environment) in commands.items():
            home = folder / name
            home.mkdir(parents=True)
            clients[name] = Client(command, home, environment)
        for each in clients.values():
            each.wait_ready()
        yield clients
    finally:
        for each in clients.values():
            each.end()


def results(clients: Mapping[str, Client]) -> dict[str, str]:
    """Tell all clients to go on; `client:scene` -> its result."""
    for each in clients.values():
        each.go_on()
    found = {}
    for name, each in clients.items():
        said = each.notified()
        print(name, each.text())
        found.update({f"{name}:{scene}": text for scene, text in said.items()})
    return found


class Client:
    """A process that prints READY, waits for a line of input, and then prints the results of its scenes."""

    def __init__(self, command: list[str], home: Path, environment: dict[str, str] | None = None) -> None:
        self._said: list[str] = []
        self._ready = threading.Event()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(home / "stderr").open("wb"), text=True, cwd=home,
            env={**os.environ, "HOME": str(home), **(environment or {})},
        )  # fmt: skip
        self._home = home
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == "READY":
                self._ready.set()
            else:
                self._said.append(line)
        self._ready.set()

    def wait_ready(self) -> None:
        """Wait until the process has printed READY or has ended."""
        assert self._ready.wait(READY_S), f"not ready: {self.text()}"

    def go_on(self) -> None:
        """Tell the process that what was killed is there again."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("back\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return

    def notified(self) -> dict[str, str]:
        """Scene -> "OK …", or "FAILED …" with the reason."""
        try:
            self._process.wait(RUN_S)
        except subprocess.TimeoutExpired:
            self._said.append("it did not end")
        self.end()
        self._thread.join(10)
        return scenes("".join(self._said))

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def text(self) -> str:
        """The whole output of the process."""
        return "".join(self._said)[-4000:] + (self._home / "stderr").read_text(errors="replace")[-4000:]
