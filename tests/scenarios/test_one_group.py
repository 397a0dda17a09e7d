"""One consumer group with a member of each kind; each member and the node are killed once: no message is lost or repeated."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.interop.node import ROOT, Node
from tests.interop.remoting.java import JavaClient, build
from tests.patience import until
from tests.scenarios.member import LEASE_MS

pytestmark = [pytest.mark.interop, pytest.mark.slow]
TOPIC = "machines"
GROUP = "workers"
KINDS = {"mqtt": "mqtt", "http": "http", "grpc": "grpc", "pop": "remoting", "push": "remoting"}
"""Kind of member -> listener that it connects to. The last two are Java clients: the first leases, the second pulls."""
COUNT = 900
READY_S = 180
"""Time to start two JVMs and an SDK together on a machine that may be busy."""
SETTLING_S = {"mqtt": 2.0, "pop": 2.0, "push": 6.0}
"""Acknowledgements that a member sent within this time before it was killed may not have reached the server.

A puller commits the offset of its first unprocessed message: messages processed behind that one are committed later.
"""


class Member:
    """One process of one member."""

    def __init__(self, node: Node, kind: str, folder: Path, life: int, java: JavaClient) -> None:
        self.kind = kind
        self.log = folder / f"{kind}{life}.log"
        self.killed_at = 0.0
        self.errors = folder / f"{kind}{life}.err"
        with self.log.open("wb") as output, self.errors.open("wb") as errors:
            if kind in ("pop", "push"):
                places = [f"127.0.0.1:{node.port(name)}" for name in ("nameserver", "remoting")]
                command = [*java.command("Member"), kind, *places, GROUP, TOPIC]
            else:
                command = [sys.executable, "-m", "tests.scenarios.member", kind, str(node.port(KINDS[kind])), GROUP, TOPIC]
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=errors)

    def said(self, word: str) -> list[tuple[str, float]]:
        """(body, time) of the messages that it has got or done."""
        lines = [line.split(" ") for line in self.log.read_text().split("\n")[:-1]]
        return [(body, float(when)) for what, body, when in lines if what == word]

    def ready(self) -> bool:
        """Whether it takes part in the group. Raises AssertionError with its output when it has ended by itself."""
        assert self.process.poll() is None, f"{self.kind} has ended: {self.errors.read_text()[-2000:]}"
        return bool(self.said("ready"))

    def kill(self) -> None:
        """Send SIGKILL while it processes messages."""
        self.process.kill()
        self.process.wait()
        self.killed_at = time.time()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, "--durability", "page") as running:
        yield running


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> JavaClient:
    return build(tmp_path_factory.mktemp("java"))


class Sender:
    """Sends messages and repeats each until it is acknowledged, also while the node is killed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._connect()

    def _connect(self) -> None:
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.connect("127.0.0.1", self._node.port("mqtt"))
        self._client.loop_start()

    def again(self) -> None:
        """Connect to the restarted node."""
        self.close()
        self._connect()

    def send(self, path: str, body: str) -> None:
        self._client.publish(path, body, 1).wait_for_publish(10)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def test_a_member_of_each_kind_each_killed_once_and_the_node_too(node: Node, tmp_path: Path, java: JavaClient) -> None:
    sender = Sender(node)
    sender.send(f"{TOPIC}/first", "first")  # the topic is there before its members
    lives = {kind: [Member(node, kind, tmp_path, 0, java)] for kind in KINDS}
    everyone: list[Member] = [lives[kind][0] for kind in KINDS]

    wanted: set[str] = set()

    def send(body: str) -> None:
        sender.send(f"{TOPIC}/{len(wanted) % 7}", body)
        wanted.add(body)

    def anew(kind: str) -> None:
        lives[kind][-1].kill()
        lives[kind].append(Member(node, kind, tmp_path, len(lives[kind]), java))
        everyone.append(lives[kind][-1])

    def waiting() -> list[str]:
        return [member.kind for member in everyone if not member.ready()]

    try:
        until(lambda: not waiting(), READY_S, lambda: f"{waiting()} are not ready")
        victims = iter(KINDS)
        for number in range(COUNT):
            send(str(number))
            if number % 150 == 149 and number < 750:
                kind = next(victims)
                limit = time.monotonic() + 60
                while len(lives[kind][-1].said("done")) <= 5:
                    assert time.monotonic() < limit, f"{kind} gets nothing"
                    send(f"{kind}{time.monotonic_ns()}")
                anew(kind)
            elif number == 800:
                node.kill()
                for kind in KINDS:
                    lives[kind][-1].kill()
                node.start()
                sender.again()
                for kind in KINDS:
                    lives[kind].append(Member(node, kind, tmp_path, len(lives[kind]), java))
                    everyone.append(lives[kind][-1])
        until(lambda: wanted <= {body for member in everyone for body, _ in member.said("done")} | lost(everyone), 120)
        until(lambda: f'headgate_group_lag{{group="{GROUP}",topic="{TOPIC}"}} 0.0\n' in node.admin("/metrics"), 90)
        check(everyone, wanted)
    finally:
        for member in everyone:
            if member.process.poll() is None:
                member.kill()
        sender.close()


def lost(everyone: list[Member]) -> set[str]:
    """Bodies acknowledged by a member that was killed before it could print that."""
    return {body for member in everyone if member.killed_at for body, _ in member.said("got")[-1:]}


def check(everyone: list[Member], wanted: set[str]) -> None:
    """Check that every message was processed, and again only after a killed member left it and its lease had ended."""
    handled: dict[str, list[tuple[float, Member]]] = defaultdict(list)
    for member in everyone:
        for body, when in member.said("got"):
            handled[body].append((when, member))
    assert wanted <= set(handled)
    assert {member.kind for member in everyone if member.said("got")} == set(KINDS)
    for body, times in handled.items():
        times.sort(key=lambda one: one[0])
        for (before, holder), (after, _) in pairwise(times):
            assert holder.killed_at, f"{body} was handled twice though {holder.kind} lived"
            said = dict(holder.said("done"))
            late = holder.killed_at - said.get(body, 0.0) < SETTLING_S.get(holder.kind, 0.0)
            assert body not in said or late, f"{body} came again after its acknowledgement by {holder.kind}"
            if holder.kind in ("mqtt", "push"):
                # Released when the connection broke, which the server may have seen before the test noted the time.
                assert after > before
            else:
                assert after >= before + LEASE_MS / 1000 - 1.5, f"{body} came again within its lease from {holder.kind}"
