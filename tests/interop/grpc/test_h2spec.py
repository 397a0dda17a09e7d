"""h2spec, the public conformance suite of HTTP/2 and HPACK, strict, against gRPC and HTTP on both engines of a running node.

On a port that also speaks HTTP/1.1 one of its 146 cases does not apply: there an invalid preface is answered by HTTP/1.1.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.workshop import made, need, step

PROGRAM = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
RUN_S = 200
TARGETS = {
    "grpc": ["-P", "/apache.rocketmq.v2.MessagingService/QueryRoute"],
    "http": [
        "-P", "/v1/topics", "generic", "hpack", "http2/3.5/1", "http2/4", "http2/5", "http2/6", "http2/7", "http2/8",
    ],
}  # fmt: skip
"""Port -> path, and the parts that apply: none are named for all."""


@pytest.fixture(scope="module")
def h2spec() -> Path:
    """The program, built by Go."""
    need("h2spec", "go")

    def make(folder: Path) -> None:
        step(["go", "install", PROGRAM], folder, "h2spec", {"GOBIN": str(folder), "GOFLAGS": "-mod=mod"})

    return made("h2spec", [PROGRAM], make) / "h2spec"


@pytest.mark.parametrize("port", TARGETS)
@pytest.mark.parametrize("pure", ["", "1"], ids=["default", "pure"])
def test_generic_http2_and_hpack_sections_pass(h2spec: Path, tmp_path: Path, pure: str, port: str) -> None:
    with Node(tmp_path, environment={"HEADGATE_PURE": pure}) as node:
        command = [str(h2spec), "-h", "127.0.0.1", "-p", str(node.port(port)), "-S", "-o", "3", *TARGETS[port]]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert " 0 failed" in done.stdout.splitlines()[-1]
    assert " 0 skipped" in done.stdout.splitlines()[-1]
