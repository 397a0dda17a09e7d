"""mqadmin 5.5.0 beside a producer and a consumer that are there, and what it asks of them: against a whole node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.interop.node import Node
from tests.interop.remoting_java import JavaClient, build

pytestmark = pytest.mark.interop
TOPIC = "Tools"
ROW = f"{'broker-a':40}  {{:<40}}  {{}}"
"""How positions are printed: queue id and offset."""


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> JavaClient:
    return build(tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, java: JavaClient) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


@dataclass(frozen=True)
class Row:
    """One command and what has to be in its output; `refused`: a client's exception whose text has the reason."""

    command: str
    wanted: tuple[str, ...]
    refused: bool = False


TABLE = (
    Row("consumerConnection -g cg_Tools", ("{client}", "CONSUME_PASSIVELY", "CLUSTERING", "Tools", "CONSUME_FROM_FIRST")),
    Row("producerConnection -g pg_Tools -t Tools", ("0001  ", "JAVA     V5_5_0")),
    Row("producer -b {broker}", ("pg_Tools", "language=JAVA")),
    Row("consumerStatus -g cg_Tools -i {client}", ("#Consumer MQ Detail#", "Tools", "#Consumer RT&TPS#")),
    Row("consumerProgress -g cg_Tools", ("Tools", "Consume TPS", "Consume Diff Total: 0")),
    Row("consumerProgress", ("cg_Tools", "PUSH", "CLUSTERING")),
    Row("statsAll -t Tools", ("Tools", "cg_Tools")),
    Row("brokerStatus -b {broker}", ("putTps", "headgate.put_total", "getTransferredTps")),
    Row("clusterList", ("{broker}", "V5_3_3")),
    Row("queryCq -t Tools -q 0 -i 0 -c 3 -b {broker}", ("max: 5, min: 0", "physicSize=19", "tagsCode=2598919")),
    Row("topicStatus -t Tools", ("broker-a",)),
    Row("topicRoute -t Tools", ("{broker}",)),
    Row("topicList -c", ("Tools", "cg_Tools")),
    Row("topicClusterList -t Tools", ("DefaultCluster",)),
    Row("queryMsgById -i {offset-id} -t Tools", ("Topic:", "Tools", "Tags:")),
    Row("queryMsgById -i {offset-id} -t Tools -g cg_Tools -d {client}", ("CR_SUCCESS",)),
    Row("queryMsgByUniqueKey -i {unique-id} -t Tools -g cg_Tools -d {client}", ("CR_SUCCESS",)),
    Row("queryMsgByKey -t Tools -k key7", ("#Message ID", "#Offset")),
    Row("queryMsgByOffset -t Tools -b broker-a -i 0 -o 0", ("Topic:", "Tools")),
    Row("printMsg -t Tools -d true", ("m7",)),
    Row("consumeMessage -t Tools -c 3 -g cg_looker", ("MSGID",)),
    Row("allocateMQ -t Tools -i a,b", ("\"result\"",)),
    Row("updateSubGroup -c DefaultCluster -g cg_clone", ("success",)),
    Row("cloneGroupOffset -s cg_Tools -d cg_clone -t Tools", ("clone group offset success",)),
    Row("resetOffsetByTime -g cg_clone -t Tools -s 0 -f true", ("topic[Tools]", "#offset", ROW.format(3, 0))),
    Row("resetOffsetByTime -g cg_clone -t Tools -s -1 -q 0 -o 1 -b {broker}", ("reset consumer offset to 1",)),
    Row("brokerConsumeStats -b {broker}", ("cg_Tools", "cg_clone", "Diff Total: 19")),
    Row("skipAccumulatedMessage -g cg_clone -t Tools -f true", (ROW.format(3, 5),)),
    Row("getConsumerConfig -g cg_Tools", ("cg_Tools", "retryMaxTimes")),
    Row("getBrokerConfig -b {broker}", ("autoCreateTopicEnable", "defaultTopicQueueNums")),
    Row("updateBrokerConfig -b {broker} -k defaultTopicQueueNums -v 6", ("update broker config success",)),
    Row("getBrokerConfig -b {broker}", ("=  6",)),
    Row("updateBrokerConfig -b {broker} -k flushDiskType -v ASYNC_FLUSH", ("CODE: 16", "read at start"), refused=True),
    Row("wipeWritePerm -b broker-a", ("wipe write perm of broker[broker-a]",)),
    Row("topicRoute -t Tools", ("\"perm\":4",)),
    Row("addWritePerm -b broker-a", ("add write perm of broker[broker-a]",)),
    Row("topicRoute -t Tools", ("\"perm\":6",)),
    Row("updateKvConfig -s names -k one -v 1", ("create or update kv config to namespace success",)),
    Row("deleteKvConfig -s names -k one", ("delete kv config from namespace success",)),
    Row("getNamesrvConfig", ("listenPort",)),
    Row("updateNamesrvConfig -k serverWorkerThreads -v 9", ("CODE: 16", "read at start"), refused=True),
    Row("cleanExpiredCQ -b {broker}", ("success",)),
    Row("cleanUnusedTopic -b {broker}", ("success",)),
    Row("deleteExpiredCommitLog -b {broker}", ("success",)),
    Row("setConsumeMode -b {broker} -t Tools -g cg_clone -m POP -q 0", ("success",)),
    Row("updateTopicPerm -c DefaultCluster -t Tools -p 6", ("update topic perm from 6 to 6", "success")),
    Row("sendMessage -t Tools -p hello", ("SEND_OK",)),
    Row("sendMsgStatus -b broker-a -s 10 -c 2", ("rt=",)),
    Row("deleteSubGroup -c DefaultCluster -g cg_clone", ("success",)),
    Row("getColdDataFlowCtrInfo -b {broker}", ("CODE: 3", "cold reads"), refused=True),
    Row("haStatus -b {broker}", ("CODE: 3", "no replicas"), refused=True),
    Row("getBrokerEpoch -b broker-a", ("CODE: 3", "no replicas"), refused=True),
    Row("getControllerMetaData -a {broker}", ("CODE: 3", "no controller"), refused=True),
    Row("getBrokerLiteInfo -b {broker}", ("CODE: 3", "lite topics"), refused=True),
    Row("checkRocksdbCqWriteProgress -c DefaultCluster -n {nameserver} -t Tools", ("not RocksDB",), refused=True),
)


