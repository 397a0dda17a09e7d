"""Builds clients from third-party packages, once for all runs and processes, into .deps/.

    scripts = made("nodejs", [PROJECT], lambda folder: ...)     the filled folder; other processes wait for it
    program = go_program(PROJECT, "the Go SDK")                 `go build`
    program = rust_program(PROJECT, "the Rust SDK")             `cargo build`
    classpath = java_classpath(PROJECT, "the Java SDK")         Maven's `compile`
    scripts = node_scripts(PROJECT, "the Node SDK")             `npm install`

A client is built again when one of its inputs has changed. A test is skipped, with the reason, when the toolchain is not
installed or the packages cannot be downloaded.
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
"""Folder of projects in other languages, `<language>/<project>`; each project uses one client."""
FRAME = CLIENTS / "java" / "frame"
"""The Java sources that run scenes with any SDK."""
BUILD_S = 900
"""Time for downloads and compilers on a busy machine."""
JVM = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that lives for seconds: without the optimising compiler, which would use most of its CPU."""
UNREACHABLE = {
    "go": ("dial tcp", "lookup ", "toolchain"),
    "mvn": ("resolve", "transfer"),
    "javac": (),
    "npm": ("ENOTFOUND", "ECONN", "EAI_AGAIN", "ETIMEDOUT", "network"),
    "pip": ("Could not find a version", "No matching distribution", "ConnectionError", "ReadTimeout"),
    "cargo": ("failed to download", "failed to get", "failed to fetch"),
}
"""Text in the output of each build tool when it cannot download a package."""


def made(name: str, inputs: Sequence[Path | str], make: Callable[[Path], None]) -> Path:
    """The folder `name`, filled by `make`. `make` is called with an empty folder, and again only when an input has changed.

    Inputs are files, folders, and words such as versions. While one process builds, others that need the same folder wait.
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
    """Skip the test when a tool is not installed, with the reason that `what` was not run."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: {what} was not run")


def step(command: Sequence[str], folder: Path, what: str, environment: Mapping[str, str] | None = None) -> None:
    """Run one step of a build. Skips the test when packages cannot be downloaded; fails on any other error."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what} was not built within {BUILD_S} s, so it was not run")
    text = done.stdout + done.stderr
    if done.returncode != 0 and any(word in text for word in UNREACHABLE[Path(command[0]).name]):
        pytest.skip(f"{command[0]} could not get the packages of {what}, which was not run: {text.strip()[-300:]}")
    assert done.returncode == 0, text[-4000:]


def go_program(project: Path, what: str) -> Path:
    """Build one of the project's Go modules, with the module `frame` beside it. Returns the program."""
    need(what, "go")

    def make(folder: Path) -> None:
        step(["go", "build", "-o", f"{folder}/program", "."], project, what)

    return made(f"go-{project.name}", [project, project.parent / "frame"], make) / "program"


def rust_program(project: Path, what: str) -> Path:
    """Build one of the project's Rust packages. Returns the program.

    Its 270 packages take four minutes of processor time. As with Go and Maven, all trees of a user keep them in one cache.
    """
    need(what, "cargo", "cc")
    packages = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headgate" / f"rust-{project.name}"

    def make(folder: Path) -> None:
        packages.mkdir(parents=True, exist_ok=True)
        with _alone(packages / "lock"):
            step(["cargo", "build", "--quiet", "--locked"], project, what, {"CARGO_TARGET_DIR": str(packages)})
            shutil.copy2(packages / "debug" / "program", folder)

    return made(f"rust-{project.name}", [project], make) / "program"


def java_classpath(project: Path, what: str) -> str:
    """Build one of the project's Maven projects. Returns the class path: its classes with those of FRAME, and Maven's jars."""
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
    """A copy of a folder of scripts with the packages of its package.json installed."""
    need(what, "node", "npm")

    def make(folder: Path) -> None:
        shutil.copytree(project, folder, dirs_exist_ok=True)
        step(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"], folder, what)

    return made(f"node-{project.name}", [project], make)


def _digest(inputs: Sequence[Path | str]) -> str:
    """A digest of the inputs."""
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
    """Hold an inter-process lock, which also ends with the process."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
