"""The Java client of RocketMQ 4.9.8, unmodified, against a whole node: sending, pulling, retries, order, delay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.remoting_java import PROJECT, build

pytestmark = pytest.mark.interop
OLDER = PROJECT.parent / "remoting4"
SCENARIOS = ("send", "pull", "retry", "orderly", "delay")


@pytest.mark.parametrize("options", [(), ("-Drocketmq.serialize.type=ROCKETMQ",)], ids=["json", "binary"])
def test_the_scenarios_of_a_4x_client(options: tuple[str, ...], tmp_path: Path) -> None:
    java = build(tmp_path, OLDER)
    with Node(tmp_path / "node") as node:
        done = java.run("Older", f"127.0.0.1:{node.port('nameserver')}", "Older", options=options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:] + node.text()[-2000:]
    assert [line for line in done.stdout.splitlines() if line.startswith("OK ")] == [f"OK {name}" for name in SCENARIOS]
