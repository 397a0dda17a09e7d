"""One kill -9 of the node under working clients: Java (two versions of remoting, gRPC), Go (both), Python, Node and Rust.

Producers and consumers connect again by themselves; transactions are ended or checked back after it; timers are on time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.grpc.java import compiled
from tests.interop.grpc.test_go import client as grpc_go
from tests.interop.grpc.test_rust import client as grpc_rust
from tests.interop.killed_clients import Programmes, make_topics, results, running
from tests.interop.node import Node
from tests.interop.remoting.java import PROJECT, JavaClient, build
from tests.interop.remoting.test_go import client as remoting_go
from tests.interop.workshop import CLIENTS, node_scripts

pytestmark = pytest.mark.interop
__all__ = ["grpc_go", "grpc_rust", "remoting_go"]
ALL = (
    *(f"java-remoting:{scene}" for scene in ("stream", "stream-pop", "timers", "transactions", "between")),
    *(f"java-grpc:{scene}" for scene in ("stream", "transactions", "between")),
    "go-remoting:stream", "go-remoting:transactions", "go-grpc:stream", "go-grpc:transactions",
    "python-grpc:stream", "python-grpc:transactions", "node-grpc:stream", "node-grpc:transactions",
    "java4-remoting:stream", "java4-remoting:transactions", "rust-grpc:stream",
)  # fmt: skip


@pytest.fixture(scope="module")
def told(
    tmp_path_factory: pytest.TempPathFactory, java: JavaClient, remoting_go: Path, grpc_go: Path, grpc_rust: Path
) -> dict[str, str]:
    """`client:scene` -> its result."""
    programmes = Programmes(
        java,
        build(tmp_path_factory.mktemp("java4"), PROJECT.parent / "remoting4"),
        compiled(tmp_path_factory.mktemp("grpc")),
        remoting_go,
        grpc_go,
        node_scripts(CLIENTS / "nodejs", "the gRPC SDK for Node"),
        grpc_rust,
    )
    with Node(tmp_path_factory.mktemp("node")) as node:
        make_topics(node)
        nameserver, broker, endpoint = (f"127.0.0.1:{node.port(name)}" for name in ("nameserver", "remoting", "grpc"))
        with running(programmes.commands(nameserver, broker, endpoint), tmp_path_factory.mktemp("homes")) as clients:
            node.kill()
            node.start()
            return results(clients)


@pytest.mark.parametrize("scene", ALL)
def test_a_scene_over_a_kill(told: dict[str, str], scene: str) -> None:
    assert told.get(scene, "nothing was said").startswith("OK "), told.get(scene)