@pytest.fixture(scope="module")
def output(java: JavaClient, node: Node, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What every command of the table printed."""
    file = tmp_path_factory.mktemp("commands") / "commands"
    nameserver = f"127.0.0.1:{node.port('nameserver')}"
    lines = []
    for row in TABLE:
        words = filled(row.command, node).split(" ")
        lines.append("\t".join([*words, "-n", nameserver] if "-n" not in words else words))
    file.write_text("\n".join(lines) + "\n")
    done = java.run("Tools", "commands", nameserver, TOPIC, str(file))
    assert "OK commands" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]
    parts = done.stdout.split("=== ")[1:]
    assert len(parts) == len(TABLE) + 1, done.stdout[-4000:]
    return [part.partition("\n")[2] for part in parts]


def filled(text: str, node: Node) -> str:
    """The node's addresses put in; what only the clients know is put in by them."""
    text = text.replace("{broker}", f"127.0.0.1:{node.port('remoting')}")
    return text.replace("{nameserver}", f"127.0.0.1:{node.port('nameserver')}")


@pytest.mark.parametrize("number", range(len(TABLE)), ids=[row.command.replace(" ", "_")[:60] for row in TABLE])
def test_a_command_tells_the_facts(output: list[str], node: Node, number: int) -> None:
    row, text = TABLE[number], output[number]
    for wanted in row.wanted:
        if wanted != "{client}":
            assert filled(wanted, node) in text, text[:4000]
    if not row.refused:
        assert "Exception:" not in text, text[:4000]
        assert "\tat " not in text, text[:4000]


def ran(java: JavaClient, node: Node, mode: str) -> None:
    done = java.run("Tools", mode, f"127.0.0.1:{node.port('nameserver')}", f"Tools_{mode}")
    assert f"OK {mode}" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]


def test_running_info_direct_consumption_and_positions_of_a_client(java: JavaClient, node: Node) -> None:
    ran(java, node, "callbacks")


def test_positions_are_reset_under_a_consumer_and_without_one(java: JavaClient, node: Node) -> None:
    ran(java, node, "reset")


def test_requests_are_answered(java: JavaClient, node: Node) -> None:
    ran(java, node, "request")
