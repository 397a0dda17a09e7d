"""A learner gets the log and serves readers; it is never in the set, and never leads."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.replication.test_reads import Reader, address, records, slaves_of

pytestmark = pytest.mark.interop

TOPIC = "backlog"


def test_a_learner_follows_serves_readers_and_never_leads(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2) as group:
        group.await_members(1, 2)
        learner = Node(
            tmp_path / "learner", "--roles", "gateway,store", verb="run",
            environment={
                "HEADGATE_REPLICATION_CONTROLLERS": json.dumps(group.controllers.addresses),
                "HEADGATE_REPLICATION_LEARNER": "true",
            },
        )  # fmt: skip
        group.start(learner)
        sent = [f"one {number}" for number in range(20)]
        for body in sent:
            group.send(TOPIC, body)
        until(lambda: address(learner, "readers") in listed(group), "the learner is listed")
        until(lambda: read_all(learner) == set(sent), "the learner has all of it")
        group.await_members(1, 2)

        leader = group.leader()
        group.kill(leader)
        other = next(node for node in group.nodes if node is not leader)
        until(other.serves, "the other one leads")
        sent.append("behind the new leader")
        group.send(TOPIC, sent[-1])
        until(lambda: read_all(learner) == set(sent), "it follows the new leader")

        group.kill(other)
        until(lambda: not any(node.serves() for node in group.nodes), "nobody leads")
        assert not learner.serves(), "a learner alone leads nothing"
        assert read_all(learner) == set(sent), "and serves what is confirmed"
        group.start(leader)
        group.start(other)
        assert group.leader() is not learner
        assert 3 not in group.members()
        assert sorted(set(group.bodies(TOPIC))) == sorted(sent)


def listed(group: StoreGroupNodes) -> list[str]:
    """The replicas that routes list beside the leader; none while another one is elected."""
    with suppress(OSError):
        return list(slaves_of(address(group.leader(), "nameserver")).values())
    return []


def read_all(node: Node) -> set[str]:
    """The messages of all queues, as a replica that follows has them."""
    found: set[str] = set()
    reader = Reader(address(node, "readers"))
    try:
        for queue in range(8):
            offset = 0
            while reply := reader.pull(offset, queue=queue).body:
                each = list(records(reply))
                found.update(record.body.decode() for record in each)
                offset += len(each)
    finally:
        reader.link.close()
    return found
