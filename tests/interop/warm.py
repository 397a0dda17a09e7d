"""Server processes that are forked from a process which has imported a node's modules: the second of imports is spent once.

    process = start(["up", "--data", folder], environment, cwd, log)      None: this environment needs a start of its own

The process runs the command `headgate` as `python -m gateway` does, and has the part of `subprocess.Popen` that tests use. One
process of imports belongs to each process that runs tests.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Final, final

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.interop.imported"])
_OWN: Final = frozenset({"HEADGATE_PURE", "HEADGATE_REQUIRE_COMPILED"})
"""Variables of ours that count when modules are imported."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_spent: list[float] = []


def processor_s() -> float:
    """Processor time of the servers that have ended, in seconds: they are no children of this process (tests/costs.py)."""
    return sum(_spent)


@final
class WarmProcess:
    """One server process; as `subprocess.Popen`, with the exit status -N after signal N."""

    def __init__(self, arguments: list[str], environment: dict[str, str], cwd: Path, log: Path) -> None:
        """Fork it. `arguments`: those of the command `headgate`; `log`: gets its output, at the end."""
        # As a daemon it ends when the process that runs tests ends.
        self._process = _CONTEXT.Process(target=_run, args=(arguments, environment, str(cwd), str(log)), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, when it has ended. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired("headgate", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended. What it has computed until then is counted."""
        if self._process.exitcode is None:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            _spent.append((int(fields[11]) + int(fields[12])) / _TICKS)
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()


def start(arguments: list[str], environment: dict[str, str], cwd: Path, log: Path) -> WarmProcess | None:
    """Start a server; None: a variable is set that counts before or while modules are imported."""
    changed = {name for name in {*environment, *os.environ} if environment.get(name) != os.environ.get(name)}
    if any(not name.startswith("HEADGATE_") or name in _OWN for name in changed):
        return None
    return WarmProcess(arguments, environment, cwd, log)


def _run(arguments: list[str], environment: dict[str, str], cwd: str, log: str) -> None:
    """The forked process: its environment, folder and output, then the command."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    silence = os.open(os.devnull, os.O_RDONLY)
    for number, opened in ((0, silence), (1, output), (2, output)):
        os.dup2(opened, number)
    os.close(output)
    os.close(silence)
    sys.argv = ["headgate", *arguments]
    from gateway.node.cli import main

    main()
