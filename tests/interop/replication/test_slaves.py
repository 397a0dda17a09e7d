"""Replicas that follow are slaves of their broker at name servers apart: tools list them, and consumers read from them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from gateway.client.client import Client
from protocols.remoting import codes
from tests.interop.controller.controllers import until
from tests.interop.killed_clients import results, running
from tests.interop.remoting.java import JavaClient
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.replication.test_reads import Reader, address, read

pytestmark = pytest.mark.interop
TOPIC: Final = "backlog"
COUNT: Final = 200
BODY_BYTES: Final = 20_000


def addresses(nameserver: str) -> dict[int, str]:
    """The broker in the route that a name server tells: id -> address; {}: it tells none."""
    reply = Reader(nameserver).ask(codes.GET_ROUTE, {"topic": TOPIC, "acceptStandardJsonOnly": "true"})
    if reply.code != codes.SUCCESS:
        return {}
    (broker,) = json.loads(reply.body)["brokerDatas"]
    return {int(each): where for each, where in broker["brokerAddrs"].items()}


def test_followers_are_slaves_at_name_servers(java: JavaClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_REPLICATION_OFFLOAD_MIB", "1")
    with StoreGroupNodes(tmp_path, 2, controllers=3, named=True) as group:
        group.await_members(1, 2)
        group.send(TOPIC, "makes the topic")
        leader = group.leader()
        follower = next(node for node in group.nodes if node is not leader)
        both = {address(leader, "remoting"), address(follower, "readers")}
        until(lambda: set(addresses(group.nameservers[0]).values()) == both, "a name server knows both")
        wanted = addresses(group.nameservers[0])
        assert wanted[0] == address(leader, "remoting")
        (number,) = wanted.keys() - {0}
        own = {follower: number, leader: 3 - number}
        until(lambda: all(addresses(each) == wanted for each in group.nameservers), "all name servers know both")
        names = ";".join(group.nameservers)
        listed = java.admin("clusterList", "-n", names)
        for number, where in wanted.items():
            assert re.search(rf"broker-a\s+{number}\s+{re.escape(where)}\s", listed), listed
        refused = java.admin(
            "createUser", "-b", address(follower, "readers"), "-u", "alice", "-p", "wonderland", "-t", "Normal"
        )
        assert "CODE: 14" in refused, refused
        assert "ask the leader" in refused, refused
        route = java.admin("topicRoute", "-t", TOPIC, "-n", names)
        assert all(where in route for where in wanted.values()), route

        with Client(group.nameservers[0]) as client:
            for number in range(COUNT):
                client.send(TOPIC, b"%d " % number + b"x" * BODY_BYTES)
        before = read(follower)
        command = [*java.command("Moved"), names, TOPIC, "5000"]
        with running({"java-5.5": (command, {})}, tmp_path / "homes") as clients:
            assert read(follower) > before, "the consumer reads its backlog from the follower"
            found = results(clients)
        assert found["java-5.5:moved"].startswith("OK "), found

        group.kill(leader)
        lone = {0: address(follower, "remoting")}
        until(lambda: all(addresses(each) == lone for each in group.nameservers), "who leads is no slave any more")
        group.start(leader)
        group.await_members(1, 2)
        wanted = {**lone, own[leader]: address(leader, "readers")}
        until(lambda: all(addresses(each) == wanted for each in group.nameservers), "who led is a slave")
        group.kill(leader)
        until(lambda: all(addresses(each) == lone for each in group.nameservers), "a slave that died is none")
