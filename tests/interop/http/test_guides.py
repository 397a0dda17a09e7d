"""Every curl line of the HTTP guides, run as written against a new node."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.node import ROOT, Node

GUIDES = ROOT / "docs" / "protocols"
pytestmark = [pytest.mark.interop, pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")]


def commands(guide: Path) -> list[str]:
    """The curl commands of a guide, continued lines joined."""
    blocks = re.findall(r"^```\n(.*?)^```", guide.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").split("\n")
    return [line for line in lines if line.startswith("curl ")]


@pytest.mark.parametrize("name", ["http.md", "cloudevents.md"])
def test_examples_work_as_typed(name: str, tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        found = commands(GUIDES / name)
        assert len(found) > 5
        for line in found:
            typed = line.replace("127.0.0.1:8080", f"127.0.0.1:{node.port('http')}")
            endless = line.startswith("curl -N")
            done = subprocess.run(
                f"{typed}{' --max-time 2' if endless else ''} -sS -o /dev/null -w '%{{http_code}}'",
                shell=True,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert done.returncode == (28 if endless else 0), done.stderr
            assert done.stdout[-3:] in ("200", "201", "204"), line
