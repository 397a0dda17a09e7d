"""rocketmq-client-go v2.1.2, unmodified, against a whole node."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.workshop import CLIENTS, go_program

pytestmark = pytest.mark.interop
PROJECT = CLIENTS / "go" / "remoting"
RUN_S = 150
SCENARIOS = (
    "send", "admin", "push", "retry", "orderly", "transact", "request", "dead", "broadcast", "later",
    "pull", "sql", "trace", "spaces", "limit", "by-hand", "reset", "dead-orderly",
)  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Path:
    return go_program(PROJECT, "rocketmq-client-go")


@pytest.fixture(scope="module")
def told(client: Path, node: Node, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The result of each scenario. All run at the same time, since they mostly wait."""

    def run(scenario: str) -> str:
        command = [
            str(client), scenario, f"127.0.0.1:{node.port('nameserver')}", f"Go{scenario}",
            f"127.0.0.1:{node.port('remoting')}",
        ]  # fmt: skip
        home = {**os.environ, "HOME": str(tmp_path_factory.mktemp(scenario))}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=home)
        except subprocess.TimeoutExpired as error:
            return f"not within {RUN_S} s: {error.stdout!r}"
        return f"{done.returncode} {done.stdout[-4000:]}{done.stderr[-4000:]}"

    with ThreadPoolExecutor(len(SCENARIOS)) as pool:
        return dict(zip(SCENARIOS, pool.map(run, SCENARIOS), strict=True))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_of_the_go_client(told: dict[str, str], scenario: str) -> None:
    assert told[scenario].startswith(f"0 OK {scenario}"), told[scenario]
