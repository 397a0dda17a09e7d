"""The official Java SDK (`rocketmq-client-java` 5.2.0) against a running node, in the clear and over TLS on the same port."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop.grpc.java import compiled
from tests.interop.grpc.setup import make_group, make_topic
from tests.interop.node import Node

CLIENT_S = 120


def run(node: Node, folder: Path, *arguments: str) -> list[list[str]]:
    """One scenario -> the fields of its lines, `sent` and `seen`."""
    command = [*compiled(folder), "GrpcClient", f"127.0.0.1:{node.port('grpc')}", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=CLIENT_S, cwd=folder, check=False)
    output = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, f"{output}\n{done.stderr.decode()[-4000:]}\n{node.text()[-2000:]}"
    return [line.split("\t") for line in output.splitlines() if line.startswith("seen\t")]


@pytest.mark.parametrize("transport", ["plain", "tls"])
def test_simple_consumer_receives_by_tag_acknowledges_and_gives_back(node: Node, tmp_path: Path, transport: str) -> None:
    seen = run(node, tmp_path, transport, "simple", f"orders-{transport}", f"{transport}-group")
    attempts: dict[str, list[int]] = {}
    for _, body, attempt, tag, keys, _, place, _ in seen:
        attempts.setdefault(body, []).append(int(attempt))
        assert (tag, place, keys) == ("even", "Zürich", f"key-{body.split()[1]}")
    assert sorted(attempts) == sorted(f"body {at}" for at in range(0, 20, 2))
    assert sorted(map(tuple, attempts.values())) == [(1,)] * 9 + [(1, 2)]


def test_push_consumer_gets_a_failed_message_again(node: Node, tmp_path: Path) -> None:
    seen = run(node, tmp_path, "plain", "push", "jobs", "push-group")
    attempts: dict[str, list[int]] = {}
    for _, body, attempt, *_ in seen:
        attempts.setdefault(body, []).append(int(attempt))
    assert attempts.pop("body 3") == [1, 2]
    assert attempts == {f"body {at}": [1] for at in range(30) if at != 3}


def test_fifo_consumer_sees_each_group_in_order(node: Node, tmp_path: Path) -> None:
    make_topic(node, "ledger", "FIFO")
    make_group(node, "fifo-group", orderly=True)
    seen = run(node, tmp_path, "plain", "fifo", "ledger", "fifo-group")
    for group in range(3):
        bodies = [line[1] for line in seen if line[5] == f"group-{group}"]
        assert list(dict.fromkeys(bodies)) == [f"body {at}" for at in range(group, 30, 3)]


def test_transactions_of_the_java_sdk(node: Node, tmp_path: Path) -> None:
    make_topic(node, "decided", "TRANSACTION")
    command = [*compiled(tmp_path), "GrpcTransaction", f"127.0.0.1:{node.port('grpc')}", "decided", "java-group"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_S, cwd=tmp_path, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}\n{node.text()[-2000:]}"
    lines = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    assert sorted(body for kind, body in lines if kind == "asked") == [f"orphan {at}" for at in range(20, 26)]
    wanted = sorted([*(f"commit {at}" for at in range(10)), *(f"orphan {at}" for at in (20, 22, 24))])
    assert sorted(body for kind, body in lines if kind == "seen") == wanted
