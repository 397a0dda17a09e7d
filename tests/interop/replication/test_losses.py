"""What operators do to a store group, with real processes: nothing that was acknowledged goes, and who is lost is told.

Controllers that come back empty, a node that asks the controllers of another cluster, a copied data directory, a group that
was given up. See docs/controllers.md, "When the controllers have lost their log".
"""

from __future__ import annotations

import json
import shutil
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.controller.controllers import Controllers, until
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes, post, read_all
from tests.interop.warm import headgate

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]
GROUP = "broker-a"


def cluster(controllers: Controllers, *words: str) -> tuple[int, str]:
    """`headgate cluster`: exit status, and what it printed."""
    ended = headgate("cluster", *words, "--controller", ",".join(controllers.addresses))
    return ended.returncode, ended.stdout + ended.stderr


def why(node: Node) -> str:
    """Why a replica is not ready; "": it leads."""
    try:
        node.admin("/readyz")
    except urllib.error.HTTPError as refused:
        return refused.read().decode()
    except OSError as away:
        return f"away: {away}"
    return ""


def number(group: StoreGroupNodes, node: Node) -> str:
    """Which replica a node is, by the word of the controllers."""
    where = f"127.0.0.1:{node.port('replication')}"
    return str(next(each.id for each in group._group().replicas if each.address == where))


def await_status(controllers: Controllers, text: str, times: int = 1) -> None:
    """Wait until `headgate cluster status` reports a problem `times` times: the controllers learn of it by heartbeats."""
    seen = [""]

    def has() -> bool:
        seen[0] = cluster(controllers, "status")[1]
        return seen[0].count(text) == times

    try:
        until(has, f"the status has: {text}", 60)
    except AssertionError as missing:
        raise AssertionError(f"{missing}; it is: {seen[0]}") from missing
    assert cluster(controllers, "status")[0] == 1


def await_why(node: Node, text: str) -> None:
    """Wait until a replica says this of itself."""
    said = [""]

    def says() -> bool:
        said[0] = why(node)
        return text in said[0]

    try:
        until(says, f"{node.folder.name} says: {text}", 40)
    except AssertionError as missing:
        raise AssertionError(f"{missing}; it says: {said[0]}") from missing


def log_of(node: Node) -> bytes:
    """The bytes of a replica's log."""
    return b"".join(each.read_bytes() for each in sorted((node.data / "log").iterdir()) if each.name.isdigit())


def aside_of(node: Node) -> bytes:
    """All that a replica has set aside of its log."""
    return b"".join(each.read_bytes() for each in sorted((node.data / "set-aside").rglob("*")) if each.is_file())


def send(node: Node, count: int, name: str) -> list[str]:
    """Send messages; all of them are acknowledged."""
    bodies = [f"{name}-{each}." for each in range(count)]
    assert all(post(node, "orders", each, 20) for each in bodies)
    return bodies


def stop_all(group: StoreGroupNodes) -> None:
    """Stop the replicas that run, the leader last: no leadership moves."""
    for node in sorted(group.running, key=Node.serves):
        group.running.discard(node)
        node.stop()


def forget(group: StoreGroupNodes) -> None:
    """The controllers lose their folders."""
    for node in group.controllers.nodes:
        node.kill()
        shutil.rmtree(node.data / "controller")
    for node in group.controllers.nodes:
        node.start()
    group.controllers.leader()


@contextmanager
def two_in_sync_and_one_behind(folder: Path) -> Iterator[tuple[StoreGroupNodes, list[str]]]:
    """A group of three that was stopped. All acknowledged messages are in the first two logs; the third one lacks some."""
    with StoreGroupNodes(folder, 3) as group:
        group.await_members(1, 2, 3)
        sent = send(group.leader(), 30, "first")
        third = group.nodes[2]
        if third.serves():
            assert cluster(group.controllers, "move", GROUP, number(group, group.nodes[0]))[0] == 0
            until(group.nodes[0].serves, "another one leads")
        group.kill(third)
        until(lambda: len(group.members()) == 2, "the third one is left out")
        sent += send(group.leader(), 60, "second")
        stop_all(group)
        yield group, sent


def test_controllers_that_forgot_do_not_let_a_replica_that_lacks_records_lead(tmp_path: Path) -> None:
    """The replica that comes first is the one that lacks most."""
    with two_in_sync_and_one_behind(tmp_path) as (group, sent):
        before = {node: log_of(node) for node in group.nodes}
        forget(group)
        third = group.nodes[2]
        # The leader, which stopped last, may have written more: nothing that it has acknowledged.
        first, second = sorted(group.nodes[:2], key=lambda node: -len(before[node]))
        group.start(third)
        await_why(third, "headgate cluster restore-controllers")
        for node in (first, second):
            group.start(node)
            await_why(node, "headgate cluster restore-controllers")
        await_status(
            group.controllers,
            "nobody leads: a replica has a log that was in an election",
        )
        status, text = cluster(group.controllers, "restore-controllers", GROUP)
        assert status == 0
        numbers = {node: number(group, node) for node in group.nodes}
        rows = {line.split()[0]: line for line in text.splitlines() if line[:1].isdigit()}
        assert all(f":{node.port('replication')} " in rows[numbers[node]] for node in group.nodes), text
        assert "nothing was changed" in text
        status, text = cluster(group.controllers, "restore-controllers", GROUP, numbers[third])
        assert status == 2
        assert f"the log of replica {numbers[third]} lacks what replica" in text
        assert {node: log_of(node) for node in group.nodes} == before, (
            "nothing is cut or deleted while an operator is waited for"
        )
        status, text = cluster(group.controllers, "restore-controllers", GROUP, numbers[first])
        assert status == 0, text
        until(first.serves, "the replica that was named leads")
        group.await_members(*sorted(map(int, numbers.values())))
        assert sorted(read_all(first, "orders")) == sorted(sent)
        assert sorted(read_all(first, "orders")) == sorted(group.bodies("orders"))


