"""A Headgate node for the example: `headgate up` on free ports, with its data in a temporary folder."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.ports import free_ports


@contextmanager
def node(folder: Path) -> Iterator[dict[str, int]]:
    """A running node: listener name -> port."""
    ports = free_ports()
    command = [sys.executable, "-m", "gateway", "up", "--data", str(folder / "headgate-data")]
    command += [f"--port={name}={port}" for name, port in ports.items()]
    log = folder / "headgate.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            _wait(process, ports["admin"], log)
            yield ports
        finally:
            process.terminate()
            process.wait(20)


def _wait(process: subprocess.Popen[bytes], admin: int, log: Path) -> None:
    end = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{admin}/readyz", timeout=2).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"headgate did not start:\n{log.read_text(errors='replace')}")
