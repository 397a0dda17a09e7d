"""A single node under load becomes the first replica of a store group, another one joins, and it goes on alone again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.cluster.operator.controllers import ClusterControllers
from tests.interop.controller.controllers import Controllers, until
from tests.interop.node import Node
from tests.interop.replication.group import ask, read_all
from tests.interop.replication.load import TOPIC, Load

pytestmark = pytest.mark.interop


def test_a_single_node_becomes_a_replica_and_goes_on_alone_again_under_load(tmp_path: Path) -> None:
    alone = 'broker = "broker-a"\n'
    with Controllers(tmp_path, 1) as controllers:
        replicated = f"{alone}[replication]\ncontrollers = {json.dumps(controllers.addresses)}\n"
        file = tmp_path / "node.toml"
        file.write_text(alone)
        node = Node(tmp_path / "node", "--roles", "gateway,store", "--config", str(file), verb="run")
        other = Node(
            tmp_path / "other", "--roles", "gateway,store", verb="run",
            environment={"HEADGATE_REPLICATION_CONTROLLERS": json.dumps(controllers.addresses)},
        )  # fmt: skip
        asked = ClusterControllers(controllers.addresses, None, None)
        node.start()
        process = node.pid
        load = Load(node)
        try:
            until(lambda: len(load.acknowledged) > 20, "a single node takes messages")
            file.write_text(replicated)
            until(lambda: bool(asked.groups()) and asked.group("broker-a")[0].leader == 1, "it leads")
            before = len(load.acknowledged)
            until(lambda: len(load.acknowledged) > before + 20, "a replica takes messages")
            print(f"\nlongest wait of a message while a single node became a replica: {load.longest_s:.2f} s")
            load.longest_s = 0.0
            other.folder.mkdir()
            other.spawn()
            until(lambda: asked.group("broker-a")[0].in_sync == (1, 2), "another one has joined")
            file.write_text(alone)
            until(lambda: "besides this one: stop" in node.text(), "it does not leave the other one behind")
            other.kill()
            until(lambda: asked.group("broker-a")[0].in_sync == (1,), "the other one is out")
            _removed(controllers, asked)
            until(lambda: "no replica any more" in node.text(), "it goes on alone")
            before = len(load.acknowledged)
            until(lambda: len(load.acknowledged) > before + 20, "a single node takes messages")
            print(f"longest wait of a message while it went on alone: {load.longest_s:.2f} s")
        finally:
            load.end()
            other.kill()
            asked.close()
        assert node.pid == process
        assert set(load.acknowledged) <= set(read_all(node, TOPIC)), "what was acknowledged is there"
        assert ask(node, f"/v1/topics/{TOPIC}/queues")["queues"]
        node.stop()


def _removed(controllers: Controllers, asked: ClusterControllers) -> None:
    from domain.controller.change import CleanReplicas

    until(lambda: asked.change(CleanReplicas("broker-a", (2,))).refusal is None, "the other one is removed")
