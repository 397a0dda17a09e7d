"""More features of the official Python SDK: namespaces, priority, dead letters. All run at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.interop.grpc.setup import UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ask, make_topic
from tests.interop.node import Node

pytestmark = pytest.mark.interop
SCRIPT = Path(__file__).with_name("python_features.py")
RUN_S = 150
SCENARIOS = {"spaces": "NORMAL", "priority": "PRIORITY", "dead": "NORMAL"}
"""Scenario -> the type of its topic."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Scenario -> its output, or its error."""
    with Node(tmp_path_factory.mktemp("node")) as node:
        for scenario, kind in SCENARIOS.items():
            make_topic(node, f"python-{scenario}", kind)
        policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000]}}
        body = {"groupName": "python-dead-group", "retryMaxTimes": 1, "retryQueueNums": 1, "groupRetryPolicy": policy}
        ask(node, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(body).encode())

        def run(scenario: str) -> Any:
            names = (f"127.0.0.1:{node.port('grpc')}", scenario, f"python-{scenario}", f"python-{scenario}-group")
            home = tmp_path_factory.mktemp(scenario)
            try:
                done = subprocess.run(
                    [sys.executable, str(SCRIPT), *names], capture_output=True, text=True, timeout=RUN_S, check=False, cwd=home
                )
            except subprocess.TimeoutExpired:
                return f"not within {RUN_S} s"
            return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stdout + done.stderr[-4000:]

        with ThreadPoolExecutor(len(SCENARIOS)) as pool:
            yield dict(zip(SCENARIOS, pool.map(run, SCENARIOS), strict=True))


def test_namespaces_are_apart(told: dict[str, Any]) -> None:
    assert told["spaces"] == {name: [f"{name}{at}" for at in range(3)] for name in ("", "shop", "yard")}


def test_the_highest_priority_comes_first(told: dict[str, Any]) -> None:
    assert told["priority"] == {"seen": ["3", "3", "2", "1", "0", "0"]}


def test_a_message_that_always_fails_becomes_a_dead_letter(told: dict[str, Any]) -> None:
    assert told["dead"] == {"attempts": [1, 2], "letters": ["poison"]}
