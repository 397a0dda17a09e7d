"""The official Java SDK (`rocketmq-client-java` 5.2.0), compiled with scenarios of ours; its parts come from Maven."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.grpc_setup import ROOT

PROJECT = ROOT / "tests" / "interop" / "java" / "grpc"
FETCH_S = 400
COMPILE_S = 120


_COMPILED: dict[str, Path] = {}
"""What this run of the tests has compiled already: class -> the folder that has it, with all that it needs."""


def compiled(folder: Path, *names: str) -> list[str]:
    """The beginning of a command line that runs one of `names`, with its home in `folder`; skips where that cannot be."""
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        pytest.skip("no mvn and javac: install maven and a JDK")
    place = next(iter(_COMPILED.values()), folder)
    if not _COMPILED:
        fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={place}"]
        done = subprocess.run(fetch, cwd=PROJECT, capture_output=True, text=True, timeout=FETCH_S, check=False)
        if done.returncode != 0:
            pytest.skip(f"Maven cannot fetch rocketmq-client-java: {done.stdout[-300:]}")
    sources = [str(PROJECT / "src" / "main" / "java" / f"{name}.java") for name in names if name not in _COMPILED]
    if sources:
        command = ["javac", "-encoding", "UTF-8", "-cp", f"{place}:{place}/*", "-d", str(place), *sources]
        subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_S)
        _COMPILED.update(dict.fromkeys(names, place))
    return ["java", "-Xmx256m", "-Dfile.encoding=UTF-8", f"-Duser.home={folder}", "-cp", f"{place}:{place}/*"]
