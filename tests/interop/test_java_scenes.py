"""Features of RocketMQ with the unmodified Java SDKs 5.5.0 (remoting) and 5.2.0 (gRPC): many scenes at once.

Timers must not be early and messages must not be lost. Late timers, and repetitions when members change, are only printed.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.grpc.java import compiled
from tests.interop.grpc.setup import UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ask, make_group, make_topic
from tests.interop.node import Node
from tests.interop.ordered_members import Members, judge, killed_in_between
from tests.interop.remoting.java import JavaClient, addresses, run

pytestmark = pytest.mark.interop
REMOTING = (
    "send", "push", "retry", "orderly", "broadcast", "pop", "query", "levels", "timers", "strategies", "members", "from-where",
    "lite-assign", "lite-subscribe", "pull", "limit", "compressed", "characters", "selectors", "dead", "dead-orderly",
    "dead-pop", "pop-orderly", "priority", "trace", "skip", "undecided",
)  # fmt: skip
GRPC = {
    "renewal": "NORMAL", "sql": "NORMAL", "dead": "NORMAL", "recall": "DELAY", "waiting": "NORMAL", "limit": "NORMAL",
    "priority": "PRIORITY",
}  # fmt: skip
"""Scene -> the type of its topic."""
COMPRESSED = {f"{kind} {number} " + "zwölf Boxkämpfer " * 2_000 for kind in ("ZLIB", "LZ4", "ZSTD") for number in range(4)}
RUN_S = 200


@dataclass(frozen=True)
class Told:
    """What the clients printed. ordered: SDK -> what its members received, and the number of the killed one."""

    remoting: dict[str, str]
    grpc: dict[str, str]
    ordered: dict[str, tuple[Members, int]]


@pytest.fixture(scope="module")
def grpc(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """First words of a command line that runs the gRPC SDK."""
    return compiled(tmp_path_factory.mktemp("grpc"))


@pytest.fixture(scope="module")
def told(java: JavaClient, grpc: list[str], node: Node) -> Told:
    """Run all scenes at the same time: most of them wait."""
    for scene, kind in GRPC.items():
        make_topic(node, f"JavaGrpc-{scene}", kind)
    body = {"groupName": "JavaGrpc-dead-group", "retryMaxTimes": 2, "retryQueueNums": 1}
    ask(node, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(body).encode())
    make_topic(node, "JavaGrpc-ordered", "FIFO")
    make_group(node, "JavaGrpc-ordered-group", orderly=True)
    endpoint = f"127.0.0.1:{node.port('grpc')}"
    commands = {
        "remoting": [*java.command("Lanes"), f"127.0.0.1:{node.port('nameserver')}", "JavaLanes"],
        "grpc": [*grpc, "GrpcLanes", endpoint, "ordered"],
    }
    with ThreadPoolExecutor() as pool:
        remoting = pool.submit(java.scenes, "clients", *addresses(node), *REMOTING)
        features = pool.submit(run, [*grpc, "GrpcSuite", "features", endpoint])
        ordered = {name: pool.submit(killed_in_between, command) for name, command in commands.items()}
    return Told(remoting.result(), features.result(), {name: each.result() for name, each in ordered.items()})


@pytest.mark.parametrize("scene", REMOTING)
def test_a_scene_over_remoting(told: Told, scene: str) -> None:
    assert told.remoting[scene].startswith("OK "), told.remoting[scene]


@pytest.mark.parametrize("scene", GRPC)
def test_a_scene_over_grpc(told: Told, scene: str) -> None:
    assert told.grpc[scene].startswith("OK "), told.grpc[scene]


@pytest.mark.parametrize("name", ["remoting", "grpc"])
def test_order_per_key_holds_when_one_of_three_members_is_killed(told: Told, name: str) -> None:
    members, victim = told.ordered[name]
    lines = members.seen()
    again = judge(lines, victim, handed_over=name == "remoting")
    print(
        f"{name}: {len(members.seen(victim))} by the killed member, {again} again, {(lines[-1][0] - lines[0][0]) / 1e9:.0f} s"
    )


def test_what_a_compressing_producer_sent_is_plain_over_http_and_grpc(told: Told, node: Node, grpc: list[str]) -> None:
    assert told.remoting["compressed"].startswith("OK ")
    bodies: set[str] = set()
    address = f"http://127.0.0.1:{node.port('http')}/v1/groups/plain/topics/Java-clients-compressed:receive?max=1&wait_ms=2000"
    for _ in COMPRESSED:
        request = urllib.request.Request(address, method="POST", headers={"Accept": "application/octet-stream"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            bodies.add(answer.read().decode())
    assert bodies == COMPRESSED
    command = [*grpc, "GrpcSuite", "drain", f"127.0.0.1:{node.port('grpc')}", "Java-clients-compressed", str(len(COMPRESSED))]
    done = subprocess.run(command, capture_output=True, timeout=RUN_S, check=False, stdin=subprocess.DEVNULL)
    assert set(done.stdout.decode().splitlines()) == COMPRESSED, done.stderr.decode()[-2000:]


def test_members_take_the_queues_of_their_machine_room(java: JavaClient, tmp_path: Path) -> None:
    with Node(tmp_path, environment={"HEADGATE_BROKER": "room1@broker-a"}) as node:
        told = java.scenes("rooms", *addresses(node))
    assert told["rooms"].startswith("OK "), told["rooms"]
