"""The leader is killed under Java clients that talk to it directly: they go on within one poll of routes.

The Java client asks for routes every `pollNameServerInterval`, and not because a send has failed (docs/cluster.md). Its name
servers are processes apart, which are controllers too, or those of the replicas, of which that of the leader alone answers.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

import pytest

from gateway.client.answer import ClientError
from gateway.client.client import Client
from tests.interop.killed_clients import results, running
from tests.interop.node import Node
from tests.interop.remoting.java import PROJECT, RUN_S, JavaClient
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.workshop import java_classpath
from tests.patience import until
from tests.store.faults.soak import SOAK

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3 * RUN_S)]
POLL_S: Final = 5.0
SLACK_S: Final = 15.0
"""Of a busy machine. With the poll, and the time in which another replica leads, it is less than the client's own 30 s."""
OLDER: Final = PROJECT.parent / "remoting4"
PLACES: Final = ("apart", "replicas") if SOAK else ("apart",)


def address(node: Node, port: str) -> str:
    return f"127.0.0.1:{node.port(port)}"


def leader_by(nameservers: list[str], topic: str) -> str:
    """The address in the route that one of the name servers tells; "": none does."""
    for each in nameservers:
        try:
            with Client(each, retry_s=0) as client:
                return client.route(topic).addresses.get("broker-a", "")
        except (ClientError, OSError):
            continue
    return ""


@pytest.mark.parametrize("place", PLACES)
def test_clients_at_the_leader_go_on_within_a_poll(java: JavaClient, tmp_path: Path, place: str) -> None:
    classes = java_classpath(PROJECT, "the Java client of RocketMQ").split(":")[0]
    older = JavaClient(f"{classes}:{java_classpath(OLDER, 'the Java client of RocketMQ 4.9')}", tmp_path / "older")
    with StoreGroupNodes(tmp_path, 2, controllers=3, named=place == "apart") as group:
        group.await_members(1, 2)
        leader = group.leader()
        topics = {"java-5.5": "newer", "java-4.9.8": "older"}
        for topic in topics.values():
            group.send(topic, "makes the topic")
        nameservers = group.nameservers or [address(node, "nameserver") for node in group.nodes]
        until(lambda: all(leader_by(nameservers, each) == address(leader, "remoting") for each in topics.values()), 60)
        commands = {
            name: ([*each.command("Moved"), ";".join(nameservers), topics[name], f"{POLL_S * 1e3:.0f}"], dict[str, str]())
            for name, each in (("java-5.5", java), ("java-4.9.8", older))
        }
        with running(commands, tmp_path / "homes") as clients:
            killed = time.monotonic()
            group.kill(leader)
            [heir] = group.running
            until(lambda: leader_by(nameservers, "newer") == address(heir, "remoting"), 60)
            known_s = time.monotonic() - killed
            found = results(clients)
    print(f"\nnamed by {place}: another leader after {known_s:.1f} s; {found}")
    for name in topics:
        said = found.get(f"{name}:moved", "nothing was said")
        times = re.search(r"sent_ms=(\d+) came_ms=(\d+)", said)
        assert times is not None, said
        sent_s, came_s = (int(each) / 1e3 for each in times.groups())
        assert sent_s < known_s + POLL_S + SLACK_S, said
        assert came_s < known_s + POLL_S + SLACK_S, said
