"""Controllers of another number while they run, more and fewer, and a store group that goes on. SOAK=1: up to five."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.interop.controller.controllers import until
from tests.interop.node import Node, free_ports
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.warm import headgate

pytestmark = pytest.mark.interop
MORE = 4 if os.environ.get("SOAK") else 2


def cluster(at: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `headgate cluster` to its end."""
    return headgate("cluster", *words, "--controller", at)


def test_one_controller_becomes_several_and_the_first_goes(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2, controllers=1) as group:
        found = group.controllers
        group.await_members(1, 2)
        first = found.addresses[0]
        sent = [f"{number}" for number in range(30)]

        def send() -> None:
            body = sent.pop()
            group.send("numbers", body)
            acknowledged.append(body)

        acknowledged: list[str] = []
        refused = cluster(first, "add", "--controller-address", f"127.0.0.1:{free_ports()['controller']}")
        assert refused.returncode == 2
        assert "does not answer" in refused.stderr
        for _ in range(MORE):
            node = found.another(first)
            made = cluster(first, "add", "--controller-address", found.address_of(node))
            assert made.returncode == 0, made
            send()
        assert f"{MORE + 1} controllers vote" in made.stdout, made
        status = cluster(found.addresses[MORE], "status")
        assert status.returncode == 0, status
        assert status.stdout.count(" answers ") == MORE + 1, status
        last = cluster(first, "add", "--controller-address", found.addresses[2])
        assert last.returncode == 0, last
        found.nodes[0].kill()
        found.leader(found.nodes[0])
        send()
        at = found.addresses[MORE]
        gone = cluster(at, "remove", "--controller-address", first)
        assert gone.returncode == 0, gone
        assert f"{MORE} controllers vote" in gone.stdout, gone
        leader = found.leader(found.nodes[0])
        where = found.address_of(leader)
        gone = cluster(at, "remove", "--controller-address", where)
        assert gone.returncode == 0, gone
        assert f"{where} votes no more" in gone.stdout, gone
        until(lambda: "this one was removed" in leader.text(), "it knows that it was removed")
        leader.kill()
        rest = [node for node in found.nodes[1:] if node is not leader]
        at = found.address_of(rest[0])
        status = cluster(at, "status")
        assert status.returncode == 0, status
        _leads_on_without_the_first(group, acknowledged, send, rest, found.address_of(rest[-1]))
        assert sorted(group.bodies("numbers")) == sorted(acknowledged)


def _leads_on_without_the_first(
    group: StoreGroupNodes, acknowledged: list[str], send: object, rest: list[Node], at: str
) -> None:
    """None of the controllers in the settings of the replicas is there any more: the replicas have learned the others."""
    assert callable(send)
    old = group.leader()
    group.kill(old)
    send()
    assert group.leader() is not old
    group.start(old)
    group.await_members(1, 2)
    if os.environ.get("SOAK"):
        for node in rest:
            node.restart()
        until(lambda: cluster(at, "status").returncode == 0, "they have found each other again")
        send()
