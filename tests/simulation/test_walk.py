"""The page that walks one message through a node names the functions that the message really passes, in their order."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.simulation.walk import ROOT

PAGE = ROOT / "docs" / "life-of-a-message.md"
STEP = re.compile(r"^\| \d+ \| `([\w/]+\.py)` \| `([\w.<>]+)` \|", re.MULTILINE)


def test_the_page_names_the_functions_that_a_message_passes() -> None:
    steps = [f"{file} {function}" for file, function in STEP.findall(PAGE.read_text("utf-8"))]
    assert len(steps) >= 20, "the table of the page was not read"
    command = [sys.executable, "-m", "tests.simulation.walk"]
    environment = {**os.environ, "HEADGATE_PURE": "1"}
    walk = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=True)
    entered = iter(walk.stdout.splitlines())
    for step in steps:
        assert step in entered, f"{step}: not entered, or not in this order; `python -m tests.simulation.walk` tells what is"
