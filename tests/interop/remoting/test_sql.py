"""SQL92 selectors of the unmodified Java client of RocketMQ 5.5.0: by pull, by POP, and one with a syntax error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("mode", ["push", "pop"])
def test_a_push_consumer_gets_what_its_selector_wants(java: JavaClient, tmp_path: Path, mode: str) -> None:
    with Node(tmp_path) as node:
        addresses = [f"127.0.0.1:{node.port(name)}" for name in ("nameserver", "remoting")]
        done = java.run("Filtered", mode, addresses[0], f"Sql{mode}", addresses[1])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"OK {mode}" in done.stdout