def test_an_empty_replica_that_founds_a_group_anew_is_followed_by_no_replica_with_records(tmp_path: Path) -> None:
    with two_in_sync_and_one_behind(tmp_path) as (group, sent):
        first, second, third = group.nodes
        shutil.rmtree(third.data)
        before = {node: log_of(node) for node in (first, second)}
        forget(group)
        group.start(third)
        until(third.serves, "the empty one leads: nobody has told the controllers of another log")
        for node in (first, second):
            group.start(node)
            await_why(node, "of another store group")
        assert {node: log_of(node) for node in (first, second)} == before
        group.kill(third)
        assert cluster(group.controllers, "remove", GROUP, "--all", "--even-living")[0] == 0
        for node in (first, second):
            await_why(node, "headgate cluster restore-controllers")
        longest = max((first, second), key=lambda node: len(before[node]))
        until(
            lambda: cluster(group.controllers, "restore-controllers", GROUP, "--replicas", "2")[0] == 0,
            "both have registered, and the longest log is restored from",
        )
        until(longest.serves, "the complete log leads")
        until(lambda: any("follows" in why(each) for each in (first, second)), "the other complete log follows")
        assert sorted(read_all(longest, "orders")) == sorted(sent)


def test_a_node_of_another_cluster_does_not_follow_and_keeps_its_log(tmp_path: Path) -> None:
    """Cluster and group have the default names in both; the first epochs have equal numbers."""
    with StoreGroupNodes(tmp_path / "one", 1) as production, StoreGroupNodes(tmp_path / "two", 1) as staging:
        sent = send(production.leader(), 20, "production")
        (node,) = staging.nodes
        send(node, 200, "staging")
        staging.kill(node)
        before = log_of(node)
        lost = Node(
            node.folder, "--roles", "gateway,store", verb="run",
            environment={"HEADGATE_REPLICATION_CONTROLLERS": json.dumps(production.controllers.addresses)},
        )  # fmt: skip
        production.start(lost)
        await_why(lost, "of another store group")
        sent += send(production.nodes[0], 20, "more")
        assert production.members() == [1]
        production.kill(lost)
        assert log_of(lost) == before
        assert [each.id for each in production._group().replicas] == [1], "it has not registered"
        assert sorted(read_all(production.nodes[0], "orders")) == sorted(sent)


@pytest.mark.parametrize("is_running", [False, True], ids=["of a stopped node", "of a running node"])
def test_a_copied_directory_never_acknowledges_beside_the_original(tmp_path: Path, is_running: bool) -> None:
    """A cloned machine: both processes are replica 1, and the SyncStateSet is that replica alone."""
    with StoreGroupNodes(tmp_path, 1) as group:
        (original,) = group.nodes
        sent = send(original, 10, "before")
        copy = Node(
            tmp_path / "copy", "--roles", "gateway,store", verb="run",
            environment={"HEADGATE_REPLICATION_CONTROLLERS": json.dumps(group.controllers.addresses)},
        )  # fmt: skip
        copy.folder.mkdir()
        if not is_running:
            group.running.discard(original)
            original.stop()
        shutil.copytree(original.data, copy.data)
        if not is_running:
            group.start(original)
            until(original.serves, "the original leads again")
        group.start(copy)
        await_why(copy, "another process")
        await_status(group.controllers, "a copy of this data directory")
        for each in range(20):
            assert not post(copy, "orders", f"copy-{each}", 1)
            sent += send(original, 1, f"original-{each}")
        epoch = group._group().leader_epoch
        assert original.serves()
        assert group._group().leader_epoch == epoch, "they do not depose each other"
        if not is_running:
            group.kill(original)
            await_why(copy, "a copy of this data directory")
            until(lambda: "registered with a copy" in why(copy), "it does not take the place of the original either")
            group.start(original)
            until(original.serves, "the original leads again")
        assert sorted(read_all(original, "orders")) == sorted(sent)


def test_what_a_recovery_has_given_up_is_set_aside_and_told(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2) as group:
        group.await_members(1, 2)
        first, second = group.nodes
        leader = group.leader()
        other = second if leader is first else first
        send(leader, 20, "both")
        group.kill(other)
        until(lambda: len(group.members()) == 1, "the leader is alone")
        given_up = send(leader, 100, "alone")
        group.kill(leader)
        group.start(other)
        which = number(group, other)
        until(
            lambda: cluster(group.controllers, "recover", GROUP, which, "--accept-loss", "--name", GROUP)[0] == 0,
            "the group is recovered", 60,
        )  # fmt: skip
        until(other.serves, "the other one leads")
        end = len(log_of(leader))
        group.start(leader)
        until(lambda: "this replica follows" in why(leader), "it follows")
        until(lambda: b"alone-99." in aside_of(leader), "what it had is set aside")
        kept = aside_of(leader)
        assert all(each.encode() in kept for each in given_up)
        assert not any(each.encode() in log_of(leader) for each in given_up)
        lines = [line for line in leader.log.read_text().splitlines() if "store set_aside" in line]
        assert len(lines) == 1
        assert "WARNING" in lines[0]
        assert "set-aside/log-" in lines[0]
        assert f"to {end}" in lines[0]
