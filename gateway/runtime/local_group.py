"""`headgate up --replicas N`: a replicated store group with a gateway before it, on this machine, for a first try.

Each replica is a process with a store and a controller, the gateway another one. This process starts them, starts again
whichever ends, and stops all of them at a signal. Replicas on one machine survive a process, not the machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, final

from domain.errors import ConfigError

NUMBERS: Final = (3, 5)
"""Replicas that are possible: as many controllers, a majority of which survives the loss of one, or of two."""
STEP: Final = 1_000
"""Difference between the ports of two processes."""
GATEWAY: Final = "gateway"
LOG_BYTES: Final = 16 * 1024 * 1024
"""Size of the log of a process from which on its next start begins another one; the one before is kept."""
SHORT_S: Final = 10.0
"""Life of a process that counts as a failed start."""
FAILED_MAX: Final = 3
"""Failed starts of a process, one after the other, after which all end."""
REST_S: Final = 1.0
LOOK_S: Final = 0.2
WAITS_S: Final = 10.0
"""Time between two lines about what is waited for."""
STOP_S: Final = 20.0
_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG."""
_NAMES: Final = ("HEADGATE_CONTROLLER_PEERS", "HEADGATE_REPLICATION_CONTROLLERS")

Say = Callable[[str], None]


def checked_folder(folder: Path) -> Path:
    """The folder of a group. Raises ConfigError for the data of a single node."""
    if (folder / "log").exists():
        raise ConfigError(
            f"{folder} has the messages of a single node: name another folder for the group, as in --data ./headgate-group. "
            'docs/operations.md, "A single node becomes a replica", says how that node becomes one'
        )
    return folder.absolute()


@final
class LocalProcess:
    """One process of the group, started again when it ends.

    failed   failed starts since the last one that succeeded
    """

    def __init__(self, name: str, folder: Path, options: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self.failed = 0
        self.log = folder / f"{name}.log"
        self._command = [sys.executable, "-m", "gateway", "run", "--data", str(folder / name), *options]
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._due_s = 0.0

    @property
    def pid(self) -> int:
        """Its process id; 0: it does not run."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it, in a session of its own: Ctrl-C reaches this process alone, which stops all in order."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.before"))
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, preexec_fn=_end_with_parent,  # noqa: PLW1509  this process has one thread
            )  # fmt: skip
        self._started_s = time.monotonic()

    def look(self, say: Say) -> bool:
        """Start it again some time after it has ended. False: it cannot be started."""
        now_s = time.monotonic()
        if self._process is None:
            if now_s >= self._due_s:
                self.start()
            return True
        status = self._process.poll()
        if status is None:
            if now_s - self._started_s > SHORT_S:
                self.failed = 0
            return True
        self._process, self._due_s = None, now_s + REST_S
        self.failed = self.failed + 1 if now_s - self._started_s <= SHORT_S else 0
        say(f"{self.name} has ended ({_how(status)}) and is started again; its log is {self.log}")
        return self.failed < FAILED_MAX

    def end(self) -> None:
        """Ask it to stop."""
        if self._process is not None:
            self._process.terminate()

    def wait(self) -> None:
        """Wait until it has stopped; it is killed after STOP_S."""
        if self._process is not None:
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def last_lines(self) -> list[str]:
        """The end of its log."""
        return self.log.read_text("utf-8", "replace").splitlines()[-10:]


@final
class LocalGroup:
    """All processes of one group."""

    def __init__(self, folder: Path, offset: int, replicas: int, say: Say) -> None:
        """`offset`: of the gateway's ports; those of replica N are N x STEP above. Raises ConfigError."""
        if replicas not in NUMBERS:
            raise ConfigError(f"--replicas is {replicas}: {' or '.join(map(str, NUMBERS))} are possible on one machine")
        self._folder = checked_folder(folder)
        self._say = say
        self._admin = 8088 + offset
        self._ports = [offset + STEP * number for number in range(1, replicas + 1)]
        self._http = 8080 + offset
        self._controllers = [f"127.0.0.1:{9878 + each}" for each in self._ports]
        stores = [f"127.0.0.1:{10911 + each}" for each in self._ports]
        of_group = dict.fromkeys(_NAMES, json.dumps(self._controllers))
        self._replicas = [
            LocalProcess(f"replica-{number}", self._folder, _options("store,controller", each), of_group)
            for number, each in enumerate(self._ports, 1)
        ]
        gateway = (*_options("gateway", offset), "--store", ",".join(stores))
        self._all = [*self._replicas, LocalProcess(GATEWAY, self._folder, gateway, {})]
        self._ready = False
        self._said_s = time.monotonic()

    def run(self, stop: threading.Event) -> int:
        """Start all, and keep them running until `stop` is set -> the exit status."""
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            for each in self._all:
                each.start()
            while not stop.wait(LOOK_S):
                for each in self._all:
                    if not each.look(self._say):
                        self._say(f"{each.name} cannot be started; the end of {each.log}:")
                        for line in each.last_lines():
                            self._say(f"  {line}")
                        return 2
                if not self._ready:
                    self._look()
        finally:
            self._end()
        return 0

    def _look(self) -> None:
        """Say that the group serves, as soon as it does."""
        reasons = self._reasons()
        if reasons is None:
            self._ready = True
            self._announce()
        elif time.monotonic() - self._said_s >= WAITS_S:
            self._said_s = time.monotonic()
            self._say(f"not ready yet: {reasons}")

    def _reasons(self) -> str | None:
        """Why the gateway does not serve; None: it does."""
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self._admin}/readyz", timeout=2).close()
        except urllib.error.HTTPError as error:
            return _reasons_of(error.read())
        except (urllib.error.URLError, OSError) as error:
            return f"the gateway does not answer yet ({error})"
        return None

    def _announce(self) -> None:
        count = len(self._replicas)
        self._say(f"Headgate is ready: {count} replicas and a gateway on this machine.")
        rows = [
            ("clients", f"127.0.0.1:{self._http} for all protocols; the other ports are in {self._all[-1].log}"),
            *((each.name, f"process {each.pid}, log {each.log}") for each in self._replicas),
            ("status", f"headgate cluster status --controller {self._controllers[0]}"),
            ("try", f"curl -d hello http://127.0.0.1:{self._http}/v1/topics/orders/messages"),
            ("", "kill -9 the process of a replica: another one leads, and it is started again here"),
            ("data", f"{self._folder}: the next start goes on from there"),
            ("stop", "Ctrl-C"),
        ]
        for name, text in rows:
            self._say(f"  {name:<11} {text}")

    def _end(self) -> None:
        """Stop the gateway, then the replicas."""
        self._say("stops")
        for some in ([self._all[-1]], self._replicas):
            for each in some:
                each.end()
            for each in some:
                each.wait()


def run(folder: str, offset: int, replicas: int, say: Say) -> int:
    """Run a group until SIGINT or SIGTERM -> the exit status. Raises ConfigError."""
    group = LocalGroup(Path(folder), offset, replicas, say)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return group.run(stop)


def _options(roles: str, offset: int) -> tuple[str, ...]:
    return "--roles", roles, "--port-offset", str(offset), "--host", "127.0.0.1"


def _how(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _end_with_parent() -> None:
    """In the new process: SIGTERM when this one dies, so that no process of the group is left alone."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM)


def _reasons_of(answer: bytes) -> str:
    """The reasons in an answer of /readyz, text for people; another answer as it is."""
    try:
        return "; ".join(map(str, json.loads(answer)["reasons"]))
    except (ValueError, KeyError, TypeError):
        return answer.decode("utf-8", "replace")
