"""Damage of one replica's log is found by its scrubber and repaired from another replica, while all of them serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from domain.errors import ConfigError
from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.replication.logs import flip, log_end, log_files, log_of

pytestmark = pytest.mark.interop

SETTINGS = {
    "HEADGATE_STORE_SCRUB_PASS_S": "1",
    "HEADGATE_STORE_SCRUB_BYTES_MIN": str(1 << 26),
    "HEADGATE_STORE_SEGMENT_BYTES": "65536",
    "HEADGATE_STORE_CHECKPOINT_BYTES": "65536",
    "HEADGATE_STORE_CHECKPOINT_MS": "1000",
}


def repaired(node: Node) -> int:
    """How many parts a node has repaired, by its log."""
    return node.text().count("were damaged and are whole again")


def equal(one: Node, other: Node) -> bool:
    """True when both logs end at the same place and are the same."""
    end = log_end(one)
    return end == log_end(other) and log_of(one, 0, end) == log_of(other, 0, end)


def served(group: StoreGroupNodes) -> list[str]:
    """The bodies that the leader serves; [] while leadership moves, as it may on a machine with much other work."""
    try:
        return sorted(set(group.bodies("orders")))
    except (OSError, ValueError):
        return []


def in_sync(group: StoreGroupNodes) -> list[int]:
    """The SyncStateSet; [] while no controller leads. A replica that has just died is in it for a moment."""
    try:
        return group.members()
    except ConfigError:
        return []


def counted(group: StoreGroupNodes, node: Node) -> bool:
    """True when the metrics of a node tell of a repair. A leader that was deposed counts from the beginning."""
    if any("leads in epoch 2" in each.text() for each in group.nodes):
        return True
    pages = [line for line in node.admin("/metrics").splitlines() if "replica_repaired_" in line and not line.startswith("#")]
    return len(pages) == 2 and all(float(line.split()[-1]) > 0 for line in pages)


def test_damage_is_repaired_from_another_replica(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2, environment=SETTINGS) as group:
        group.await_members(1, 2)
        sent = [f"{number} " + "x" * 3_000 for number in range(120)]
        for body in sent:
            group.send("orders", body)
        leader = group.leader()
        follower = next(node for node in group.nodes if node is not leader)
        until(lambda: len(log_files(follower)) >= 5, "the follower has several segments")

        originals = {file: file.read_bytes() for file in (log_files(follower)[1], log_files(leader)[2])}
        for file in originals:
            flip(file, 9_000)
        deleted = log_files(follower)[2]
        originals[deleted] = deleted.read_bytes()
        deleted.unlink()
        until(lambda: repaired(follower) >= 2, "the follower has repaired two parts")
        until(lambda: repaired(leader) >= 1, "the leader has repaired a part")
        assert not any("store unreadable" in node.text() for node in group.nodes), "the scrubber finds damage before a reader"
        assert {file: file.read_bytes() for file in originals} == originals
        until(lambda: served(group) == sorted(sent), "all messages are served")
        assert counted(group, leader)

        group.kill(follower)
        until(lambda: len(in_sync(group)) == 1, "nobody waits for the one that is dead")
        flip(log_files(follower)[1], 12_000)
        log_files(follower)[3].unlink()
        group.start(follower)
        group.await_members(1, 2)
        group.send("orders", "after the repair at the start")
        until(lambda: equal(leader, follower), "both logs are equal")
        until(lambda: repaired(follower) >= 4, "the rest was repaired")
        group.await_members(1, 2)
        group.kill(group.leader())
        until(lambda: served(group) == sorted([*sent, "after the repair at the start"]), "all messages are served")


def test_what_was_promised_and_is_damaged_at_the_end_makes_it_another_log(tmp_path: Path) -> None:
    settings = {**SETTINGS, "HEADGATE_STORE_CHECKPOINT_BYTES": str(1 << 30), "HEADGATE_STORE_CHECKPOINT_MS": str(1 << 30)}
    with StoreGroupNodes(tmp_path, 2, environment=settings) as group:
        group.await_members(1, 2)
        sent = [f"{number} " + "x" * 3_000 for number in range(60)]
        for body in sent:
            group.send("orders", body)
        leader = group.leader()
        follower = next(node for node in group.nodes if node is not leader)
        until(lambda: log_end(follower) == log_end(leader), "the follower has everything")
        group.kill(follower)
        until(lambda: len(in_sync(group)) == 1, "nobody waits for the one that is dead")
        damaged = log_files(follower)[-2]
        flip(damaged, 5_000)
        kept = damaged.read_bytes()
        group.start(follower)
        until(lambda: "is set aside in" in follower.text(), "the damaged log is set aside")
        group.await_members(1, 2)
        aside = [each for each in (follower.data / "set-aside").rglob(damaged.name) if each.is_file()]
        assert [each.read_bytes() for each in aside] == [kept]
        group.send("orders", "as another log")
        until(lambda: equal(leader, follower), "both logs are equal")
        group.await_members(1, 2)
        group.kill(group.leader())
        until(lambda: served(group) == sorted([*sent, "as another log"]), "all messages are served")
