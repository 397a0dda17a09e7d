"""The Java client of RocketMQ 5.5.0, unmodified, and mqadmin: against a whole node."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient

pytestmark = pytest.mark.interop
BINARY = ("-Drocketmq.serialize.type=ROCKETMQ",)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, java: JavaClient) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


def nameserver(node: Node) -> str:
    return f"127.0.0.1:{node.port('nameserver')}"


def broker(node: Node) -> str:
    return f"127.0.0.1:{node.port('remoting')}"


@pytest.mark.parametrize("options", [(), BINARY], ids=["json", "binary"])
def test_sync_async_oneway_and_batch_sends_are_all_pulled(java: JavaClient, node: Node, options: tuple[str, ...]) -> None:
    java.scenario("send", nameserver(node), f"JavaSend{len(options)}", options=options)


@pytest.mark.parametrize("options", [(), BINARY], ids=["json", "binary"])
def test_two_push_consumers_share_queues_by_tag_and_one_takes_over(
    java: JavaClient, node: Node, options: tuple[str, ...]
) -> None:
    java.scenario("push", nameserver(node), f"JavaPush{len(options)}", options=options)


def test_a_message_to_be_consumed_later_is_redelivered_under_its_own_topic(java: JavaClient, node: Node) -> None:
    java.scenario("retry", nameserver(node), "JavaRetry")


def test_an_orderly_consumer_gets_each_ordering_key_in_order(java: JavaClient, node: Node) -> None:
    java.scenario("orderly", nameserver(node), "JavaOrderly")


def test_broadcasting_consumers_all_get_everything(java: JavaClient, node: Node) -> None:
    java.scenario("broadcast", nameserver(node), "JavaBroadcast")


@pytest.mark.parametrize("options", [(), BINARY], ids=["json", "binary"])
def test_pop_consumers_share_messages_and_a_refused_one_is_redelivered(
    java: JavaClient, node: Node, options: tuple[str, ...]
) -> None:
    java.scenario("pop", nameserver(node), f"JavaPop{len(options)}", broker(node), options=options)


def test_offsets_times_and_one_message_by_its_id(java: JavaClient, node: Node) -> None:
    java.scenario("query", nameserver(node), "JavaQuery")


def test_new_groups_begin_first_at_an_instant_and_last_in_a_log_that_is_mostly_cold(java: JavaClient, tmp_path: Path) -> None:
    with Node(tmp_path, environment={"HEADGATE_STORE_HOT_BYTES": "20000"}) as cold:
        java.scenario("begin", nameserver(cold), "JavaBegin")


def test_acknowledged_messages_survive_a_kill(java: JavaClient, node: Node) -> None:
    java.scenario("produce", nameserver(node), "JavaKill", "100")
    node.kill()
    node.start()
    java.scenario("drain", nameserver(node), "JavaKill", "100")


def test_setting_up_with_mqadmin(java: JavaClient, node: Node) -> None:
    names = ("-n", nameserver(node))
    shape = ("-r", "4", "-w", "4", "-a", "+message.type=FIFO,+retention.ms=3600000,+retention.bytes=1048576")
    assert "success" in java.admin("updateTopic", "-c", "DefaultCluster", "-t", "Admin", *shape, *names)
    assert "\nAdmin\n" in f"\n{java.admin('topicList', *names)}"
    with urllib.request.urlopen(f"http://127.0.0.1:{node.port('http')}/v1/topics/Admin", timeout=10) as answer:
        document = json.loads(answer.read())
    assert (document["type"], document["retention_ms"], document["retention_bytes"]) == ("FIFO", 3_600_000, 1_048_576)
    route = java.admin("topicRoute", "-t", "Admin", *names)
    assert broker(node) in route
    assert '"readQueueNums":4' in route
    cluster = java.admin("clusterList", *names)
    assert broker(node) in cluster
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
