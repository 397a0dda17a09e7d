"""What RocketMQ users rely on, by the unmodified Java client 5.5.0: many scenarios at once in one process.

Lateness of timers and repetitions at changes of members are printed, and judged nowhere; never early and never lost are.
"""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.remoting_java import JavaClient, build

pytestmark = pytest.mark.interop
SCENES = (
    "levels", "timers", "strategies", "members", "from-where", "lite-assign", "lite-subscribe", "pull", "limit", "compressed",
    "characters", "selectors", "dead", "dead-orderly", "dead-pop", "pop-orderly", "trace", "skip",
)  # fmt: skip
COMPRESSED = {f"{kind} {number} " + "zwölf Boxkämpfer " * 2_000 for kind in ("ZLIB", "LZ4", "ZSTD") for number in range(4)}


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> JavaClient:
    return build(tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, java: JavaClient) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture(scope="module")
def told(java: JavaClient, node: Node) -> dict[str, str]:
    """Scene -> what the process said of it."""
    return suite(java, node, "clients")


def suite(java: JavaClient, node: Node, name: str) -> dict[str, str]:
    """Run one set of scenes; scene -> "OK …", or "FAILED …" with its reason."""
    addresses = (f"127.0.0.1:{node.port('nameserver')}", f"127.0.0.1:{node.port('remoting')}")
    done = java.run("Suite", name, *addresses)
    print(done.stdout)
    return scenes(done)


def scenes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What a process said, by scene."""
    found: dict[str, str] = {}
    name = ""
    for line in done.stdout.splitlines():
        if line.startswith(("OK ", "FAILED ")):
            name = line.split()[1]
            found[name] = line
        elif name:
            found[name] += f"\n{line}"
    assert found, done.stdout[-2000:] + done.stderr[-4000:]
    return found


@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_comes_true(told: dict[str, str], scene: str) -> None:
    assert told[scene].startswith("OK "), told[scene]


def test_what_a_compressing_producer_sent_is_plain_over_http(told: dict[str, str], node: Node) -> None:
    assert told["compressed"].startswith("OK ")
    bodies: set[str] = set()
    address = f"http://127.0.0.1:{node.port('http')}/v1/groups/plain/topics/Java-clients-compressed:receive?max=1&wait_ms=2000"
    for _ in COMPRESSED:
        request = urllib.request.Request(address, method="POST", headers={"Accept": "application/octet-stream"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            bodies.add(answer.read().decode())
    assert bodies == COMPRESSED


def test_members_take_the_queues_of_their_machine_room(java: JavaClient, tmp_path: Path) -> None:
    with Node(tmp_path, environment={"HEADGATE_BROKER": "room1@broker-a"}) as node:
        told = suite(java, node, "rooms")
    assert told["rooms"].startswith("OK "), told["rooms"]
