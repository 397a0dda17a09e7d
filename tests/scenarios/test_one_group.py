"""One consumer group with a member of each kind, each killed once: nothing is lost, nothing is handled twice at a time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.interop.node import ROOT, Node
from tests.scenarios.member import LEASE_MS

pytestmark = [pytest.mark.interop, pytest.mark.slow]
TOPIC = "machines"
GROUP = "workers"
KINDS = {"mqtt": "mqtt", "http": "http", "grpc": "grpc"}
"""Kind of member -> listener that it connects to."""
COUNT = 900


class Member:
    """One life of one member."""

    def __init__(self, node: Node, kind: str, folder: Path, life: int) -> None:
        self.kind = kind
        self.log = folder / f"{kind}{life}.log"
        self.killed_at = 0.0
        with self.log.open("wb") as output, (folder / f"{kind}{life}.err").open("wb") as errors:
            arguments = [kind, str(node.port(KINDS[kind])), GROUP, TOPIC]
            command = [sys.executable, "-m", "tests.scenarios.member", *arguments]
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=errors)

    def said(self, word: str) -> list[tuple[str, float]]:
        """(body, when) of what it has got, or done."""
        lines = [line.split(" ") for line in self.log.read_text().split("\n")[:-1]]
        return [(body, float(when)) for what, body, when in lines if what == word]

    def kill(self) -> None:
        """SIGKILL, in the middle of its work."""
        self.process.kill()
        self.process.wait()
        self.killed_at = time.time()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, "--durability", "page") as running:
        yield running


def until(condition: Callable[[], bool], seconds: float) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.05)


def test_a_member_of_each_kind_each_killed_once(node: Node, tmp_path: Path) -> None:
    sender = paho.Client(CallbackAPIVersion.VERSION2)
    sender.connect("127.0.0.1", node.port("mqtt"))
    sender.loop_start()
    sender.publish(f"{TOPIC}/first", "first", 1).wait_for_publish(10)  # the topic is there before its members
    lives = {kind: [Member(node, kind, tmp_path, 0)] for kind in KINDS}
    everyone: list[Member] = [lives[kind][0] for kind in KINDS]
    try:
        until(lambda: all(member.said("ready") for member in everyone), 60)
        for number in range(COUNT):
            sender.publish(f"{TOPIC}/{number % 7}", str(number), 1).wait_for_publish(10)
            if number in (COUNT // 4, COUNT // 2, 3 * COUNT // 4):
                kind = list(KINDS)[4 * number // COUNT - 1]
                until(lambda kind=kind: len(lives[kind][-1].said("done")) > 5, 30)  # type: ignore[misc]
                lives[kind][-1].kill()
                lives[kind].append(Member(node, kind, tmp_path, 1))
                everyone.append(lives[kind][-1])
        wanted = {str(number) for number in range(COUNT)}
        until(lambda: wanted <= {body for member in everyone for body, _ in member.said("done")} | lost(everyone), 60)
        time.sleep(LEASE_MS / 1000 + 1)
        check(everyone, wanted)
        until(lambda: f'headgate_group_lag{{group="{GROUP}",topic="{TOPIC}"}} 0\n' in node.admin("/metrics"), 10)
    finally:
        for member in everyone:
            if member.process.poll() is None:
                member.kill()
        sender.disconnect()
        sender.loop_stop()


def lost(everyone: list[Member]) -> set[str]:
    """What was acknowledged by a member that was killed before it could say so."""
    return {body for member in everyone if member.killed_at for body, _ in member.said("got")[-1:]}


def check(everyone: list[Member], wanted: set[str]) -> None:
    """Everything was handled; what was handled again was left behind by a member that was killed, and its lease was over."""
    handled: dict[str, list[tuple[float, Member]]] = defaultdict(list)
    for member in everyone:
        for body, when in member.said("got"):
            handled[body].append((when, member))
    assert wanted <= set(handled)
    assert all(member.said("got") for member in everyone)
    for body, times in handled.items():
        times.sort(key=lambda one: one[0])
        for (before, holder), (after, _) in pairwise(times):
            assert holder.killed_at, f"{body} was handled twice though {holder.kind} lived"
            assert body not in [done for done, _ in holder.said("done")], f"{body} came again after its acknowledgement"
            if holder.kind == "mqtt":
                # Given back when the connection broke, which the server may have seen before we noted the time.
                assert after > before
            else:
                assert after >= before + LEASE_MS / 1000 - 1.5, f"{body} came again within its lease from {holder.kind}"
