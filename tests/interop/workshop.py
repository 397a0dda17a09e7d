"""Builds clients from third-party packages, once for all runs, processes and trees of a user, into his cache.

    scripts = made("nodejs", [PROJECT], lambda folder: ...)     the filled folder; other processes wait for it
    program = go_program(PROJECT, "the Go SDK")                 `go build`
    program = rust_program(PROJECT, "the Rust SDK")             `cargo build`
    classpath = java_classpath(PROJECT, "the Java SDK")         Maven's `compile`
    command = [*jvm(classpath), "Main"]                         a JVM that lives for seconds
    scripts = node_scripts(PROJECT, "the Node SDK")             `npm install`

A client is built for each content of its inputs. A test is skipped, with the reason, when the toolchain is not installed or the
packages cannot be downloaded.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOP = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headgate" / "tests"
KEPT_S = 14 * 24 * 3600
"""Time after its last use for which a client is kept that was built from other inputs."""
CLIENTS = Path(__file__).parent / "clients"
"""Folder of projects in other languages, `<language>/<project>`; each project uses one client."""
FRAME = CLIENTS / "java" / "frame"
"""The Java sources that run scenes with any SDK."""
BUILD_S = 900
"""Time for downloads and compilers on a busy machine."""
JVM = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that lives for seconds: without the optimising compiler, which would use most of its CPU."""
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Options of a JVM that reads or writes an archive of classes: without warnings of classes that are not in it."""
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
    """The folder of a client, filled by `make`, which is called with an empty folder, once for each content of the inputs.

    Inputs are files, folders, and words such as versions. While one process builds, others that need the same folder wait.
    """
    SHOP.mkdir(parents=True, exist_ok=True)
    folder = SHOP / f"{name}-{_digest(inputs)[:16]}"
    stamp = folder.with_suffix(".made")
    with _alone(SHOP / f"{name}.lock"):
        if not stamp.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            _remove_unused(name)
        stamp.touch()
    return folder


def _remove_unused(name: str) -> None:
    """Remove what was built of a client from other inputs, and was not used for long."""
    for stamp in SHOP.glob(f"{name}-{'[0-9a-f]' * 16}.made"):
        if stamp.stat().st_mtime < time.time() - KEPT_S:
            stamp.unlink()
            shutil.rmtree(stamp.with_suffix(""), ignore_errors=True)


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

    Its 270 packages take four minutes of processor time: they are kept for programs of other inputs, too.
    """
    need(what, "cargo", "cc")
    packages = SHOP.parent / f"rust-{project.name}"

    def make(folder: Path) -> None:
        packages.mkdir(parents=True, exist_ok=True)
        with _alone(packages / "lock"):
            step(["cargo", "build", "--quiet", "--locked"], project, what, {"CARGO_TARGET_DIR": str(packages)})
            shutil.copy2(packages / "debug" / "program", folder)

    return made(f"rust-{project.name}", [project], make) / "program"


def java_classpath(project: Path, what: str) -> str:
    """Build one of the project's Maven projects. Returns the class path: its classes with those of FRAME, and Maven's jars."""
    need(what, "java", "javac", "mvn")

    def fetch(folder: Path) -> None:
        command = ["mvn", "-q", "-B", f"-Dmdep.outputFile={folder / 'classpath'}", f"-Dbuild.folder={folder / 'build'}"]
        step([*command, "dependency:build-classpath"], project, what, {"MAVEN_OPTS": " ".join(JVM[1:])})

    jars = (made(f"jars-{project.name}", [project / "pom.xml"], fetch) / "classpath").read_text()
    sources = sorted(project.rglob("src/main/java/**/*.java"))
    if not sources:
        return jars

    def make(folder: Path) -> None:
        classes = folder / "classes"
        options = ["-J-XX:TieredStopAtLevel=1", "-nowarn", "-encoding", "UTF-8", "-cp", jars, "-d", str(classes)]
        step(["javac", *options, *(str(path) for path in [*sources, *sorted(FRAME.glob("*.java"))])], project, what)
        shutil.make_archive(str(classes), "zip", classes)

    return f"{made(f'java-{project.name}', [*sources, FRAME, jars], make) / 'classes.zip'}:{jars}"


def jvm(classpath: str, *options: str, always: Sequence[str] = JVM, server: str = "") -> list[str]:
    """The beginning of the command line of a JVM; its main class follows. `server`: name of a server's class."""
    return [*always, *archiving(classpath, server), *options, "-cp", classpath]


def archiving(classpath: str, server: str = "") -> list[str]:
    """Options of a JVM that writes the classes that it has loaded into an archive, at its end, or maps the archive.

    The first JVM that ends and is not killed writes it: to load classes takes almost half of the processor time of a client of
    RocketMQ, and more of Spark's. A JVM does not use an archive that does not fit.
    """
    SHOP.mkdir(parents=True, exist_ok=True)
    file = archive(classpath, server)
    return [f"-XX:{'SharedArchiveFile' if file.exists() else 'ArchiveClassesAtExit'}={file}", *QUIET]


def archive(classpath: str, server: str = "") -> Path:
    """The archive of classes of all clients with a class path, or of one server."""
    return SHOP / f"{hashlib.sha256(f'{classpath} {server}'.encode()).hexdigest()[:16]}.jsa"


def node_scripts(project: Path, what: str) -> Path:
    """A copy of a folder of scripts with the packages of its package.json installed."""
    need(what, "node", "npm")

    def make(folder: Path) -> None:
        shutil.copytree(project, folder, dirs_exist_ok=True)
        step(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"], folder, what)

    return made(f"node-{project.name}", [project], make)


def _digest(inputs: Sequence[Path | str]) -> str:
    """A digest of the inputs."""
    total = hashlib.sha256(sys.version.encode())
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
