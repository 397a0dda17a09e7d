"""The Java client of RocketMQ 5.5.0, unmodified, with binary headers, and mqadmin: against a whole node."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient, addresses

pytestmark = pytest.mark.interop
BINARY = ("-Drocketmq.serialize.type=ROCKETMQ",)
SCENES = ("send", "push", "pop", "sql", "sql-pop", "transaction", "recall", "from-where-cold")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, java: JavaClient) -> Iterator[Node]:
    """A node of whose log the newest part in memory is small."""
    with Node(tmp_path_factory.mktemp("node"), environment={"HEADGATE_STORE_HOT_BYTES": "20000"}) as running:
        yield running


@pytest.fixture(scope="module")
def told(java: JavaClient, node: Node) -> dict[str, str]:
    return java.scenes("clients", *addresses(node), *SCENES, options=BINARY)


@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_with_binary_headers(told: dict[str, str], scene: str) -> None:
    assert told[scene].startswith("OK "), told[scene]


def test_setting_up_with_mqadmin(java: JavaClient, node: Node) -> None:
    nameserver, broker = addresses(node)
    names = ("-n", nameserver)
    shape = ("-r", "4", "-w", "4", "-a", "+message.type=FIFO,+retention.ms=3600000,+retention.bytes=1048576")
    assert "success" in java.admin("updateTopic", "-c", "DefaultCluster", "-t", "Admin", *shape, *names)
    assert "\nAdmin\n" in f"\n{java.admin('topicList', *names)}"
    with urllib.request.urlopen(f"http://127.0.0.1:{node.port('http')}/v1/topics/Admin", timeout=10) as answer:
        document = json.loads(answer.read())
    assert (document["type"], document["retention_ms"], document["retention_bytes"]) == ("FIFO", 3_600_000, 1_048_576)
    route = java.admin("topicRoute", "-t", "Admin", *names)
    assert broker in route
    assert '"readQueueNums":4' in route
    cluster = java.admin("clusterList", *names)
    assert broker in cluster
    assert "V5_3_3" in cluster
    policy = '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1500,"max":60000,"multiplier":3}}'
    changed = java.admin("updateSubGroup", "-c", "DefaultCluster", "-g", "AdminGroup", "-r", "5", "-p", policy, *names)
    assert "success" in changed
    config = java.admin("getConsumerConfig", "-g", "AdminGroup", *names)
    assert "retryMaxTimes                           =  5" in config
    assert "EXPONENTIAL" in config
    assert "1500" in config
    assert "broker-a                          3     0" in java.admin("topicStatus", "-t", "Admin", *names)
    gone = java.admin("deleteTopic", "-c", "DefaultCluster", "-t", "Admin", *names)
    assert "from cluster [DefaultCluster] success" in gone
    assert "CODE: 17" in java.admin("topicRoute", "-t", "Admin", *names)
