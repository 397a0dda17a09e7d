"""`headgate cluster move` to a replica that is not in sync, with real processes: one step, or the reason within seconds."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.interop.controller.controllers import until
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.replication.test_losses import GROUP, cluster, number, send

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


def test_a_replica_that_comes_back_leads_in_one_step_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 3) as group:
        group.await_members(1, 2, 3)
        leader = group.leader()
        wanted = next(node for node in group.nodes if node is not leader)
        name = number(group, wanted)
        wanted.signal(signal.SIGSTOP)
        until(lambda: int(name) not in group.members(), "it is left out")
        sent = send(leader, 100, "without-it")
        until(lambda: f"replica {name} is not in sync" in cluster(group.controllers, "status")[1], "the status says so")
        status, text = cluster(group.controllers, "move", GROUP, name)
        assert (status, "nothing was changed: " in text) == (2, True), text
        assert leader.serves()

        wanted.signal(signal.SIGCONT)
        status, text = cluster(group.controllers, "move", GROUP, name, "--seconds", "60")
        assert status == 0, text
        assert f"replica {name} leads broker-a from epoch" in text
        until(wanted.serves, "it leads")
        sent += send(wanted, 20, "with-it")
        assert sorted(group.bodies("orders")) == sorted(sent)


def test_a_replica_that_is_gone_is_refused_within_seconds_and_nobody_is_moved(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 3) as group:
        group.await_members(1, 2, 3)
        leader = group.leader()
        gone = next(node for node in group.nodes if node is not leader)
        name = number(group, gone)
        group.kill(gone)
        until(lambda: int(name) not in group.members(), "it is left out")
        before = group._group().leader_epoch
        status, text = cluster(group.controllers, "move", GROUP, name)
        assert (status, "the controllers do not hear it" in text) == (2, True), text
        assert (leader.serves(), group._group().leader_epoch) == (True, before)
        sent = send(leader, 5, "goes-on")
        assert sorted(group.bodies("orders")) == sorted(sent)
