"""`headgate cluster status` with real processes: it is 0 only while one replica serves clients, and gateways find it."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.replication.test_losses import GROUP, await_status, cluster, forget, number, send

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]
STRANGERS = re.compile(r"^headgate_controller_strangers_total (\S+)$", re.MULTILINE)


def await_well(group: StoreGroupNodes) -> None:
    """Wait until all is well."""
    seen = [""]

    def is_well() -> bool:
        status, seen[0] = cluster(group.controllers, "status")
        return status == 0

    try:
        until(is_well, "all is well", 60)
    except AssertionError as missing:
        raise AssertionError(f"{missing}; it is: {seen[0]}") from missing


def strangers(group: StoreGroupNodes) -> list[float]:
    """What each controller has refused, by its metrics."""
    return [float(STRANGERS.findall(node.admin("/metrics"))[0]) for node in group.controllers.nodes]


def test_a_gateway_that_reaches_no_leader_is_told_of_and_the_leader_before_is_no_stranger(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2) as group:
        group.await_members(1, 2)
        gateway = group.gateway(tmp_path / "gateway")
        await_well(group)
        leader = group.leader()
        (other,) = [node for node in group.nodes if node is not leader]
        gateway.signal(signal.SIGSTOP)
        assert cluster(group.controllers, "move", GROUP, number(group, other))[0] == 0
        until(other.serves, "the other one leads")
        group.await_members(1, 2)
        await_status(group.controllers, "gateway 127.0.0.1 does not reach the leader that there is now")
        gateway.signal(signal.SIGCONT)
        await_well(group)
        assert strangers(group) == [0.0] * len(group.controllers.nodes)


def test_a_gateway_that_has_never_found_a_leader_is_told_of_until_it_has_one(tmp_path: Path) -> None:
    """Its setting names an address at which there is no store yet."""
    with StoreGroupNodes(tmp_path, 1) as group:
        await_well(group)
        wrong = Node(tmp_path / "wrong")
        wrong.claim()
        gateway = Node(
            tmp_path / "gateway", "--roles", "gateway", "--store", f"127.0.0.1:{wrong.port('remoting')}", verb="run",
            environment={"HEADGATE_GATEWAY_CONTROLLERS": json.dumps(group.controllers.addresses)},
        )  # fmt: skip
        gateway.folder.mkdir()
        gateway.spawn()
        group.gateways.append(gateway)
        await_status(group.controllers, f" s: it tries 127.0.0.1:{wrong.port('remoting')}, and the last one did not take it")
        gateway.kill()
        await_well(group)


def test_a_leader_of_another_group_of_the_name_that_serves_clients_too_is_told_of(tmp_path: Path) -> None:
    """The controllers lose their folders, and an empty node begins the group anew, while the leader before stands still."""
    with StoreGroupNodes(tmp_path, 1) as group:
        (first,) = group.nodes
        send(first, 10, "first")
        await_well(group)
        first.signal(signal.SIGSTOP)
        forget(group)
        second = Node(
            tmp_path / "second", "--roles", "gateway,store", verb="run",
            environment={"HEADGATE_REPLICATION_CONTROLLERS": json.dumps(group.controllers.addresses)},
        )  # fmt: skip
        group.start(second)
        until(second.serves, "the empty one leads: nobody has told the controllers of another log")
        first.signal(signal.SIGCONT)
        until(first.serves, "both say that they are ready")
        await_status(group.controllers, "which serves clients in epoch 1: the log of this replica is of another store group")
        group.kill(first)
        until(lambda: cluster(group.controllers, "status")[0] == 0, "the stranger is gone, and forgotten after a minute", 120)
