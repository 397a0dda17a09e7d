"""What few nodes are is not imported by all of them: imports are most of the CPU of a start."""

from __future__ import annotations

import subprocess
import sys

from tests.interop.node import ROOT

PROGRAM = "import sys, gateway.node.node; print(*sys.modules)"
OTHERS = ("controller", "gateway.cluster.controller.controlling", "gateway.node.roles.apache", "gateway.apache.users")


def test_a_node_imports_neither_controllers_nor_what_is_before_an_apache_cluster() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    names = set(done.stdout.split())
    assert "gateway.node.roles.store" in names
    assert not names & set(OTHERS)
