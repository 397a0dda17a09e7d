"""A new group whose third node is missing says so: in the log of both others every ten seconds, and in their /readyz."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interop.controller.controllers import until
from tests.interop.node import Node, free_ports
from tests.interop.replication.test_gateways_learn import reasons

pytestmark = pytest.mark.interop


def test_two_of_three_new_nodes_say_whom_they_wait_for(tmp_path: Path) -> None:
    ports = [free_ports()["controller"] for _ in range(3)]
    peers = json.dumps([f"127.0.0.1:{port}" for port in ports])
    environment = {"HEADGATE_CONTROLLER_PEERS": peers, "HEADGATE_REPLICATION_CONTROLLERS": peers}
    options = ("--roles", "gateway,store,controller")
    nodes = [
        Node(tmp_path / f"node-{port}", *options, f"--port=controller={port}", verb="run", environment=environment)
        for port in ports[:2]
    ]
    missing = f"127.0.0.1:{ports[2]}"
    try:
        for node in nodes:
            node.folder.mkdir(exist_ok=True)
            node.spawn()
        wanted = (
            f"this controller waits for the others: {missing} has not answered; a new group of controllers needs all of them"
        )
        for node in nodes:
            until(lambda node=node: node.text().count(wanted) > 1, "the log says so again")  # type: ignore[misc]
            [reason] = reasons(node)
            assert "is not registered at the controllers: no controller leads" in reason
            assert missing in reason
    finally:
        for node in nodes:
            node.kill()
