"""Schemathesis: requests made from the description of the API, legal ones and illegal ones; none is answered by 5xx."""

from __future__ import annotations

import os
import re
import subprocess
import venv
from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.workshop import made, step
from tests.store.faults.soak import SOAK

FUZZER = "schemathesis==4.32.5"
EXAMPLES = "50"
pytestmark = [
    pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900),
    pytest.mark.skipif(not SOAK, reason="Schemathesis runs in the soak: it takes a minute to install, and half of one to run"),
]  # fmt: skip


def fuzzer() -> Path:
    """Schemathesis, in an environment of its own."""

    def make(folder: Path) -> None:
        venv.create(folder / "venv", with_pip=True)
        step([str(folder / "venv" / "bin" / "pip"), "install", "-q", FUZZER], folder, "Schemathesis")

    return made("schemathesis", [FUZZER], make) / "venv" / "bin" / "schemathesis"


def test_no_request_is_answered_by_5xx(tmp_path: Path) -> None:
    program = fuzzer()
    with Node(tmp_path) as node:
        url = f"http://127.0.0.1:{node.port('http')}"
        done = subprocess.run(
            [
                str(program), "run", f"{url}/v1/openapi.json", "--checks", "not_a_server_error", "--max-examples", EXAMPLES,
                "--phases", "examples,coverage,fuzzing", "--request-timeout", "35", "--seed", "1", "--workers", "1",
                "--exclude-path-regex", ":(test|consume)$",
            ],
            cwd=tmp_path, capture_output=True, text=True, timeout=850, check=False, env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
        cases = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
        assert cases is not None, done.stdout[-6000:] + done.stderr[-2000:]
        # It cannot write CloudEvents, which it calls errors of the run; answers that it minds are failures.
        assert int(cases.group(2)) == int(cases.group(1)) > 500, done.stdout[-6000:]
        assert "Traceback" not in node.text()
