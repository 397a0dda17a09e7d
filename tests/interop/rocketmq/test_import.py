"""`headgate import` from two masters of Apache RocketMQ."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.client.client import Client
from gateway.client.link import Link
from tests.interop.node import Node
from tests.interop.rocketmq.apache import ApacheCluster
from tests.interop.test_import import imported

pytestmark = pytest.mark.interop
SENT = 9
_UPDATE_OFFSET = 15


def test_topics_groups_and_positions_of_two_brokers_are_copied(apache: ApacheCluster, tmp_path: Path) -> None:
    apache.make_topic("import-orders", "FIFO", queues=3)
    apache.make_topic("import-plain")
    apache.make_group("import-billing", orderly=True)
    apache.until_route("import-orders", 2)
    with Client(apache.nameserver.address) as client:
        for number in range(SENT):
            client.send("import-orders", b"%d" % number, message_group=f"g{number}")
    for broker in apache.brokers.values():
        link = Link(broker.address, 10)
        at = {"consumerGroup": "import-billing", "topic": "import-orders", "queueId": "0", "commitOffset": "0"}
        assert link.ask([(_UPDATE_OFFSET, at, b"")])[0].code == 0
        link.close()
    with Node(tmp_path) as node:
        code, told = imported(apache.nameserver.port, node)
        rows = {(row["kind"], row["name"]): row for row in told}
        assert rows["topic", "import-orders"]["outcome"] == "made", rows
        assert rows["topic", "import-orders"]["detail"].startswith("6 queues; FIFO")
        assert rows["topic", "import-plain"]["outcome"] == "made"
        assert rows["group", "import-billing"]["outcome"] == "made"
        position = rows["position", "import-billing on import-orders"]
        assert position["outcome"] == "made"
        assert position["detail"].startswith(f"{SENT} messages of the cluster are not consumed")
        assert not [
            row for row in told if row["kind"] == "topic" and row["name"].startswith(("broker-", "rmq_sys", "DefaultCluster"))
        ]
        left = [row for row in told if row["outcome"] == "not copied"]
        assert bool(code) == bool(left), told
        with Client(f"127.0.0.1:{node.port('nameserver')}") as client:
            assert len(client.route("import-orders").queues) == 6
        _, again = imported(apache.nameserver.port, node)
        assert "made" not in {row["outcome"] for row in again}
