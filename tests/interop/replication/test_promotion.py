"""A replica in another place takes over by `headgate cluster promote`: what it lacks is told before, and set aside later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.replication.test_losses import GROUP, aside_of, await_status, await_why, cluster, log_of, number, send, why

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]
REMOTE = "HEADGATE_REPLICATION_REMOTE"


def far_replica(group: StoreGroupNodes, folder: Path) -> Node:
    """Start a replica that follows from another place, and wait until the controllers have its word."""
    controllers = json.dumps(group.controllers.addresses)
    node = Node(
        folder / "far", "--roles", "gateway,store", verb="run",
        environment={"HEADGATE_REPLICATION_CONTROLLERS": controllers, REMOTE: "frankfurt"},
    )  # fmt: skip
    group.start(node)
    until(lambda: "remote: frankfurt" in cluster(group.controllers, "status")[1], "the status has the remote replica")
    return node


def test_a_remote_replica_leads_when_an_operator_accepts_what_it_lacks(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2) as group:
        group.await_members(1, 2)
        far = far_replica(group, tmp_path)
        kept = send(group.leader(), 20, "everywhere")
        until(lambda: all(each.encode() in log_of(far) for each in kept), "the remote one has all of it")
        promote = ("promote", GROUP, number(group, far))
        accepted = (*promote, "--accept-loss", "--name", GROUP)
        status, text = cluster(group.controllers, *accepted)
        assert (status, "an election loses nothing" in text) == (2, True), text

        group.kill(far)
        lost = send(group.leader(), 20, "here")
        for node in group.nodes:
            group.kill(node)
        group.start(far)
        await_status(group.controllers, "is not heard; waits for replica 1 or 2. If none comes back: headgate cluster recover")
        status, text = cluster(group.controllers, *promote)
        assert (status, "nothing was changed: give --accept-loss to go on" in text) == (2, True), text
        assert "is in frankfurt: the last word of its leader came" in text
        assert "of the set had records up to epoch" in text
        status, text = cluster(group.controllers, *promote, "--accept-loss", "--name", "broker-b")
        assert (status, "'broker-b' is not the name of the store group" in text) == (2, True), text
        assert not far.serves()
        status, text = cluster(group.controllers, *accepted)
        assert (status, "take learner and remote out of the table [replication]" in text) == (0, True), text
        assert "headgate cluster set broker-a --min-in-sync" in text, "one of three is in sync now"
        await_why(far, "1 of the 2 members that `min_in_sync` asks for")
        assert cluster(group.controllers, "set", GROUP, "--min-in-sync", "1")[0] == 0
        until(far.serves, "it leads")
        kept += send(far, 10, "far")

        del far.environment[REMOTE]
        group.running.discard(far)
        far.stop()
        group.start(far)
        until(far.serves, "it leads with its new settings")
        for node in group.nodes:
            group.start(node)
        until(lambda: all("this replica follows" in why(node) for node in group.nodes), "the others follow it")
        group.await_members(1, 2, int(promote[2]))
        assert sorted(group.bodies("orders")) == sorted(kept)
        found = b"".join(map(aside_of, group.nodes))
        assert all(each.encode() in found for each in lost), "what it lacked is set aside"
