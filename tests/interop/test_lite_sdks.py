"""Lite topics and priorities with the gRPC SDKs Python 5.1.2 and Node 1.0.8 on a running node."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.grpc.setup import make_group, make_topic
from tests.interop.grpc.test_node import client
from tests.interop.lite_setup import make_lite_group
from tests.interop.node import Node

pytestmark = pytest.mark.interop
RUN_S = 150
__all__ = ["client"]


def test_the_python_sdk(tmp_path: Path) -> None:
    if importlib.util.find_spec("rocketmq") is None:
        pytest.skip("rocketmq-python-client is not installed: lite topics were not run by it")
    with Node(tmp_path) as node:
        make_topic(node, "ranked", "PRIORITY")
        make_group(node, "ranked-group", orderly=False)
        make_topic(node, "sessions", "LITE")
        make_lite_group(node, "agents", "sessions")
        script = Path(__file__).parent / "grpc" / "python_lite.py"
        command = [sys.executable, str(script), f"127.0.0.1:{node.port('grpc')}", "ranked", "sessions", "agents"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, cwd=tmp_path, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}\n{node.text()[-2000:]}"
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert [priority for _, priority in told["ranked"]] == [3] * 3 + [2] * 3 + [1] * 3 + [0] * 3
    assert all(number % 4 == priority for number, priority in told["ranked"])
    for at, name in enumerate("ab"):
        assert [int(number) for lite, number in told["lite"] if lite == name] == list(range(at, 18, 3))
    assert len(told["lite"]) == 12


def test_the_node_sdk(client: Path, tmp_path: Path) -> None:
    with Node(tmp_path / "node") as node:
        make_topic(node, "ranked", "PRIORITY")
        make_group(node, "ranked-group", orderly=False)
        make_topic(node, "sessions", "LITE")
        make_lite_group(node, "agents", "sessions")
        names = (f"127.0.0.1:{node.port('grpc')}", "ranked", "ranked-group", "sessions", "agents")
        command = ["node", str(client.with_name("lite.js")), *names]
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=environment)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}\n{node.text()[-2000:]}"
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert [priority for _, priority in told["ranked"]] == [3] * 4 + [2] * 4 + [1] * 4
    assert sorted(number for number, _ in told["ranked"]) == list(range(12))
    assert all(number % 3 + 1 == priority for number, priority in told["ranked"])
    both = told["lite"]["both"]
    for at, name in enumerate("ab"):
        assert [number for lite, number in both if lite == name] == list(range(at, 18, 3))
    assert len(both) == 12
    assert told["lite"]["one"] == [["a", 0], ["a", 3]]
    assert told["lite"]["topics"] == ["a"]
