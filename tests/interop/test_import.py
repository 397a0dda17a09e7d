"""`headgate import` with real servers: a cluster's topics, groups, positions and users are at the node afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.client.client import Client
from gateway.client.link import Link
from gateway.client.security import KeyPlace
from protocols.remoting import codes
from tests.interop.node import Node
from tests.interop.warm import headgate

pytestmark = pytest.mark.interop
RUN_S = 60


def imported(source: int, node: Node, *options: str) -> tuple[int, list[dict[str, str]]]:
    """Run the command. Returns its exit status and the rows that it printed. `source`: port of the name server."""
    here = f"127.0.0.1:{node.port('remoting')}"
    done = headgate("import", f"127.0.0.1:{source}", "--json", "--node", here, *options)
    assert done.returncode in (0, 1), done.stderr
    rows: list[dict[str, str]] = json.loads(done.stdout)["rows"]
    return done.returncode, rows


def test_a_node_becomes_the_copy_of_another(tmp_path: Path) -> None:
    (tmp_path / "admin").write_text("root:secret-1\n")
    (tmp_path / "client").write_text("alice:secret-22\n")
    admin = KeyPlace(str(tmp_path / "admin"))
    controlled = ("--admin-file", str(tmp_path / "admin"))
    with Node(tmp_path / "old", *controlled) as old, Node(tmp_path / "new", *controlled) as new:
        names = f"127.0.0.1:{old.port('nameserver')}"
        link = Link(f"127.0.0.1:{old.port('remoting')}", RUN_S, None, admin)
        topic = {"topic": "orders", "defaultTopic": "TBW102", "readQueueNums": "5", "writeQueueNums": "5", "perm": "6",
                 "topicFilterType": "SINGLE_TAG", "attributes": "+message.type=FIFO"}  # fmt: skip
        alice = {"username": "alice", "password": "secret-22", "userType": "Normal", "userStatus": "enable"}
        entry = {"resource": "Topic:orders", "actions": ["Sub", "Pub", "Get", "List"], "decision": "Allow"}
        policy = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [entry]}]}
        asked = [
            (codes.UPDATE_TOPIC, topic, b""),
            (codes.UPDATE_GROUP, {}, json.dumps({"groupName": "billing", "retryMaxTimes": 3}).encode()),
            (codes.CREATE_USER, {"username": "alice"}, json.dumps(alice).encode()),
            (codes.CREATE_ACL, {"subject": "User:alice"}, json.dumps(policy).encode()),
        ]
        assert [frame.code for frame in link.ask(asked)] == [0] * len(asked)
        with Client(names, key=admin) as client:
            for number in range(7):
                client.send("orders", b"%d" % number, message_group="g")
        [done] = link.ask(
            [(codes.UPDATE_OFFSET, {"consumerGroup": "billing", "topic": "orders", "queueId": "0", "commitOffset": "0"}, b"")]
        )
        assert done.code == 0
        keys = ("--key-file", str(tmp_path / "admin"), "--node-key-file", str(tmp_path / "admin"))
        code, rows = imported(old.port("nameserver"), new, *keys)
        assert code == 0, rows
        outcomes = {(row["kind"], row["name"]): row["outcome"] for row in rows}
        assert outcomes["topic", "orders"] == outcomes["group", "billing"] == "made"
        assert outcomes["user", "alice"] == outcomes["policy", "User:alice"] == "made"
        [position] = [row for row in rows if row["kind"] == "position" and row["name"] == "billing on orders"]
        assert position["outcome"] == "made"
        assert position["detail"].startswith("7 messages of the cluster are not consumed")

        with Client(f"127.0.0.1:{new.port('nameserver')}", key=KeyPlace(str(tmp_path / "client"))) as client:
            assert len(client.route("orders").queues) == 5
            client.send("orders", b"first of the new node", message_group="g")
        _, again = imported(old.port("nameserver"), new, *keys)
        assert {row["outcome"] for row in again} <= {"same", "kept"}
        link.close()
