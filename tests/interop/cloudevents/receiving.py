"""A receiver of webhooks in another language: a process that prints its port, then lines for what it takes."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence
from types import TracebackType

from tests.patience import until

START_S = 60.0


class Receiving:
    """`lines`: what it has printed behind its port."""

    def __init__(self, command: Sequence[str]) -> None:
        spoken = {**os.environ, "LC_ALL": "C.UTF-8"}
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", env=spoken
        )
        self._said: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line.rstrip("\n"))

    @property
    def lines(self) -> list[str]:
        """What it has taken."""
        return self._said[1:]

    @property
    def url(self) -> str:
        """Where it listens."""
        until(lambda: bool(self._said) or self._process.poll() is not None, START_S, lambda: "the receiver has not started")
        assert self._said, "the receiver ended"
        return f"http://127.0.0.1:{int(self._said[0])}/"

    def __enter__(self) -> Receiving:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join(10)
