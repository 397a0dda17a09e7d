"""A node that is stopped answers parked receives and tells every client, and ends within its time."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.interop.node import Node


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_a_parked_receive_of_curl_is_answered(tmp_path: Path, version: str) -> None:
    assert shutil.which("curl")
    with Node(tmp_path) as node:
        base = f"http://127.0.0.1:{node.port('http')}"
        subprocess.run(["curl", "-sf", "-d", "x", "-H", "content-type: text/plain", f"{base}/v1/topics/t/messages"], check=True)
        target = f"{base}/v1/groups/g/topics/t:receive?tag=none&wait_ms=30000"
        command = ["curl", "-s", version, "-X", "POST", "-i", target]
        parked = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        limit = time.monotonic() + 20
        while 'headgate_connections_open{protocol="http"} 1' not in node.admin("/metrics") and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(0.3)
        assert node.stop() == 0
        answer, _ = parked.communicate(timeout=20)
    assert " 503" in answer.splitlines()[0]
    assert "draining" in answer
    if version == "--http1.1":
        assert "connection: close" in answer
