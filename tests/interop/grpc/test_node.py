"""The official Node SDK `rocketmq-client-nodejs` 1.0.8, unmodified, against a node.

The SDK waits for some answers without a bound, so every run has a time-out.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.grpc.setup import make_group, make_topic
from tests.interop.node import Node
from tests.interop.workshop import CLIENTS, node_scripts

pytestmark = pytest.mark.interop
PROJECT = CLIENTS / "nodejs"
RUN_S = 100


@pytest.fixture(scope="module")
def client() -> Path:
    """The script and its packages, which come from npm."""
    return node_scripts(PROJECT, "the gRPC SDK for Node") / "client.js"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, client: Path) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


def run(node: Node, client: Path, scenario: str, kind: str, home: Path) -> dict[str, Any]:
    """Run one scenario with its own topic and group -> its output."""
    topic = f"nodejs-{scenario}"
    make_topic(node, topic, kind)
    make_group(node, f"{topic}-group", orderly=kind == "FIFO")
    command = ["node", str(client), scenario, f"127.0.0.1:{node.port('grpc')}", topic, f"{topic}-group"]
    environment = {**os.environ, "HOME": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:] + node.text()[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


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


def test_simple_consumer_receives_by_tag_acknowledges_and_gives_back(node: Node, client: Path, tmp_path: Path) -> None:
    seen = attempts(run(node, client, "simple", "NORMAL", tmp_path))
    assert sorted(seen) == sorted(f"body {number}" for number in range(0, 20, 2))
    assert sorted(seen.values()) == [[1]] * 9 + [[1, 2]]


def test_push_consumer_gets_a_failed_message_again(node: Node, client: Path, tmp_path: Path) -> None:
    seen = attempts(run(node, client, "push", "NORMAL", tmp_path))
    assert seen.pop("body 3") == [1, 2]
    assert seen == {f"body {number}": [1] for number in range(30) if number != 3}


def test_fifo_consumer_sees_each_group_in_order(node: Node, client: Path, tmp_path: Path) -> None:
    found = run(node, client, "fifo", "FIFO", tmp_path)
    for group in range(3):
        bodies = [message["body"] for message in found["seen"] if message["group"] == f"group-{group}"]
        assert bodies == [f"body {number}" for number in range(group, 30, 3)]


def test_a_delayed_message_comes_in_its_time(node: Node, client: Path, tmp_path: Path) -> None:
    found = run(node, client, "delay", "DELAY", tmp_path)
    assert set(attempts(found)) == {"body 0", "body 1", "body 2"}
    assert all(found["due"] <= message["at"] < found["due"] + 5_000 for message in found["seen"])
