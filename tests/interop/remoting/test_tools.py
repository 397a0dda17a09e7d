"""mqadmin 5.5.0 against a whole node with a connected producer and consumer, which answer its inquiries."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient, addresses

pytestmark = pytest.mark.interop
TOPIC = "Tools"
COMMANDS_S = 400
"""More than a hundred commands, one after the other, each with its own clients."""
MODES = ("callbacks", "reset", "request")
"""Running info, direct consumption and positions of a client; reset of positions with and without a consumer; requests."""
ROW = f"{'broker-a':40}  {{:<40}}  {{}}"
"""A printed position: queue id and offset."""


@dataclass(frozen=True)
class Row:
    """One command and the texts that its output must have. `refused`: the output also has an exception of the client.

    The exception has the reason for commands that are not served. clusterRT runs until it is interrupted: an exception too.
    """

    command: str
    wanted: tuple[str, ...]
    refused: bool = False


TABLE = (
    Row("", ("mqadmin commands are",)),
    Row("consumerConnection -g cg_Tools", ("{client}", "CONSUME_PASSIVELY", "CLUSTERING", "Tools", "CONSUME_FROM_FIRST")),
    Row("producerConnection -g pg_Tools -t Tools", ("0001  ", "JAVA     V5_5_0")),
    Row("producer -b {broker}", ("pg_Tools", "language=JAVA")),
    Row("consumerStatus -g cg_Tools -i {client}", ("#Consumer MQ Detail#", "Tools", "#Consumer RT&TPS#")),
    Row("consumerProgress -g cg_Tools", ("Tools", "Consume TPS", "Consume Diff Total: 0")),
    Row("consumerProgress", ("cg_Tools", "PUSH", "CLUSTERING")),
    Row("statsAll -t Tools", ("Tools", "cg_Tools")),
    Row("brokerStatus -b {broker}", ("putTps", "headgate.put_total", "getTransferredTps")),
    Row("clusterList", ("{broker}", "V5_3_3")),
    Row("queryCq -t Tools -q 0 -i 0 -c 3 -b {broker}", ("max: 5, min: 0", "physicSize=", "tagsCode=2598919")),
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
    Row("allocateMQ -t Tools -i a,b", ('"result"',)),
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
    Row("updateBrokerConfig -b {broker} -k brokerPermission -v 4", ("update broker config success",)),
    Row("topicRoute -t Tools", ('"perm":4',)),
    Row("updateBrokerConfig -b {broker} -k brokerPermission -v 6", ("update broker config success",)),
    Row("topicRoute -t Tools", ('"perm":6',)),
    Row("updateBrokerConfig -b {broker} -k flushDiskType -v ASYNC_FLUSH", ("CODE: 16", "read at start"), refused=True),
    Row("wipeWritePerm -b broker-a", ("wipe write perm of broker[broker-a]",)),
    Row("topicRoute -t Tools", ('"perm":4',)),
    Row("addWritePerm -b broker-a", ("add write perm of broker[broker-a]",)),
    Row("topicRoute -t Tools", ('"perm":6',)),
    Row("updateKvConfig -s names -k one -v 1", ("create or update kv config to namespace success",)),
    Row("deleteKvConfig -s names -k one", ("delete kv config from namespace success",)),
    Row("getNamesrvConfig", ("listenPort",)),
    Row("updateNamesrvConfig -k orderMessageEnable -v false", ("update name server config success",)),
    Row("getNamesrvConfig", ("orderMessageEnable", "=  false")),
    Row("updateNamesrvConfig -k orderMessageEnable -v true", ("update name server config success",)),
    Row("updateNamesrvConfig -k serverWorkerThreads -v 9", ("CODE: 16", "read at start"), refused=True),
    Row("cleanExpiredCQ -b {broker}", ("success",)),
    Row("cleanUnusedTopic -b {broker}", ("success",)),
    Row("deleteExpiredCommitLog -b {broker}", ("success",)),
    Row("setConsumeMode -b {broker} -t Tools -g cg_clone -m POP -q 0", ("success",)),
    Row("updateTopicPerm -c DefaultCluster -t Tools -p 6", ("update topic perm from 6 to 6", "success")),
    Row("sendMessage -t Tools -p hello", ("SEND_OK",)),
    Row("sendMsgStatus -b broker-a -s 10 -c 2", ("rt=",)),
    Row("deleteSubGroup -c DefaultCluster -g cg_clone", ("success",)),
    Row("updateTopic -b {broker} -t Made -r 2 -w 2 -a +message.type=FIFO", ("create topic to {broker} success",)),
    Row("updateTopicList -b {broker} -f {folder}/topics.json", ("success",)),
    Row("updateSubGroupList -b {broker} -f {folder}/groups.json", ("success",)),
    Row("deleteTopic -c DefaultCluster -t Made", ("delete topic [Made] from cluster [DefaultCluster] success",)),
    Row("topicRoute -t Made", ("CODE: 17",), refused=True),
    Row("updateOrderConf -t Tools -m put -v broker-a:4", ("update orderConf success",)),
    Row("updateOrderConf -t Tools -m get", ("orderConf=[broker-a:4]",)),
    Row("updateOrderConf -t Tools -m delete", ("delete orderConf success",)),
    Row("checkMsgSendRT -t Tools -a 3 -s 8", ("broker-a", "true", "Avg RT")),
    Row("printMsgByQueue -t Tools -a broker-a -i 0 -p true", ("MSGID", "queueId=0")),
    Row("queryMsgTraceById -i {unique-id}", ("CODE: 208", "no message"), refused=True),
    Row("exportConfigs -c DefaultCluster -f {folder}", ("configs.json success",)),
    Row("exportMetadata -c DefaultCluster -f {folder}", ("metadata.json success",)),
    Row("exportMetrics -c DefaultCluster -f {folder}", ("metrics.json success",)),
    Row("createUser -b {broker} -u alice -p wonderland -t Normal", ("create user to {broker} success",)),
    Row("updateUser -b {broker} -u alice -s disable", ("update user to {broker} success",)),
    Row("getUser -b {broker} -u alice", ("alice", "Normal", "disable")),
    Row("listUser -b {broker} -f ali", ("alice", "Normal", "disable")),
    Row("copyUser -f {broker} -t {broker} -u alice", ("copy user of alice from {broker} to {broker} success",)),
    Row("createAcl -b {broker} -s User:alice -r Topic:a,Group:b -a Pub,Sub -d Allow", ("create acl to {broker} success",)),
    Row("updateAcl -b {broker} -s User:alice -r Topic:a -a Sub -d Deny -i 10.0.0.1", ("update acl to {broker} success",)),
    Row("getAcl -b {broker} -s User:alice", ("User:alice", "Topic:a", "Deny", "10.0.0.1", "Group:b", "Allow")),
    Row("listAcl -b {broker} -s alice -r Group:b", ("User:alice", "Group:b", "Allow")),
    Row("copyAcl -f {broker} -t {broker} -s User:alice", ("copy acl of User:alice from {broker} to {broker} success",)),
    Row("deleteAcl -b {broker} -s User:alice -r Topic:a", ("delete acl to {broker} success",)),
    Row("deleteUser -b {broker} -u alice", ("delete user to {broker} success",)),
    Row("getColdDataFlowCtrInfo -b {broker}", ("coldDataFlowControlEnable", "false")),
    Row("haStatus -b {broker}", ("#MasterCommitLogMaxOffset", "#SlaveNum\t0")),
    Row("updateColdDataFlowCtrGroupConfig -b {broker} -g cg_Tools -v 1", ("CODE: 3", "cold reads"), refused=True),
    Row("removeColdDataFlowCtrGroupConfig -b {broker} -g cg_Tools", ("CODE: 3", "cold reads"), refused=True),
    Row("setCommitLogReadAheadMode -b {broker} -m 0", ("CODE: 3", "cold reads"), refused=True),
    Row("switchTimerEngine -b {broker} -e F", ("CODE: 3", "one timer engine"), refused=True),
    Row("exportPopRecord -b {broker}", ("CODE: 3", "leases are kept in the log"), refused=True),
    Row("addBroker -c {broker} -b x", ("CODE: 3", "a node is one broker"), refused=True),
    Row("removeBroker -c {broker} -b DefaultCluster:broker-a:0", ("CODE: 3", "a node is one broker"), refused=True),
    Row("resetMasterFlushOffset -b {broker} -o 1", ("CODE: 3", "no replicas"), refused=True),
    Row("cleanBrokerMetadata -a {broker} -bn broker-a -c DefaultCluster", ("CODE: 3", "no controller"), refused=True),
    Row("electMaster -a {broker} -b 0 -bn broker-a -c DefaultCluster", ("CODE: 3", "no controller"), refused=True),
    Row("getSyncStateSet -a {broker} -b broker-a", ("CODE: 3", "no controller"), refused=True),
    Row("getControllerConfig -a {broker}", ("CODE: 3", "no controller"), refused=True),
    Row("updateControllerConfig -a {broker} -k a -v b", ("CODE: 3", "no controller"), refused=True),
    Row("updateStaticTopic -t Static -b broker-a -qn 4", ("CODE: 3", "static topics are not served"), refused=True),
    Row("remappingStaticTopic -t Tools -b broker-a", ("Mapping info should not be null",), refused=True),
    Row("rocksDBConfigToJson -t topics -n {nameserver} -c DefaultCluster", ("not RocksDB",), refused=True),
    Row("exportMetadataInRocksDB -p {folder}/none -t topics", ("RocksDB path is invalid",)),
    Row("dumpCompactionLog -f {folder}/none", ("not exist",), refused=True),
    Row("getParentTopicInfo -p Tools", ("Parent Topic Info: [Tools]",), refused=True),
    Row("getLiteTopicInfo -p Tools -l x", ("Lite Topic Info: [Tools]",), refused=True),
    Row("getLiteGroupInfo -p Tools -g cg_Tools -l x", ("Lite Group Info: [cg_Tools]",), refused=True),
    Row("getLiteClientInfo -p Tools -g cg_Tools -c {client}", ("Lite Client Info: [Tools]",), refused=True),
    Row("triggerLiteDispatch -p Tools -g cg_Tools", ("Group And Topic Info: [cg_Tools]",), refused=True),
    Row("getBrokerEpoch -b broker-a", ("CODE: 3", "no replicas"), refused=True),
    Row("getControllerMetaData -a {broker}", ("CODE: 3", "no controller"), refused=True),
    Row("getBrokerLiteInfo -b {broker}", ("#Broker", "headgate")),
    Row("checkRocksdbCqWriteProgress -c DefaultCluster -n {nameserver} -t Tools", ("not RocksDB",), refused=True),
    Row("clusterRT -a 3 -s 8 -c DefaultCluster -i 1", ("#Cluster Name", "DefaultCluster", "broker-a"), refused=True),
    Row("startMonitoring", ()),
)


@pytest.fixture(scope="module")
def output(java: JavaClient, node: Node, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The output of every command of the table."""
    folder = tmp_path_factory.mktemp("commands")
    file = folder / "commands"
    (folder / "topics.json").write_text('[{"topicName":"Listed","readQueueNums":2,"writeQueueNums":2,"perm":6}]')
    (folder / "groups.json").write_text('[{"groupName":"cg_listed","retryMaxTimes":3}]')
    nameserver = f"127.0.0.1:{node.port('nameserver')}"
    lines = []
    for row in TABLE:
        words = filled(row.command, node).replace("{folder}", str(folder)).split(" ")
        lines.append("\t".join([*words, "-n", nameserver] if "-n" not in words else words))
    file.write_text("\n".join(lines) + "\n")
    done = java.run("Tools", "commands", nameserver, TOPIC, str(file), seconds=COMMANDS_S)
    assert "OK commands" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]
    parts = done.stdout.split("=== ")[1:]
    assert len(parts) == len(TABLE) + 1, done.stdout[-4000:]
    return [part.partition("\n")[2] for part in parts]


