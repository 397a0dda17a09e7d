"""More features of the official Node SDK 1.0.8: transactions, recall, SQL92, dead letters, namespaces. All run at once."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.interop.grpc.setup import UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ask, make_topic
from tests.interop.grpc.test_node import client
from tests.interop.node import Node

pytestmark = pytest.mark.interop
__all__ = ["client"]
RUN_S = 180
SCENARIOS = {"transaction": "TRANSACTION", "recall": "DELAY", "sql": "NORMAL", "dead": "NORMAL", "spaces": "NORMAL"}
"""Scenario -> the type of its topic."""


@pytest.fixture(scope="module")
def told(client: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Scenario -> its output, or its error."""
    with Node(tmp_path_factory.mktemp("node")) as node:
        for scenario, kind in SCENARIOS.items():
            make_topic(node, f"nodejs-{scenario}", kind)
        policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000]}}
        body = {"groupName": "nodejs-dead-group", "retryMaxTimes": 1, "retryQueueNums": 1, "groupRetryPolicy": policy}
        ask(node, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(body).encode())

        def run(scenario: str) -> Any:
            names = (f"127.0.0.1:{node.port('grpc')}", f"nodejs-{scenario}", f"nodejs-{scenario}-group")
            command = ["node", str(client.with_name("features.js")), scenario, *names]
            home = {**os.environ, "HOME": str(tmp_path_factory.mktemp(scenario))}
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=home)
            except subprocess.TimeoutExpired:
                return f"not within {RUN_S} s"
            return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stdout + done.stderr[-4000:]

        with ThreadPoolExecutor(len(SCENARIOS)) as pool:
            yield dict(zip(SCENARIOS, pool.map(run, SCENARIOS), strict=True))


def test_transactions_are_decided_or_asked_about(told: dict[str, Any]) -> None:
    assert told["transaction"] == {"asked": ["body 4", "body 5"], "seen": ["body 0", "body 1", "body 4"]}


def test_what_was_recalled_never_comes(told: dict[str, Any]) -> None:
    assert told["recall"] == {"seen": ["body 1", "body 3", "body 5"]}


def test_a_sql_filter_selects(told: dict[str, Any]) -> None:
    assert told["sql"] == {"seen": ["body 4", "body 5", "body 6"]}


def test_a_message_that_always_fails_becomes_a_dead_letter(told: dict[str, Any]) -> None:
    assert told["dead"] == {"attempts": [1, 2], "letters": ["poison"]}


def test_namespaces_are_apart(told: dict[str, Any]) -> None:
    assert told["spaces"] == {"seen": {name: [f"{name}{at}" for at in range(3)] for name in ("", "shop", "yard")}}
