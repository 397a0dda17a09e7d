"""The unit of docs/operations.md: systemd takes it as it stands there, and it leaves the node little that it does not need."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.pages import Page

SECTION = "A store group of three nodes"
EXPOSED_MAX = "50"
"""In tenths: `systemd-analyze security` says 9.2 of a unit without any such line, and "OK" below 5."""

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit, of a program that exists."""
    text = Page("docs/operations.md").block(SECTION, "ini")
    program = next(line for line in text.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart=").split()[0]
    path = tmp_path / "headgate.service"
    path.write_text(text.replace(program, "/bin/true"), "utf-8")
    return path


def analyzed(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_the_unit_is_taken_without_a_word(unit: Path) -> None:
    done = analyzed("verify", str(unit))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_unit_keeps_the_data_to_its_user_and_the_rest_of_the_machine_from_the_node(unit: Path) -> None:
    wanted = {"StateDirectoryMode=0700", "UMask=0077", "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes"}
    assert wanted <= set(unit.read_text("utf-8").splitlines())
    done = analyzed("security", "--offline=true", f"--threshold={EXPOSED_MAX}", str(unit))
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
