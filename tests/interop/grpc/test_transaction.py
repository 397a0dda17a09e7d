"""Transactions and recall by the official Python and Java SDKs against a running node."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.grpc.java import compiled
from tests.interop.grpc.setup import make_topic
from tests.interop.node import Node

RUN_S = 200


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path) as running:
        yield running


def run(node: Node, scenario: str, topic: str, folder: Path) -> dict[str, Any]:
    script = Path(__file__).with_name("python_transaction.py")
    command = [sys.executable, str(script), f"127.0.0.1:{node.port('grpc')}", scenario, topic, f"{scenario}-group"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, cwd=folder, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{node.text()}"
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def test_committed_messages_come_once_and_orphans_are_asked_about(node: Node, tmp_path: Path) -> None:
    make_topic(node, "orders", "TRANSACTION")
    found = run(node, "transaction", "orders", tmp_path)
    assert sorted(found["asked"]) == [f"orphan {at}" for at in range(20, 26)]
    wanted = sorted([*(f"commit {at}" for at in range(10)), *(f"orphan {at}" for at in (20, 22, 24))])
    assert sorted(message["body"] for message in found["seen"]) == wanted


def test_a_recalled_timer_never_comes(node: Node, tmp_path: Path) -> None:
    make_topic(node, "reminders", "DELAY")
    found = run(node, "recall", "reminders", tmp_path)
    assert len(found["recalled"]) == 3
    assert sorted(message["body"] for message in found["seen"]) == ["timer 1", "timer 3", "timer 5"]


def test_transactions_of_the_java_sdk(node: Node, tmp_path: Path) -> None:
    make_topic(node, "orders", "TRANSACTION")
    command = [*compiled(tmp_path), "GrpcTransaction", f"127.0.0.1:{node.port('grpc')}", "orders", "java-group"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, cwd=tmp_path, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}\n{node.text()[-2000:]}"
    lines = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    assert sorted(body for kind, body in lines if kind == "asked") == [f"orphan {at}" for at in range(20, 26)]
    wanted = sorted([*(f"commit {at}" for at in range(10)), *(f"orphan {at}" for at in (20, 22, 24))])
    assert sorted(body for kind, body in lines if kind == "seen") == wanted
