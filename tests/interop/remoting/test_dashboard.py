"""Every call of DefaultMQAdminExt 5.5.0 that the services of rocketmq-dashboard make, checked against expected values.

The dashboard itself is in no package registry; its pages show the results of these calls.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.remoting.java import build

pytestmark = pytest.mark.interop


def test_every_call_of_the_dashboard_tells_the_facts(tmp_path: Path) -> None:
    java = build(tmp_path)
    with Node(tmp_path / "node") as node:
        done = java.run("Dashboard", f"127.0.0.1:{node.port('nameserver')}", f"127.0.0.1:{node.port('remoting')}", "Board")
        assert "OK dashboard" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]
