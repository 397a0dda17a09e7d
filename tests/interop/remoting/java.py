"""The unmodified Java client and tools of RocketMQ 5.5.0, built by Maven."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.interop.workshop import CLIENTS, JVM, java_classpath

PROJECT = CLIENTS / "java" / "remoting"
RUN_S = 150


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
        return [
            *JVM, f"-Duser.home={self._home}", f"-Drocketmq.home.dir={self._home}", *options, "-cp", self._classpath, main,
        ]  # fmt: skip

    def run(
        self, main: str, *arguments: str, options: tuple[str, ...] = (), seconds: int = RUN_S
    ) -> subprocess.CompletedProcess[str]:
        """One run of a main class, at most `seconds`."""
        command = [*self.command(main, *options), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL)

    def scenario(self, *arguments: str, options: tuple[str, ...] = ()) -> None:
        """Run one scenario, which prints OK when all its checks pass."""
        done = self.run("Scenario", *arguments, options=options)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        assert f"OK {arguments[0]}" in done.stdout

    def admin(self, *arguments: str) -> str:
        """Run one mqadmin command. Returns its output, with exceptions as text. All commands share one process."""
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
