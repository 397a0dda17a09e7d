"""The official Rust SDK `rocketmq` 5.0.0, unmodified, against a node, in the clear: it cannot do TLS yet.

Its packages take minutes to compile; they are kept in .deps/rust.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.grpc_setup import ROOT, make_topic
from tests.interop.node import Node

pytestmark = pytest.mark.interop
PROJECT = Path(__file__).parent / "rust"
TARGET = ROOT / ".deps" / "rust"
BUILD_S = 500
RUN_S = 120


@pytest.fixture(scope="module")
def client() -> Path:
    for tool in ("cargo", "cc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: the gRPC SDK for Rust was not run")
    build = ["cargo", "build", "--quiet", "--locked"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    try:
        done = subprocess.run(
            build, cwd=PROJECT, capture_output=True, text=True, timeout=BUILD_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"the Rust SDK was not compiled within {BUILD_S} s, so it was not run")
    if done.returncode != 0:
        if "failed to download" in done.stderr or "failed to get" in done.stderr or "failed to fetch" in done.stderr:
            pytest.skip(f"cargo cannot get rocketmq 5.0.0, so it was not run: {done.stderr[-300:]}")
        raise AssertionError(done.stderr[-4000:])
    return TARGET / "debug" / "headgate-interop-grpc"


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
