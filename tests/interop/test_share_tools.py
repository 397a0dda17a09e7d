"""mqadmin 5.5.0 on a group whose members are MQTT clients: members, progress, and strategy of the shared subscription."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.interop.mqtt.paho_client import PahoClient
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient
from tests.patience import until

pytestmark = pytest.mark.interop
TOPIC, GROUP = "Shared", "cg_shared"
COUNT = 12


@pytest.fixture(scope="module")
def members(node: Node) -> Iterator[list[PahoClient]]:
    """Two members and a publisher. The second member acknowledges nothing: its messages stay in flight."""
    source = PahoClient(node, "source")
    source.publish(f"{TOPIC}/first", b"before")
    shares = [PahoClient(node, "quick"), PahoClient(node, "busy")]
    shares[1].client.manual_ack_set(True)
    for share in shares:
        share.client.subscribe(f"$share/{GROUP}/{TOPIC}/#", qos=1)
    time.sleep(1)
    yield [*shares, source]
    for share in (*shares, source):
        share.leave()


@pytest.fixture(scope="module")
def admin(java: JavaClient, node: Node) -> Callable[[str], str]:
    """A function that runs one command of mqadmin and returns its output."""
    nameserver = f"127.0.0.1:{node.port('nameserver')}"

    def run(words: str) -> str:
        text = java.admin(*words.replace("{broker}", f"127.0.0.1:{node.port('remoting')}").split(), "-n", nameserver)
        assert "Exception:" not in text, text[:4000]
        return text

    return run


def shared_out(members: list[PahoClient], first: int) -> list[int]:
    """Number of messages that each member gets of COUNT."""

    def came() -> int:
        return sum(len(member.got) for member in members[:2])

    before = [len(member.got) for member in members[:2]]
    for number in range(first, first + COUNT):
        members[2].publish(f"{TOPIC}/x", b"%d" % number)
        wanted = sum(before) + number - first + 1
        until(lambda: came() >= wanted, 60, lambda: f"message {number}")  # noqa: B023 - called at once
        time.sleep(0.05)
    return [len(member.got) - was for member, was in zip(members[:2], before, strict=True)]


def test_members_positions_and_strategies(admin: Callable[[str], str], members: list[PahoClient]) -> None:
    """One test, because each step depends on the one before."""
    text = admin(f"consumerConnection -g {GROUP}")
    for wanted in ("quick", "busy", "127.0.0.1:", TOPIC, "CONSUME_POP"):
        assert wanted in text, text
    quick, busy = shared_out(members, 0)
    assert quick == COUNT - 1, "least-inflight: who has acknowledged gets the next, so the busy one got its first alone"
    assert busy == 1
    text = admin(f"consumerProgress -g {GROUP}")
    assert f"{TOPIC} " in text, text
    assert "Consume Diff Total: 1" in text, text
    admin("updateBrokerConfig -b {broker} -k shareStrategy -v round-robin")
    assert "round-robin" in admin("getBrokerConfig -b {broker}")
    assert shared_out(members, 100) == [COUNT // 2, COUNT // 2]
    admin(f"updateSubGroup -b {{broker}} -g {GROUP} --attributes +share.strategy=least-inflight")
    assert shared_out(members, 200) == [COUNT, 0], "what the group says counts before what the node says"
    assert "share.strategy" in admin(f"getConsumerConfig -g {GROUP}")
