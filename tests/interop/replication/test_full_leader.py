"""The volume of the leader is full: another member of the SyncStateSet leads. Nobody has room: sends are refused in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.controller.controllers import until
from tests.interop.node import Node, Ports
from tests.interop.replication.all_senders import PAUSE_S, AllSenders
from tests.interop.replication.chaos.full_disk import SmallVolume
from tests.interop.replication.chaos.nodes import SETTINGS
from tests.interop.replication.group import StoreGroupNodes, read_all
from tests.interop.rocketmq.failover.senders import Senders

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]
WORDS = {
    "HTTP": "503", "CloudEvents": "503", "CoAP": "5.03", "gRPC": "HA_NOT_AVAILABLE", "remoting": "code 14",
    "MQTT QoS 1": "the connection has ended",
}  # fmt: skip
"""What each protocol tells who sends while nobody has room; MQTT 3.1.1 has no words but the end of the connection."""


@pytest.fixture
def volumes(tmp_path: Path) -> Iterator[list[SmallVolume]]:
    with ExitStack() as stack:
        found = [SmallVolume(tmp_path / f"replica-{number}" / "data") for number in (1, 2)]
        for each in found:
            stack.callback(each.close)
            if each.missing:
                pytest.skip(f"NOT TESTED: {each.missing}")
        yield found


def test_a_leader_without_room_hands_over_and_nobody_with_room_refuses_in_words(
    volumes: list[SmallVolume], tmp_path: Path
) -> None:
    group = StoreGroupNodes(tmp_path, 2, controllers=1, environment=SETTINGS)
    with ExitStack() as stack:
        # The folders exist, as those of the volumes: `group` must not wait for a leader before the second replica.
        group.controllers.__enter__()
        stack.callback(group.__exit__, None, None, None)
        for node in group.nodes:
            group.start(node)
        group.await_members(1, 2)
        gateway = group.gateway(tmp_path / "gateway")
        with AllSenders([gateway], group.nodes) as senders:
            first = group.leader()
            volume = volumes[group.nodes.index(first)]
            other = next(node for node in group.nodes if node is not first)
            volume.fill()
            until(other.serves, "the replica leads that has room")
            assert "this leader has no room" in first.text()
            senders.go_on()
            assert not first.ended(), "it waits for room"
            volume.free()
            group.await_members(1, 2)
            senders.go_on()
        assert senders.lost(other) == set()
        _refused_in_words(group, gateway, volumes)


def _refused_in_words(group: StoreGroupNodes, gateway: Node, volumes: list[SmallVolume]) -> None:
    """Nobody has room: one leads, sends are refused, and go on when there is room again."""
    senders = Senders(list[Ports]([gateway]), "refused", PAUSE_S)
    senders.start()
    until(lambda: senders.each_has_sent_since(0, 1), "sends are taken")
    leader = group.leader()
    for each in sorted(volumes, key=lambda one: group.nodes[volumes.index(one)] is leader):
        each.fill()
    until(
        lambda: all(any(words in why for why in senders.refused[name]) for name, words in WORDS.items()),
        "each protocol refuses sends in its words",
    )  # fmt: skip
    assert not any(node.ended() for node in group.nodes)
    for each in volumes:
        each.free()
    counts = {name: len(sent) for name, sent in senders.sent.items()}
    until(lambda: all(len(sent) > counts[name] for name, sent in senders.sent.items()), "sends are taken again")
    senders.stop()
    print(f"\nrefused: {senders.refusals()}")
    assert senders.bodies() <= set(read_all(group.leader(), "refused"))
