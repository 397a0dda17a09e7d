"""Real processes in network namespaces under faults: nothing acknowledged is lost, and somebody serves soon after each fault.

The sample has three kinds. With SOAK in the environment (`make soak`) it is SOAK_ROUNDS (100) rounds of
all kinds, from the seed SOAK_FIRST (1).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.interop.replication.namespaces.faults import KINDS
from tests.interop.replication.namespaces.network import Network, missing
from tests.interop.replication.namespaces.nodes import NamespaceNode
from tests.interop.replication.namespaces.rounds import run

LONG: Final = "SOAK" in os.environ
SAMPLE: Final = ("kill leader", "kill gateway", "pause follower")
ROUNDS: Final = int(os.environ.get("SOAK_ROUNDS", "100")) if LONG else len(SAMPLE)
SEED: Final = int(os.environ.get("SOAK_FIRST", "1"))
LACK: Final = missing()
pytestmark = [pytest.mark.interop, pytest.mark.skipif(bool(LACK), reason=f"NOT TESTED: {LACK}")]


def test_rounds(tmp_path: Path) -> None:
    told: list[str] = []
    try:
        assert run(tmp_path, ROUNDS, SEED, list(KINDS) if LONG else SAMPLE, told.append) == []
    finally:
        print("", *told, sep="\n")


def test_a_direction_is_cut_and_healed(tmp_path: Path) -> None:
    """The means themselves: what is cut one way is silent, and heard again after the heal."""
    with Network(["one", "two"]) as network:
        node = NamespaceNode(network, "one", tmp_path, ("--roles", "nameserver"), {})
        node.start()
        try:
            end = time.monotonic() + 60
            while not _heard(network, node.address) and time.monotonic() < end:
                time.sleep(0.1)
            assert _heard(network, node.address)
            network.cut(["one"], ["two"])
            assert not _heard(network, node.address)
            network.heal()
            assert _heard(network, node.address)
            network.cut(["two"], ["one"])
            assert not _heard(network, node.address)
        finally:
            node.kill()


def _heard(network: Network, address: str) -> bool:
    """Whether the namespace `two` gets an answer of the admin port of `address` within a second."""
    ask = f"import urllib.request; urllib.request.urlopen('http://{address}:8088/healthz', timeout=1)"
    return subprocess.run([*network.inside("two"), sys.executable, "-c", ask], capture_output=True, check=False).returncode == 0
