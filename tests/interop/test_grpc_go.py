"""The Go SDK `rocketmq-clients/golang/v5` v5.1.3, unmodified, against a node: over TLS (its default) and in the clear."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.grpc_setup import make_group, make_topic
from tests.interop.node import Node

pytestmark = pytest.mark.interop
PROJECT = Path(__file__).parent / "go" / "grpc"
BUILD_S = 400
RUN_S = 150


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("go") is None:
        pytest.skip("go is not installed: the gRPC SDK for Go was not run")
    program = tmp_path_factory.mktemp("go") / "grpc"
    done = subprocess.run(
        ["go", "build", "-o", str(program), "."], cwd=PROJECT, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if done.returncode != 0:
        if any(word in done.stderr for word in ("dial tcp", "lookup ", "toolchain")):
            pytest.skip(f"the Go proxy cannot be reached or go is older than 1.25: the SDK was not run: {done.stderr[-300:]}")
        raise AssertionError(done.stderr)
    return program


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, client: Path) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


def run(client: Path, scenario: str, port: int, topic: str, home: Path, tls: bool) -> None:
    """One scenario, which says OK when all came true. Its group is that of the topic."""
    environment = {
        **os.environ, "HOME": str(home), "rocketmq.client.logRoot": str(home), "rocketmq.client.enableSsl": str(tls).lower(),
    }  # fmt: skip
    command = [str(client), scenario, f"127.0.0.1:{port}", topic, f"{topic}-group"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"OK {scenario}" in done.stdout


@pytest.mark.parametrize(
    ("scenario", "kind", "tls"),
    [("simple", "NORMAL", True), ("simple", "NORMAL", False), ("push", "NORMAL", True), ("fifo", "FIFO", True),
     ("delay", "DELAY", True), ("transact", "TRANSACTION", True)],
)  # fmt: skip
def test_a_scenario_of_the_go_sdk(client: Path, node: Node, scenario: str, kind: str, tls: bool, tmp_path: Path) -> None:
    name = f"go-{scenario}-{'tls' if tls else 'clear'}"
    make_topic(node, name, kind)
    make_group(node, f"{name}-group", orderly=kind == "FIFO")
    run(client, scenario, node.port("grpc"), name, tmp_path, tls)
