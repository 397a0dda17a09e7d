"""Server processes: started, measured, and stopped by their process id."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

_RUN_PORTS: Final = 4
"""Ports of one broker."""
_CHANCE: Final = random.SystemRandom()
_given: Final[list[int]] = []
"""Ports that this process has chosen."""


def cpu_s(pid: int) -> float:
    """Processor seconds of a process, by its clock (clock_getcpuclockid(3)). /proc/PID/stat counts in steps of 10 ms."""
    return time.clock_gettime((~pid << 3) | 2)


def memory_kib(pid: int | str, kind: str) -> int:
    """Memory of a process in KiB: RssAnon, anonymous and resident, or VmRSS, all that is resident."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1])
    return 0


def free_port() -> int:
    """A TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_run() -> int:
    """A port whose neighbours are free too: a broker listens on the port 2 below its own, and on the one above.

    It is below those that the system gives to connections, one of which may begin before the server listens. No neighbour of a
    port that was given before is given: the first server may not listen yet.
    """
    while True:
        port = _CHANCE.randrange(20_000, 32_000)
        if any(abs(port - other) < _RUN_PORTS for other in _given):
            continue
        held: list[socket.socket] = []
        try:
            for near in range(port - 2, port + 2):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", near))
        except OSError:
            continue
        finally:
            for each in held:
                each.close()
        _given.append(port)
        return port


def bound(command: list[str]) -> list[str]:
    """The command, changed so that it ends with this process in all cases (by util-linux's setpriv)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else command


class Process:
    """One server process and its descendants."""

    def __init__(self, command: list[str], folder: Path, env: dict[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._output = folder / "output.txt"
        self._log = open(self._output, "ab")  # noqa: SIM115 - closed in stop
        self._process = subprocess.Popen(
            bound(command), stdout=self._log, stderr=self._log, cwd=folder, env={**os.environ, **(env or {})},
            start_new_session=True,
        )  # fmt: skip
        self.pid = self._process.pid

    def pids(self) -> list[int]:
        """The process and its descendants."""
        found = [self.pid]
        for pid in found:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    found.extend(int(child) for child in task.read_text().split())
                except FileNotFoundError:
                    continue  # the thread has just ended
        return found

    def cpu_s(self) -> float:
        """User and system time so far in seconds, over all threads and descendants."""
        return sum(cpu_s(pid) for pid in self.pids())

    def anonymous_mb(self) -> float:
        """Anonymous resident memory, megabytes."""
        return sum(memory_kib(pid, "RssAnon") for pid in self.pids()) / 1024

    def wait_port(self, port: int, seconds: float = 60) -> None:
        """Wait until a process listens on 127.0.0.1:port. Raises TimeoutError, or RuntimeError when the process has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._process.poll() is not None:
                said = " ".join(self._output.read_text(errors="replace")[-300:].split())
                raise RuntimeError(f"the server ended with {self._process.returncode}: {said}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        raise TimeoutError(f"nothing listens on port {port}")

    def kill(self) -> None:
        """Send SIGKILL, and do not wait. `stop` is called later all the same."""
        self._process.kill()

    def stop(self) -> None:
        """Send SIGTERM, and after 15 s SIGKILL, to the process and its descendants."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # the process leads its own group: remaining descendants end too
        self._log.close()
