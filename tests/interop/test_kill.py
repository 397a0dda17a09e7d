"""One kill -9 of the node under working clients: Java (two versions of remoting, gRPC), Go (both), Python, Node and Rust.

Producers and consumers connect again by themselves; transactions are ended or checked back after it; timers are on time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.grpc.java import compiled
from tests.interop.grpc.setup import make_topic
from tests.interop.grpc.test_go import client as grpc_go
from tests.interop.grpc.test_rust import client as grpc_rust
from tests.interop.node import Node
from tests.interop.remoting.java import PROJECT, JavaClient, build
from tests.interop.remoting.test_go import client as remoting_go
from tests.interop.test_java_scenes import scenes
from tests.interop.workshop import CLIENTS, node_scripts

pytestmark = pytest.mark.interop
__all__ = ["grpc_go", "grpc_rust", "remoting_go"]
READY_S = 90
RUN_S = 200
ALL = (
    *(f"java-remoting:{scene}" for scene in ("stream", "stream-pop", "timers", "transactions", "between")),
    *(f"java-grpc:{scene}" for scene in ("stream", "transactions", "between")),
    "go-remoting:stream", "go-remoting:transactions", "go-grpc:stream", "go-grpc:transactions",
    "python-grpc:stream", "python-grpc:transactions", "node-grpc:stream", "node-grpc:transactions",
    "java4-remoting:stream", "java4-remoting:transactions", "rust-grpc:stream",
)  # fmt: skip
KINDS = {"transactions": "TRANSACTION", "between": "TRANSACTION"}


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
        """Tell the process that the node was restarted."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("back\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return

    def told(self) -> dict[str, str]:
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


@pytest.fixture(scope="module")
def told(
    tmp_path_factory: pytest.TempPathFactory, java: JavaClient, remoting_go: Path, grpc_go: Path, grpc_rust: Path
) -> Iterator[dict[str, str]]:
    """`client:scene` -> its result."""
    grpc = compiled(tmp_path_factory.mktemp("grpc"))
    java4 = build(tmp_path_factory.mktemp("java4"), PROJECT.parent / "remoting4")
    node_grpc = node_scripts(CLIENTS / "nodejs", "the gRPC SDK for Node")
    script = Path(__file__).parent / "grpc" / "python_crash.py"
    with Node(tmp_path_factory.mktemp("node")) as node:
        make_topic(node, "RustGrpc-stream", "NORMAL")
        for client in ("JavaGrpc", "GoGrpc", "PythonGrpc", "NodeGrpc"):
            for scene in ("stream", "transactions", "between"):
                make_topic(node, f"{client}-{scene}", KINDS.get(scene, "NORMAL"))
        nameserver, broker, endpoint = (f"127.0.0.1:{node.port(name)}" for name in ("nameserver", "remoting", "grpc"))
        clear = {"rocketmq.client.enableSsl": "false"}
        commands: dict[str, tuple[list[str], dict[str, str]]] = {
            "java-remoting": ([*java.command("Suite"), "crash", nameserver, broker], {}),
            "java-grpc": ([*grpc, "GrpcSuite", "crash", endpoint], {}),
            "go-remoting": ([str(remoting_go), "crash", nameserver, "GoCrash", broker], {}),
            "go-grpc": ([str(grpc_go), "crash", endpoint, "GoGrpc", "GoGrpc-group"], clear),
            "python-grpc": ([sys.executable, str(script), endpoint, "PythonGrpc"], {}),
            "node-grpc": (["node", str(node_grpc / "crash.js"), endpoint, "NodeGrpc"], {}),
            "java4-remoting": ([*java4.command("Killed"), nameserver, "Java4"], {}),
            "rust-grpc": ([str(grpc_rust), endpoint, "crash", "RustGrpc-stream"], {}),
        }
        clients: dict[str, Client] = {}
        try:
            for name, (command, environment) in commands.items():
                clients[name] = Client(command, tmp_path_factory.mktemp(name), environment)
            for client_ in clients.values():
                client_.wait_ready()
            node.kill()
            node.start()
            for client_ in clients.values():
                client_.go_on()
            found = {}
            for name, client_ in clients.items():
                said = client_.told()
                print(name, client_.text())
                found.update({f"{name}:{scene}": text for scene, text in said.items()})
        finally:
            for client_ in clients.values():
                client_.end()
        yield found


@pytest.mark.parametrize("scene", ALL)
def test_a_scene_over_a_kill(told: dict[str, str], scene: str) -> None:
    assert told.get(scene, "nothing was said").startswith("OK "), told.get(scene)
