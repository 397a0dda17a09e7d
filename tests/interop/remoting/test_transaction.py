"""Transactions and recall of the unmodified Java client of RocketMQ 5.5.0, with a kill of the broker in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("scenario", ["transaction", "recall"])
def test_a_scenario_of_the_java_client(java: JavaClient, tmp_path: Path, scenario: str) -> None:
    with Node(tmp_path) as node:
        done = java.run("Transacted", scenario, f"127.0.0.1:{node.port('nameserver')}", f"Java{scenario}")
        figures = node.admin("/metrics")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:] + figures
    assert f"OK {scenario}" in done.stdout
