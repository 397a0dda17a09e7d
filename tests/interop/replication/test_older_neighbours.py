"""Settings that a node of the version before does not know are refused by name while one is in the group, and nothing changes.

`acks` and `promote` need all controllers and replicas of this version: `headgate cluster` says so, and works once they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from domain.controller.answer import GroupRefusal
from domain.controller.group import StoreGroup
from tests.interop.controller.controllers import until
from tests.interop.node import ROOT, Node
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.replication.test_losses import GROUP, cluster, log_of, number, send
from tests.interop.replication.test_promotion import far_replica
from tests.interop.replication.test_rolling_upgrade import BEFORE
from tests.interop.replication.versions import of_version, tree_of
from tests.store.faults.soak import SOAK

CONTROLLERS: Final = 3
pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not SOAK, reason="SOAK=1 runs it: the rolling upgrade is run always"),
]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the version before."""
    return tree_of(BEFORE, tmp_path_factory.mktemp("version-before"))


@pytest.fixture
def group(tmp_path: Path) -> StoreGroupNodes:
    """Three replicas and three controllers of this version, which do not run yet."""
    return StoreGroupNodes(tmp_path, 3, controllers=CONTROLLERS)


def state(group: StoreGroupNodes) -> StoreGroup:
    """The group by the word of the controllers."""
    return group._group()


def refused(group: StoreGroupNodes, *words: str) -> None:
    """The command is refused by the name of the reason, and the group stays as it is."""
    found = state(group)
    status, text = cluster(group.controllers, *words)
    assert status == 2, text
    assert GroupRefusal.OLD_VERSION.value in text
    after = state(group)
    assert (after.leader, after.leader_epoch, after.members, after.set_epoch) == (
        found.leader, found.leader_epoch, found.members, found.set_epoch,
    )  # fmt: skip
    assert (after.acks, after.wanted_acks, after.replicas) == (0, 0, found.replicas)


def restart(group: StoreGroupNodes, node: Node, root: Path) -> None:
    """Stop a replica, and start it with another version."""
    group.running.discard(node)
    assert node.stop() == 0
    of_version(root, [node])
    group.start(node)
    group.await_members(1, 2, 3)


def have_controller_lead(group: StoreGroupNodes, node: Node, leads: bool) -> None:
    """Restart controllers that lead until this one does, or does not."""
    controllers = group.controllers
    for _ in range(20):
        leader = controllers.leader()
        if (leader is node) == leads:
            return
        leader.kill()
        controllers.leader(leader)
        leader.start()
    raise AssertionError(f"{node.folder.name} leads: {not leads}")


def test_acks_are_refused_while_a_controller_or_a_replica_is_of_the_version_before(
    group: StoreGroupNodes, before: Path
) -> None:
    acks = ("set", GROUP, "--acks", "2")
    old = group.controllers.nodes[0]
    of_version(before, [old, *group.nodes])
    with group:
        group.await_members(1, 2, 3)
        sent = send(group.leader(), 10, "before")
        have_controller_lead(group, old, False)
        refused(group, *acks)
        for node in group.nodes:
            restart(group, node, ROOT)
        refused(group, *acks)  # all replicas are of this version, and a controller is not
        have_controller_lead(group, old, True)
        refused(group, *acks)  # and that one leads
        of_version(ROOT, [old])
        old.restart()
        group.controllers.leader()
        last = next(node for node in group.nodes if not node.serves())
        restart(group, last, before)
        refused(group, *acks)  # and the other way round: all controllers are, and a replica is not
        restart(group, last, ROOT)
        until(lambda: cluster(group.controllers, *acks)[0] == 0, "all nodes are of this version, and the setting is made")
        until(lambda: state(group).acks == 2, "the leader applies it")
        sent += send(group.leader(), 10, "after")
        assert sorted(group.bodies("orders")) == sorted(sent)


def test_a_leader_of_the_version_before_confirms_by_all_members_of_a_group_with_acks(
    group: StoreGroupNodes, before: Path
) -> None:
    """One of three goes back to the version before, and leads while all of two confirm. It goes on with all of three."""
    with group:
        group.await_members(1, 2, 3)
        assert cluster(group.controllers, "set", GROUP, "--acks", "2")[0] == 0
        until(lambda: state(group).acks == 2, "the leader applies it")
        sent = send(group.leader(), 10, "two of three")
        old = next(node for node in group.nodes if not node.serves())
        restart(group, old, before)
        status, text = cluster(group.controllers, "move", GROUP, number(group, old))
        assert status == 2, f"an election among fewer than all counts no replica of the version before: {text}"
        leader = group.leader()
        assert leader is not old
        sent += send(leader, 10, "it follows")
        third = next(node for node in group.nodes if node not in (old, leader))
        group.kill(third)
        until(lambda: len(state(group).members) == 2, "the third one is left out")
        status, text = cluster(group.controllers, "move", GROUP, number(group, old))
        assert status == 0, text
        until(old.serves, "the replica of the version before leads")
        sent += send(old, 10, "it leads two")
        group.start(third)
        group.await_members(1, 2, 3)
        assert (state(group).acks, state(group).wanted_acks) == (0, 2), "it says no acks: all confirm"
        three = send(old, 20, "it leads three")
        assert all(each.encode() in log_of(node) for each in three for node in group.nodes)
        group.kill(old)
        heir = group.leader()
        sent += three
        assert sorted(group.bodies("orders")) == sorted(sent)
        of_version(ROOT, [old])
        group.start(old)
        group.await_members(1, 2, 3)
        until(lambda: state(group).acks == 2, "a leader of this version brings acks to what was asked for")
        sent += send(heir, 10, "two of three again")
        assert sorted(group.bodies("orders")) == sorted(sent)


def test_promote_is_refused_while_a_controller_is_of_the_version_before(
    group: StoreGroupNodes, before: Path, tmp_path: Path
) -> None:
    old = group.controllers.nodes[0]
    of_version(before, [old])
    with group:
        group.await_members(1, 2, 3)
        far = far_replica(group, tmp_path)
        sent = send(group.leader(), 20, "everywhere")
        until(lambda: all(each.encode() in log_of(far) for each in sent), "the remote one has all of it")
        accepted = ("promote", GROUP, number(group, far), "--accept-loss", "--name", GROUP)
        for node in group.nodes:
            group.kill(node)
        group.kill(far)
        group.start(far)
        until(lambda: "remote: frankfurt" in cluster(group.controllers, "status")[1], "the controllers hear it")
        have_controller_lead(group, old, False)
        refused(group, *accepted)
        have_controller_lead(group, old, True)
        refused(group, *accepted)
        assert not far.serves()
        of_version(ROOT, [old])
        old.restart()
        until(lambda: cluster(group.controllers, *accepted)[0] == 0, "all controllers are of this version: it is promoted")
        assert cluster(group.controllers, "set", GROUP, "--min-in-sync", "1")[0] == 0
        until(far.serves, "it leads")
        assert sorted(group.bodies("orders")) == sorted(sent)
