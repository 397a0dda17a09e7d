"""Clients that are built from others' packages: once for all runs and all processes, by whoever asks first, kept in .deps/.

    scripts = made("nodejs", [PROJECT], lambda folder: ...)     the folder, filled; the others wait for it
    program = go_program(PROJECT, "the Go SDK")                 `go build`
    classpath = java_classpath(PROJECT, "the Java SDK")         Maven's `compile`
    scripts = node_scripts(PROJECT, "the Node SDK")             `npm install`

What was built stays until one of its inputs changes. Where the toolchain is absent, or the way to the packages, a test skips
and says so.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOP = ROOT / ".deps" / "tests"
CLIENTS = Path(__file__).parent / "clients"
"""Projects in other languages, each a user of one client; `<language>/<project>`."""
FRAME = CLIENTS / "java" / "frame"
"""What runs scenes in Java, whatever the SDK."""
BUILD_S = 900
"""Downloads and compilers, on a machine that does other things as well."""
JVM = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""A Java machine for a client that lives for seconds: the better compiler would be most of what it costs."""
UNREACHABLE = {
    "go": ("dial tcp", "lookup ", "toolchain"),
    "mvn": ("resolve", "transfer"),
    "javac": (),
    "npm": ("ENOTFOUND", "ECONN", "EAI_AGAIN", "ETIMEDOUT", "network"),
    "cargo": ("failed to download", "failed to get", "failed to fetch"),
}
"""What each says when it cannot get a package."""


def made(name: str, inputs: Sequence[Path | str], make: Callable[[Path], None]) -> Path:
    """The folder `name` with what `make` puts there. It is called on an empty folder, and again only when an input is another.

    Inputs are files, folders, and words such as versions. While one process builds, others that want the same wait.
    """
    SHOP.mkdir(parents=True, exist_ok=True)
    folder, stamp, wanted = SHOP / name, SHOP / f"{name}.sha256", _digest(inputs)
    with _alone(SHOP / f"{name}.lock"):
        if not (stamp.exists() and stamp.read_text() == wanted):
            stamp.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            stamp.write_text(wanted)
    return folder


def need(what: str, *tools: str) -> None:
    """Skip where a tool is not installed, saying that `what` was not run."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: {what} was not run")


def step(command: Sequence[str], folder: Path, what: str, environment: Mapping[str, str] | None = None) -> None:
    """One step of a build. Skips where the packages cannot be had; any other failure is one."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what} was not built within {BUILD_S} s, so it was not run")
    text = done.stdout + done.stderr
    if done.returncode != 0 and any(word in text for word in UNREACHABLE[command[0]]):
        pytest.skip(f"{command[0]} could not get the packages of {what}, which was not run: {text.strip()[-300:]}")
    assert done.returncode == 0, text[-4000:]


def go_program(project: Path, what: str) -> Path:
    """The program that a Go module of ours makes, with the module `frame` beside it."""
    need(what, "go")

    def make(folder: Path) -> None:
        step(["go", "build", "-o", f"{folder}/program", "."], project, what)

    return made(f"go-{project.name}", [project, project.parent / "frame"], make) / "program"


def java_classpath(project: Path, what: str) -> str:
    """The class path of a Maven project of ours: its own classes with those of FRAME, and the jars that Maven has fetched."""
    need(what, "java", "javac", "mvn")

    def make(folder: Path) -> None:
        wanted = folder / "classpath"
        command = ["mvn", "-q", "-B", f"-Dmdep.outputFile={wanted}", f"-Dbuild.folder={folder / 'build'}"]
        step([*command, "dependency:build-classpath"], project, what, {"MAVEN_OPTS": " ".join(JVM[1:])})
        own = [str(path) for path in sorted(project.rglob("src/main/java/**/*.java"))]
        if own:
            frame = [str(path) for path in sorted(FRAME.glob("*.java"))]
            classes = ["-encoding", "UTF-8", "-cp", wanted.read_text(), "-d", str(folder / "classes")]
            step(["javac", "-J-XX:TieredStopAtLevel=1", "-nowarn", *classes, *own, *frame], project, what)

    folder = made(f"java-{project.name}", [project, FRAME], make)
    return f"{folder / 'classes'}:{(folder / 'classpath').read_text()}"


def node_scripts(project: Path, what: str) -> Path:
    """A copy of a folder of scripts, with the packages that its package.json asks for."""
    need(what, "node", "npm")

    def make(folder: Path) -> None:
        shutil.copytree(project, folder, dirs_exist_ok=True)
        step(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"], folder, what)

    return made(f"node-{project.name}", [project], make)


def _digest(inputs: Sequence[Path | str]) -> str:
    """What tells one state of the inputs from another."""
    total = hashlib.sha256()
    for each in inputs:
        if isinstance(each, str):
            total.update(f"{each}\n".encode())
            continue
        for path in sorted(each.rglob("*")) if each.is_dir() else [each]:
            if path.is_file():
                total.update(f"{path.name}\n".encode() + path.read_bytes())
    return total.hexdigest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock between processes, which ends with its process."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
