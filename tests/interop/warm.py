"""Processes of `headgate` that are forked from one which has imported a node's modules: the second of imports is spent once.

    process = start(["up", "--data", folder], environment, cwd, log)      None: this environment needs a start of its own
    done = headgate("cluster", "status")                                  a command, to its end

A process runs the command `headgate` as `python -m gateway` does, and has the part of `subprocess.Popen` that tests use. One
process of imports belongs to each process that runs tests.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, final

ROOT: Final = Path(__file__).resolve().parents[2]
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
    """One process; as `subprocess.Popen`, with the exit status -N after signal N."""

    def __init__(self, arguments: list[str], environment: dict[str, str], cwd: Path, log: Path, errors: Path) -> None:
        """Fork it. `arguments`: those of the command `headgate`; `log`, `errors`: get its output, at the end."""
        # As a daemon it ends when the process that runs tests ends.
        files = (str(cwd), str(log), str(errors))
        self._process = _CONTEXT.Process(target=_run, args=(arguments, environment, *files), daemon=True)
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
    changed = {name for name in {*environment, *os.environ} if environment.get(name, "") != os.environ.get(name, "")}
    if any(not name.startswith("HEADGATE_") or name in _OWN for name in changed):
        return None
    return WarmProcess(arguments, environment, cwd, log, log)


def headgate(*arguments: str, seconds: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command `headgate` to its end, which has to come within `seconds`. `environment`: added to that of the test."""
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        process = WarmProcess(list(arguments), {**os.environ, **environment}, ROOT, output, errors)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(["headgate", *arguments], status, output.read_text(), errors.read_text())


def _run(arguments: list[str], environment: dict[str, str], cwd: str, log: str, errors: str) -> None:
    """The forked process: its environment, folder and output, then the command."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    opened = [os.open(os.devnull, os.O_RDONLY)]
    opened += [os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644) for file in (log, errors)]
    for number, file in enumerate(opened):
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["headgate", *arguments]
    from gateway.node.cli import main

    main()
