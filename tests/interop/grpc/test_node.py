"""The official Node SDK `rocketmq-client-nodejs` 1.0.8, unmodified, against a node. All scenarios run at once.

The SDK waits for some answers without a bound, so every run has a time-out.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.interop.grpc.setup import make_group, make_retries, make_topic
from tests.interop.lite_setup import make_lite_group
from tests.interop.node import Node
from tests.interop.workshop import CLIENTS, node_scripts

pytestmark = pytest.mark.interop
PROJECT = CLIENTS / "nodejs"
RUN_S = 180
SCENARIOS = {
    "simple": "NORMAL", "push": "NORMAL", "fifo": "FIFO", "delay": "DELAY", "transaction": "TRANSACTION", "recall": "DELAY",
    "sql": "NORMAL", "dead": "NORMAL", "spaces": "NORMAL", "priority": "PRIORITY", "lite": "LITE",
}  # fmt: skip
"""Scenario -> the type of its topic."""


@pytest.fixture(scope="module")
def client() -> Path:
    """The script and its packages, which come from npm."""
    return node_scripts(PROJECT, "the gRPC SDK for Node") / "client.js"


Found = Callable[[str], dict[str, Any]]
"""Scenario -> what it printed."""


@pytest.fixture(scope="module")
def found(client: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    with Node(tmp_path_factory.mktemp("node")) as node, ThreadPoolExecutor(len(SCENARIOS)) as pool:
        for scenario, kind in SCENARIOS.items():
            make_topic(node, f"nodejs-{scenario}", kind)
            make_group(node, f"nodejs-{scenario}-group", orderly=kind == "FIFO")
        make_retries(node, "nodejs-dead-group", 1)
        make_lite_group(node, "nodejs-lite-group", "nodejs-lite")

        def run(scenario: str) -> dict[str, Any]:
            names = (f"127.0.0.1:{node.port('grpc')}", f"nodejs-{scenario}", f"nodejs-{scenario}-group")
            home = {**os.environ, "HOME": str(tmp_path_factory.mktemp(scenario))}
            command = ["node", str(client), scenario, *names]
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=home)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:] + node.text()[-2000:]
            printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return printed

        runs = {scenario: pool.submit(run, scenario) for scenario in SCENARIOS}
        yield lambda scenario: runs[scenario].result()


def attempts(found: dict[str, Any]) -> dict[str, list[int]]:
    """Body -> its delivery attempts; every message is received as it was sent."""
    seen: dict[str, list[int]] = {}
    for message in found["seen"]:
        number = int(message["body"].split()[1])
        assert message["tag"] == ("odd" if number % 2 else "even")
        assert (message["keys"], message["place"]) == ([f"key-{number}"], "Zürich")
        assert message["id"] == found["ids"][number]
        seen.setdefault(message["body"], []).append(message["attempt"])
    return seen


def test_simple_consumer_receives_by_tag_acknowledges_and_gives_back(found: Found) -> None:
    seen = attempts(found("simple"))
    assert sorted(seen) == sorted(f"body {number}" for number in range(0, 20, 2))
    assert sorted(seen.values()) == [[1]] * 9 + [[1, 2]]


def test_push_consumer_gets_a_failed_message_again(found: Found) -> None:
    seen = attempts(found("push"))
    assert seen.pop("body 3") == [1, 2]
    assert seen == {f"body {number}": [1] for number in range(30) if number != 3}


def test_fifo_consumer_sees_each_group_in_order(found: Found) -> None:
    for group in range(3):
        bodies = [message["body"] for message in found("fifo")["seen"] if message["group"] == f"group-{group}"]
        assert bodies == [f"body {number}" for number in range(group, 30, 3)]


def test_a_delayed_message_comes_in_its_time(found: Found) -> None:
    told = found("delay")
    assert set(attempts(told)) == {"body 0", "body 1", "body 2"}
    assert all(told["due"] <= message["at"] < told["due"] + 5_000 for message in told["seen"])


def test_transactions_are_decided_or_asked_about(found: Found) -> None:
    assert found("transaction") == {"asked": ["body 4", "body 5"], "seen": ["body 0", "body 1", "body 4"]}


def test_what_was_recalled_never_comes(found: Found) -> None:
    assert found("recall") == {"seen": ["body 1", "body 3", "body 5"]}


def test_a_sql_filter_selects(found: Found) -> None:
    assert found("sql") == {"seen": ["body 4", "body 5", "body 6"]}


def test_a_message_that_always_fails_becomes_a_dead_letter(found: Found) -> None:
    assert found("dead") == {"attempts": [1, 2], "letters": ["poison"]}


def test_namespaces_are_apart(found: Found) -> None:
    assert found("spaces") == {"seen": {name: [f"{name}{at}" for at in range(3)] for name in ("", "shop", "yard")}}


def test_the_highest_priority_comes_first(found: Found) -> None:
    seen = found("priority")["seen"]
    assert [priority for _, priority in seen] == [3] * 4 + [2] * 4 + [1] * 4
    assert sorted(number for number, _ in seen) == list(range(12))
    assert all(number % 3 + 1 == priority for number, priority in seen)


def test_two_lite_topics_of_three_come_each_in_order_and_then_one(found: Found) -> None:
    told = found("lite")
    for at, name in enumerate("ab"):
        assert [number for lite, number in told["both"] if lite == name] == list(range(at, 18, 3))
    assert len(told["both"]) == 12
    assert told["one"] == [["a", 0], ["a", 3]]
    assert told["topics"] == ["a"]
