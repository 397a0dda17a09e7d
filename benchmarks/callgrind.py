"""Instructions of a server, counted by valgrind's callgrind: a figure that other programs on the machine do not change.

Instructions of the kernel are not counted. The server is some 40 times slower, and its clock is slowed down as much.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import final

from benchmarks.servers import ROOT, AbsentError, Server, headgate

SLOWER = 40
"""How much slower a server runs while its instructions are counted, about."""
START_S = 300.0
TRIES = 5
"""Calls of callgrind_control, which fails while the process is busy with an earlier one."""


@final
class Callgrind:
    """Counts the instructions of one process, all threads together.

    under   what the process's command line is appended to
    """

    def __init__(self, folder: Path) -> None:
        """`folder` gets the dumps. Raises AbsentError without valgrind or without a C compiler."""
        compiler = shutil.which("cc")
        if shutil.which("valgrind") is None or compiler is None:
            raise AbsentError("instructions are counted by valgrind, with a clock written in C: apt install valgrind gcc")
        self._dumps = folder / "callgrind"
        self._dumps.mkdir(parents=True)
        self.under = [
            "env", f"LD_PRELOAD={_clock(compiler)}", "PYTHONHASHSEED=0", "valgrind", "--tool=callgrind", "--instr-atstart=no",
            f"--callgrind-out-file={self._dumps}/%p",
        ]  # fmt: skip
        self.pid = 0

    def begin(self) -> None:
        """Count from now on."""
        self._control("--instr=on")
        self._control("--zero")

    def end(self) -> float:
        """Stop counting. Returns the instructions since `begin`. Raises RuntimeError when callgrind says none."""
        for dump in self._dumps.iterdir():
            dump.unlink()
        self._control("--dump")
        self._control("--instr=off")
        for dump in self._dumps.iterdir():
            for line in dump.read_text(errors="replace").splitlines():
                if line.startswith("totals:"):
                    return float(line.split()[1])
        raise RuntimeError(f"callgrind has written no totals to {self._dumps}")

    def _control(self, verb: str) -> None:
        said = ""
        for _ in range(TRIES):
            done = subprocess.run(["callgrind_control", verb, str(self.pid)], capture_output=True, text=True, check=False)
            said = done.stdout + done.stderr
            if done.returncode == 0 and "Error" not in said:
                return
        raise RuntimeError(f"callgrind_control {verb}: {' '.join(said.split())[-300:]}")


def _clock(compiler: str) -> Path:
    """Path of the preloaded clock. Builds it if it is older than its source."""
    source, library = ROOT / "benchmarks" / "slow_clock.c", ROOT / ".deps" / "slow_clock.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        library.parent.mkdir(exist_ok=True)
        flags = ["-O2", "-shared", "-fPIC", f"-DSLOWER={SLOWER}"]
        subprocess.run([compiler, *flags, "-o", str(library), str(source)], check=True)
    return library


def slowed() -> dict[str, str]:
    """Environment of a process that is not counted, and whose clock is slowed down with those that are. Raises AbsentError
    without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise AbsentError("a clock written in C is needed: apt install gcc")
    return {"LD_PRELOAD": str(_clock(compiler))}


def counted(folder: Path, durability: str, root: Path = ROOT, python: str = sys.executable) -> Server:
    """Start `headgate up` of the checkout at `root` with a counter of its instructions."""
    counter = Callgrind(folder)
    server = headgate(folder, durability, root, python, counter.under, START_S)
    counter.pid = server.processes[0].pid
    server.counter = counter
    return server
