"""The README's block about webhooks, typed as it stands but for its ports: the first delivery comes within a minute."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from gateway.node.protocols import installed
from tests.pages import ROOT, Page
from tests.patience import until

HEADING = "HTTP, webhooks, CloudEvents"
FIRST_S = 60.0
pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


class Terminal:
    """A shell that runs the lines of a block. `said`: what it has printed."""

    def __init__(self, text: str, folder: Path) -> None:
        environment = {**os.environ, "HEADGATE_PURE": "1"}  # nothing is compiled beside the test
        environment.pop("HEADGATE_WEBHOOK_ALLOW", None)
        self.said = ""
        self._shell = subprocess.Popen(
            ["bash", "-c", f"set -e\n{text}\nwait\n"], cwd=folder, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self.said += line

    def close(self) -> None:
        """End everything that was started in it."""
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        self._reader.join(10)


def free_offset() -> int:
    """A port offset at which all ports of a node are free, and port 9000 with it."""
    wanted = {*installed().ports.values(), 9000}
    while True:
        offset = random.SystemRandom().randrange(1_000, 20_000)
        held: list[socket.socket] = []
        try:
            for port in wanted:
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    held.append(socket.socket(socket.AF_INET, kind))
                    held[-1].bind(("127.0.0.1", port + offset))
        except OSError:
            continue
        finally:
            for each in held:
                each.close()
        return offset


def test_the_first_delivery_comes_within_a_minute(tmp_path: Path) -> None:
    for name in ("up", ".venv", "examples"):  # the data folder is made where one types
        (tmp_path / name).symlink_to(ROOT / name)
    blocks = [each.text for each in Page("README.md").blocks if each.heading == HEADING]
    [serve] = [text for text in blocks if "./up" in text]
    [deliver] = [text for text in blocks if "/subscriptions" in text]
    offset = free_offset()
    begun = time.monotonic()
    terminals = [Terminal(serve.replace("./up", f"./up --port-offset {offset}"), tmp_path)]
    try:
        until(lambda: "Headgate is ready." in terminals[0].said, FIRST_S, lambda: terminals[0].said)
        typed = deliver.replace("localhost:8080", f"localhost:{8080 + offset}").replace("9000", str(9000 + offset))
        terminals.append(Terminal(typed, tmp_path))
        left = FIRST_S - (time.monotonic() - begun)
        wanted = "204 io.headgate.message one bicycle"
        until(lambda: wanted in terminals[1].said, left, lambda: terminals[1].said + terminals[0].said)
    finally:
        for each in terminals:
            each.close()