def filled(text: str, node: Node) -> str:
    """`text` with the node's addresses. The clients replace the other placeholders."""
    text = text.replace("{broker}", f"127.0.0.1:{node.port('remoting')}")
    return text.replace("{nameserver}", f"127.0.0.1:{node.port('nameserver')}")


def test_the_table_has_every_command_of_mqadmin(output: list[str]) -> None:
    registered = {line.split()[0] for line in output[0].splitlines() if line.startswith("   ")}
    assert len(registered) > 90
    assert registered - {row.command.split(" ")[0] for row in TABLE} == set()


@pytest.mark.parametrize("number", range(len(TABLE)), ids=[row.command.replace(" ", "_")[:60] for row in TABLE])
def test_a_command_tells_the_facts(output: list[str], node: Node, number: int) -> None:
    row, text = TABLE[number], output[number]
    for wanted in row.wanted:
        if wanted != "{client}":
            assert filled(wanted, node) in text, text[:4000]
    if not row.refused:
        assert "Exception:" not in text, text[:4000]
        assert "\tat " not in text, text[:4000]


@pytest.fixture(scope="module")
def modes(java: JavaClient, node: Node, output: list[str]) -> dict[str, str]:
    """The results of the scenarios with clients that answer inquiries, run at the same time."""
    return java.scenes("clients", *addresses(node), *MODES)


@pytest.mark.parametrize("mode", MODES)
def test_clients_that_are_asked(modes: dict[str, str], mode: str) -> None:
    assert modes[mode].startswith("OK "), modes[mode]
