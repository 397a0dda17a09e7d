"""A store and gateways before it, each a process of its own, on free ports, with their data in a temporary folder."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from examples.ports import free_ports

READY_S: Final = 120.0


class NodeProcess:
    """One process. `ports`: listener -> port."""

    def __init__(self, folder: Path, name: str, *options: str) -> None:
        self.ports = free_ports()
        self._log = folder / f"{name}.log"
        command = [sys.executable, "-m", "gateway", "run", "--data", str(folder / name), *options]
        command += [f"--port={port}={number}" for port, number in self.ports.items()]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

    def wait(self) -> None:
        """Wait until it serves. Raises RuntimeError with its log when it does not."""
        end = time.monotonic() + READY_S
        while self._process.poll() is None and time.monotonic() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.ports['admin']}/readyz", timeout=2).close()
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
            else:
                return
        raise RuntimeError(f"headgate did not start:\n{self._log.read_text(errors='replace')}")

    def kill(self) -> None:
        """End it without a word to anybody, as kill -9 does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it in order."""
        self._process.terminate()
        self._process.wait(60)


@contextmanager
def cluster(folder: Path, gateways: int) -> Iterator[list[NodeProcess]]:
    """The gateways; the store is behind them."""
    with ExitStack() as running:
        store = NodeProcess(folder, "store", "--roles", "store")
        running.callback(store.stop)
        where = f"127.0.0.1:{store.ports['remoting']}"
        found = []
        for number in range(gateways):
            found.append(NodeProcess(folder, f"gateway-{number + 1}", "--roles", "gateway", "--store", where))
            running.callback(found[-1].stop)
        for node in (store, *found):
            node.wait()
        yield found
