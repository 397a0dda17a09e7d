"""The tour of webhooks, with a receiver in Python and one in JavaScript."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.node import ROOT
from tests.interop.webhooks.api import hooked

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_the_tour(language: str, tmp_path: Path) -> None:
    if language == "javascript" and shutil.which("node") is None:
        pytest.skip("node is not installed: the receiver in JavaScript was not run")
    command = (
        [sys.executable, "-m", "examples.webhooks.receiver"]
        if language == "python"
        else ["node", "examples/webhooks/receiver.mjs"]
    )
    receiver = subprocess.Popen([*command, "0", SECRET], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout is not None
        port = receiver.stdout.readline().split()[-1]
        with hooked(tmp_path) as node:
            done = subprocess.run(
                ["bash", "examples/webhooks/tour.sh", f"127.0.0.1:{node.port('http')}", f"127.0.0.1:{port}"],
                cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
            )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert '{"redriven":1}' in done.stdout
        assert done.stdout.endswith("done\n")
    finally:
        receiver.kill()
        said = receiver.communicate()[0]
    assert said.count('204 order.made {"bicycles": "fail"}') == 1
    assert said.count('500 order.made {"bicycles": "fail"}') == 3
    assert "401" not in said
