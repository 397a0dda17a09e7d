"""Two of three replicas confirm (`headgate cluster set --acks`), with real processes: the slowest one sets no pace.

The one that stands still and is killed is in the SyncStateSet, and lacks what the others have confirmed: it must not lead.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.interop.controller.controllers import until
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.replication.test_losses import GROUP, cluster, log_of, send

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


def test_sends_go_on_beside_a_follower_that_stands_still_and_the_loss_of_the_leader_loses_nothing(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 3) as group:
        group.await_members(1, 2, 3)
        assert cluster(group.controllers, "set", GROUP, "--acks", "4")[0] == 2
        status, text = cluster(group.controllers, "set", GROUP, "--acks", "2")
        assert status == 0, text
        assert "an election needs 2 of 3 members" in text
        until(lambda: group._group().acks == 2, "the leader applies it")
        leader = group.leader()
        sent = send(leader, 20, "all")
        still, other = (node for node in group.nodes if node is not leader)
        still.signal(signal.SIGSTOP)
        beside = send(leader, 1, "first-beside")
        assert group.members() == [1, 2, 3], "what stands still is in sync, and nobody has waited for it"
        beside += send(leader, 50, "beside")
        group.kill(leader)
        behind = log_of(still)
        assert not any(each.encode() in behind for each in beside), "it lacks all of this"
        group.kill(still)  # with what its kernel has received for it and it has not read
        group.start(still)
        until(other.serves, "the one that has all of it leads")
        assert not still.serves()
        sent += [*beside, *send(other, 20, "after")]
        group.start(leader)
        group.await_members(1, 2, 3)
        assert group._group().acks == 2
        assert sorted(group.bodies("orders")) == sorted(sent)
