"""The official Rust SDK `rocketmq` 5.0.0, unmodified, against a node, without TLS, which it does not support."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop.grpc.setup import make_topic
from tests.interop.node import Node
from tests.interop.workshop import CLIENTS, rust_program

pytestmark = pytest.mark.interop
RUN_S = 120


@pytest.fixture(scope="module")
def client() -> Path:
    return rust_program(CLIENTS / "rust", "the gRPC SDK for Rust")


def test_simple_consumer_receives_by_tag_what_the_producer_sent(client: Path, tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        make_topic(node, "crates", "NORMAL")
        command = [str(client), f"127.0.0.1:{node.port('grpc')}", "crates", "rust-group"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:] + node.text()[-2000:]
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    ids = [line[1] for line in lines if line[0] == "sent"]
    seen = sorted(line[1:] for line in lines if line[0] == "seen")
    assert seen == sorted([f"body {at}", "even", f"key-{at}", "Zürich", ids[at]] for at in range(0, 20, 2))
