"""Replicas are added, removed and wiped: gateways find the leader, /readyz is true, and a wiped replica keeps its number."""

from __future__ import annotations

import json
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.node.cli import app
from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes, post, read_all

pytestmark = pytest.mark.interop

TOPIC = "grown"


def reasons(node: Node) -> list[str]:
    """The reasons of /readyz; empty: it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{node.port('admin')}/readyz", timeout=10) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        found = json.load(error)
    return [str(each) for each in found["reasons"]]


def cluster(group: StoreGroupNodes, *words: str) -> str:
    """A command of an operator, which succeeds."""
    result = CliRunner().invoke(app, ["cluster", *words, "--controller", group.controllers.addresses[0]])
    assert result.exit_code == 0, f"{result.output} {result.exception}"
    return result.output


def id_of(node: Node) -> int:
    """The id of a replica; 0: it has none yet."""
    file = node.data / "replica-node"
    return int(file.read_text().split()[1]) if file.exists() else 0


def sends(gateway: Node, body: str) -> None:
    """Send by a gateway, again and again, until it is acknowledged."""
    until(lambda: post(gateway, TOPIC, body), f"{body!r} is taken by the gateway")


def test_a_group_is_replaced_replica_by_replica_and_its_gateway_follows(tmp_path: Path) -> None:
    """The gateway is told of the first leader alone; in the end none of the replicas of its settings exists any more."""
    with StoreGroupNodes(tmp_path, 4, late=2) as group:
        group.await_members(1, 2)
        first, second, third, fourth = group.nodes
        leader = group.leader()
        gateway = Node(
            tmp_path / "gateway", "--roles", "gateway", "--store", f"127.0.0.1:{leader.port('remoting')}", verb="run"
        )
        gateway.start()
        group.gateways.append(gateway)
        sends(gateway, "one")
        for node, count in ((third, 3), (fourth, 4)):
            group.start(node)
            said = cluster(group, "repair", "broker-a", "--replicas", str(count), "--seconds", "120")
            assert f"all {count} replicas are in sync" in said
        wanted = [f"127.0.0.1:{node.port('remoting')}" for node in group.nodes]
        kept = gateway.data / "store-replicas"
        until(lambda: set(wanted) <= set(kept.read_text().split()), "the gateway knows four replicas")
        for number, node in enumerate((first, second), 1):
            group.kill(node)
            sends(gateway, f"without {number}")
            cluster(group, "remove", "broker-a", str(id_of(node)))
        assert group.leader() in (third, fourth)
        gateway.stop()
        gateway.start()
        sends(gateway, "after a restart of the gateway")
        bodies = read_all(gateway, TOPIC)
        assert {"one", "without 1", "without 2", "after a restart of the gateway"} <= set(bodies)


def test_a_gateway_that_knows_a_follower_alone_finds_the_leader(tmp_path: Path) -> None:
    """As one that was off while its store moved: nothing that it knows leads, and a replica that follows names the leader."""
    with StoreGroupNodes(tmp_path, 2) as group:
        group.await_members(1, 2)
        group.send(TOPIC, "one")
        leader = group.leader()
        follower = next(node for node in group.nodes if node is not leader)
        stores = f"127.0.0.1:{follower.port('remoting')},127.0.0.1:{follower.port('readers')}"
        gateway = Node(tmp_path / "gateway", "--roles", "gateway", "--store", stores, verb="run")
        gateway.start()
        group.gateways.append(gateway)
        sends(gateway, "by the leader that it did not know")
        kept = (gateway.data / "store-replicas").read_text()
        for node in group.nodes:
            assert f"127.0.0.1:{node.port('remoting')}" in kept
            assert f"127.0.0.1:{node.port('readers')}" in kept, "where to ask when it does not lead"


def test_too_few_replicas_are_a_reason_at_the_leader_and_at_its_gateway(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 3) as group:
        group.await_members(1, 2, 3)
        gateway = group.gateway(tmp_path / "gateway")
        sends(gateway, "one")
        leader = group.leader()
        assert reasons(leader) == reasons(gateway) == []
        others = [node for node in group.nodes if node is not leader]
        for node in others:
            group.kill(node)
        until(lambda: bool(reasons(gateway)), "the gateway is not ready")
        until(lambda: bool(reasons(leader)), "the leader is not ready")
        assert not post(gateway, TOPIC, "two", 8.0)
        for node in others:
            group.start(node)
        until(lambda: not reasons(gateway), "the gateway is ready again")
        sends(gateway, "three")


def test_a_wiped_replica_gets_its_number_back(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 3) as group:
        group.await_members(1, 2, 3)
        group.send(TOPIC, "one")
        leader = group.leader()
        wiped = next(node for node in group.nodes if node is not leader)
        number = id_of(wiped)
        group.kill(wiped)
        shutil.rmtree(wiped.data)
        began = time.monotonic()
        group.start(wiped)
        until(lambda: id_of(wiped) > 0, "it has an id")
        assert id_of(wiped) == number
        group.await_members(1, 2, 3)
        assert time.monotonic() - began < 60
        assert "all 3 replicas are in sync: 1, 2, 3" in cluster(group, "repair", "broker-a", "--seconds", "60")
