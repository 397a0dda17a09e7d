"""rocketmq-client-go v2.1.2, unmodified, against a whole node."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.node import Node

pytestmark = pytest.mark.interop
PROJECT = Path(__file__).parent / "go" / "remoting"
BUILD_S = 300
RUN_S = 150


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("go") is None:
        pytest.skip("go is not installed: rocketmq-client-go was not run")
    program = tmp_path_factory.mktemp("go") / "remoting"
    done = subprocess.run(
        ["go", "build", "-o", str(program), "."], cwd=PROJECT, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if done.returncode != 0:
        if "dial tcp" in done.stderr or "lookup " in done.stderr:
            pytest.skip("the Go proxy could not be reached: rocketmq-client-go was not run")
        raise AssertionError(done.stderr)
    return program


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, client: Path) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.mark.parametrize("scenario", ["send", "admin", "push", "retry", "orderly", "transact", "request", "dead", "broadcast"])
def test_a_scenario_of_the_go_client(client: Path, node: Node, scenario: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            str(client), scenario, f"127.0.0.1:{node.port('nameserver')}", f"Go{scenario}",
            f"127.0.0.1:{node.port('remoting')}",
        ],
        capture_output=True, text=True, timeout=RUN_S, check=False, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"OK {scenario}" in done.stdout
