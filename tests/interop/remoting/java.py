"""The unmodified Java client and tools of RocketMQ 5.5.0, built by Maven."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.interop.node import Ports
from tests.interop.workshop import CLIENTS, java_classpath, jvm

PROJECT = CLIENTS / "java" / "remoting"
RUN_S = 150
SCENES_S = 200


class JavaClient:
    """Compiled scenarios with their class path. `home` is the home folder of the client, for its logs."""

    def __init__(self, classpath: str, home: Path) -> None:
        self._classpath = classpath
        self._home = home
        self._console: subprocess.Popen[str] | None = None

    def at(self, home: Path) -> JavaClient:
        """The same with another home folder, whose conf/tools.yml can have credentials for mqadmin."""
        return JavaClient(self._classpath, home)

    def command(self, main: str, *options: str) -> list[str]:
        """The beginning of a command line that runs a main class."""
        homes = (f"-Duser.home={self._home}", f"-Drocketmq.home.dir={self._home}")
        return [*jvm(self._classpath, *homes, *options), main]

    def run(
        self, main: str, *arguments: str, options: tuple[str, ...] = (), seconds: int = RUN_S
    ) -> subprocess.CompletedProcess[str]:
        """One run of a main class, at most `seconds`."""
        command = [*self.command(main, *options), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL)

    def scenes(self, group: str, nameserver: str, broker: str, *names: str, options: tuple[str, ...] = ()) -> dict[str, str]:
        """Play scenes of one set, all unless some are named, at the same time: most of them wait. Scene -> its result."""
        return run([*self.command("Suite", *options), group, nameserver, broker, *names])

    def scenario(self, name: str, nameserver: str, options: tuple[str, ...] = ()) -> None:
        """Play one scene of the set `clients`, on the topic Java-clients-NAME."""
        told = self.scenes("clients", nameserver, nameserver, name, options=options)
        assert told[name].startswith("OK "), told[name]

    def admin(self, *arguments: str) -> str:
        """Run one command of mqadmin, or `Guarded`. Returns its output, with exceptions as text. All share one process."""
        if self._console is None or self._console.poll() is not None:
            pipe = subprocess.PIPE
            self._console = subprocess.Popen(
                self.command("Console"), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, errors="replace",
                cwd=self._home,
            )  # fmt: skip
        assert self._console.stdin is not None
        assert self._console.stdout is not None
        self._console.stdin.write("\t".join(arguments) + "\n")
        self._console.stdin.flush()
        said: list[str] = []
        for line in self._console.stdout:
            if line == "=== end\n":
                break
            said.append(line)
        return "".join(said)


def build(folder: Path, project: Path = PROJECT) -> JavaClient:
    """The client with its home in `folder`. Skips, with the reason, without a toolchain or without access to the artifacts."""
    home = folder / "home"
    home.mkdir()
    return JavaClient(java_classpath(project, "the Java client of RocketMQ"), home)


def addresses(node: Ports) -> tuple[str, str]:
    """host:port of the name server and of the broker."""
    return f"127.0.0.1:{node.port('nameserver')}", f"127.0.0.1:{node.port('remoting')}"


def run(command: list[str]) -> dict[str, str]:
    """Play scenes of an SDK. Returns scene -> "OK …", or "FAILED …" with the reason."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SCENES_S, check=False, stdin=subprocess.DEVNULL, errors="replace"
    )
    print(done.stdout)
    found = scenes(done.stdout)
    assert found, done.stdout[-2000:] + done.stderr[-4000:]
    return found


def scenes(output: str) -> dict[str, str]:
    """Results in a process's output, by scene."""
    found: dict[str, str] = {}
    name = ""
    for line in output.splitlines():
        if line.startswith(("OK ", "FAILED ")):
            name = line.split()[1]
            found[name] = line
        elif name:
            found[name] += f"\n{line}"
    return found
