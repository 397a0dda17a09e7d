"""A working tree with the real scripts and stand-ins for Python, the compilation and the server."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final, final

ROOT: Final = Path(__file__).resolve().parents[2]

PYTHON: Final = """#!/bin/sh
# Notes every call. A compilation waits for the file `go` and makes what the file `setup.py` says.
echo "$*" >>calls
case "$1" in
-c) echo "setuptools>=77" ;;
setup.py)
    until [ -e go ]; do sleep 0.02; done
    . ./setup.py ;;
esac
"""
COMPILATION: Final = """
echo "headgate: translating"
mkdir -p .compiled
sha256sum setup.py >.compiled/inputs.sha256
"""
FAILURE: Final = """
echo "no such luck"
exit 1
"""
SERVER: Final = """#!/bin/sh
# Says its process and what is compiled when it starts, then serves until a signal ends it.
echo "serving $$ $(cat .compiled/tools 2>/dev/null)"
[ -z "$SERVE" ] || exec sleep 60
"""


@final
class Tree:
    """A tree in `root` in which everything is installed and nothing is compiled.

    root      its folder
    started   processes that `start` has started
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.started: list[subprocess.Popen[str]] = []
        (root / "scripts").mkdir()
        for name in ("up", "scripts/prepare", "scripts/check"):
            shutil.copy(ROOT / name, root / name)
        (root / "pyproject.toml").write_text("")
        (root / "setup.py").write_text(COMPILATION)
        self.program("python", PYTHON)
        self.program("headgate", SERVER)
        files = ("pyproject.toml", ".venv/bin/headgate")
        sums = [f"{hashlib.sha256((root / name).read_bytes()).hexdigest()}  {name}\n" for name in files]
        (root / ".venv" / "installed-up.sha256").write_text("".join(sums))

    def program(self, name: str, text: str) -> None:
        """Write a program into the venv."""
        file = self.root / ".venv" / "bin" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def go(self) -> None:
        """Let compilations continue; before this call they wait."""
        (self.root / "go").touch()

    def calls(self) -> list[str]:
        """Calls of the stand-in for Python so far."""
        file = self.root / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        """Start `command` in the tree, in a process group of its own, as a terminal does."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        process = subprocess.Popen(
            # A run of the tests in the background ignores SIGINT, and so would what it starts.
            ["env", "--default-signal=INT", *command],
            cwd=self.root,
            env=inherited | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run(self, *command: str, **environment: str) -> tuple[int, str, str]:
        """Run `command` until it and its output have ended. Returns exit status, stdout, stderr."""
        process = self.start(*command, **environment)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def end(self) -> None:
        """End the started processes and wait for compilations to end."""
        self.go()
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
