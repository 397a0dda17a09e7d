"""The load generator: a Go program that uses only the standard library. It is built when it is older than its sources."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from benchmarks.process import bound
from benchmarks.servers import ROOT, Server
from benchmarks.shapes import Shape

TIMEOUT_S = 300

Figures = dict[str, float]
"""The JSON line that the generator prints: messages, errors, lost, duplicates, disorder, early, seconds, per_second, pXX_us,
note."""


def binary() -> Path:
    """Path of the generator. Builds it if it is older than its sources."""
    return build(ROOT / "benchmarks" / "load", "load")


def build(folder: Path, name: str) -> Path:
    """Path of a Go module's program in `.deps`. Builds it if it is older than its sources."""
    program = ROOT / ".deps" / name
    sources = [*folder.glob("*.go"), folder / "go.mod"]
    if not program.exists() or program.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        program.parent.mkdir(exist_ok=True)
        subprocess.run(["go", "build", "-o", str(program), "."], cwd=folder, check=True)
    return program


def arguments(server: Server, shape: Shape, count: int, rate: int) -> list[str]:
    """The generator's command line for one run."""
    to = ",".join(f"127.0.0.1:{at[shape.port]}" for at in (server.ports, *server.beside) if shape.port in at)
    return bound([
        str(binary()), "-mode", shape.mode, "-addr", to, "-conns", str(shape.conns),
        "-window", str(shape.window), "-count", str(count), "-size", str(shape.size), "-topic", shape.topic, "-rate", str(rate),
        "-qos", str(shape.qos), "-publishers", str(shape.publishers), "-subscribers", str(shape.subscribers),
    ])  # fmt: skip


def load(server: Server, shape: Shape, count: int, rate: int = 0) -> Figures:
    """Run the generator once. Raises subprocess.SubprocessError when it fails or takes longer than five minutes."""
    command = arguments(server, shape, max(count, shape.conns * shape.window), rate)
    out = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    figures: Figures = json.loads(out.stdout)
    return figures


class Held:
    """Idle connections that the generator holds open until the end of the block."""

    def __init__(self, server: Server, shape: Shape, count: int) -> None:
        self._process = subprocess.Popen(
            arguments(server, shape, count, 0), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Figures:
        assert self._process.stdout is not None
        figures: Figures = json.loads(self._process.stdout.readline())
        return figures

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate("\n", timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
