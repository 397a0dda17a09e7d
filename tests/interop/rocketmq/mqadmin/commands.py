"""The commands of mqadmin 5.5.0 for a cluster of two brokers, in blocks: each is run at one side and then at the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ALL_NUMBERS: Final = (r"\d+",)
"""Of a broker's counters, which are others a moment later."""

COUNTERS: Final = (r"(?m)^.*remainHowManyDataToFlush.*$", r"\d+")
LOG_OFFSET: Final = (r"CommitLog Offset: \d+", r"[pP]hysicO?f?f?s?e?t?=\d+", r"commitLogOffset=\d+", r"storeSize=\d+")
STACKS: Final = (r"(?s).*",)
STORED: Final = (("<own address of broker-a>", "{broker-a}"), ("<own address of broker-b>", "{broker-b}"))
"""Messages that are pulled have the address that their broker has stored with them."""
OWN_NAMESERVER: Final = ("<own address of nameserver>", "{nameserver}")
"""A broker tells the address at which it has its name servers."""


@dataclass(frozen=True)
class Row:
    """One command with what it must say at both sides.

    command   its words, with placeholders of `Side`; `{folder}` is a folder of this side
    wanted    texts that must be there, with placeholders
    refused   there is an exception: of servers that do not do it, or of a command that goes on until it is interrupted
    masks     regular expressions of what differs between two runs, besides what `Side.neutral` knows
    differs   (text through the gateway, text straight): how the gateway differs, which the documentation says
    patient   it is given again until `wanted` is there: the servers learn of it a little later
    words     only the words are compared, and not their order in a line
    """

    command: str
    wanted: tuple[str, ...] = ()
    refused: bool = False
    masks: tuple[str, ...] = ()
    differs: tuple[tuple[str, str], ...] = ()
    patient: bool = False
    words: bool = False


BLOCKS: Final[dict[str, tuple[Row, ...]]] = {
    "cluster": (
        Row("clusterList", ("{broker-a}", "{broker-b}", "V5_5_0"), masks=ALL_NUMBERS),
        Row("clusterList -m", ("broker-b",), masks=ALL_NUMBERS),
        Row("brokerStatus -b {broker-a}", ("putTps", "msgPutTotalTodayNow"), masks=COUNTERS),
        Row("brokerStatus -c DefaultCluster", ("{broker-a}", "{broker-b}"), masks=COUNTERS),
        Row("haStatus -b {broker-a}", ("#MasterCommitLogMaxOffset",)),
        Row("haStatus -c DefaultCluster", ("#MasterCommitLogMaxOffset",)),
        Row("getBrokerConfig -b {broker-a}", ("brokerName", "=  broker-a"), differs=(OWN_NAMESERVER,)),
        Row("getBrokerConfig -c DefaultCluster", ("{broker-a}", "{broker-b}"), differs=(OWN_NAMESERVER,)),
        Row("getNamesrvConfig", ("listenPort",)),
        Row("getColdDataFlowCtrInfo -b {broker-a}"),
        Row("getColdDataFlowCtrInfo -c DefaultCluster"),
        Row("getBrokerEpoch -b broker-a", refused=True),
        Row("getBrokerLiteInfo -b {broker-a}"),
    ),
    "topics": (
        Row("updateTopic -c DefaultCluster -t Made_{side} -r 2 -w 2 -a +message.type=FIFO", ("success",)),
        Row("updateTopic -b {broker-a} -t One_{side} -r 3 -w 3", ("create topic to {broker-a} success",)),
        Row("topicRoute -t Made_{side}", ("{broker-a}", "{broker-b}"), patient=True),
        Row("topicRoute -t Made_{side} -l", ("broker-a",), patient=True),
        Row("topicRoute -t One_{side}", ("{broker-a}",), patient=True),
        Row("topicClusterList -t Made_{side}", ("DefaultCluster",)),
        Row("topicList", ("Made_{side}",)),
        Row("topicList -c", ("Made_{side}", "DefaultCluster")),
        Row("topicStatus -t Made_{side}", ("broker-a", "broker-b")),
        Row("allocateMQ -t Made_{side} -i a", ('"result"', "broker-a", "broker-b"), words=True),
        Row("updateTopicPerm -c DefaultCluster -t Made_{side} -p 4", ("update topic perm from 6 to 4", "success")),
        Row("updateTopicPerm -b {broker-a} -t Made_{side} -p 2", ("update topic perm from 4 to 2", "success")),
        Row("updateTopicList -b {broker-a} -f {folder}/topics.json", ("success",)),
        Row("updateTopicList -c DefaultCluster -f {folder}/topics.json", ("success",)),
        Row("topicRoute -t Listed_{side}", ("{broker-b}",), patient=True),
        Row("updateOrderConf -t Made_{side} -m put -v broker-a:4", ("update orderConf success",)),
        Row("updateOrderConf -t Made_{side} -m get", ("orderConf=[broker-a:4]",)),
        Row("updateOrderConf -t Made_{side} -m delete", ("delete orderConf success",)),
        Row(
            "deleteTopic -c DefaultCluster -t Made_{side}",
            ("delete topic [Made_{side}] from cluster [DefaultCluster] success",),
        ),
        Row("topicRoute -t Made_{side}", ("CODE: 17",), refused=True, patient=True),
        Row("deleteTopic -c DefaultCluster -t One_{side}", ("success",)),
        Row("cleanUnusedTopic -b {broker-a}", ("success",)),
        Row("cleanUnusedTopic -c DefaultCluster", ("success",)),
    ),
    "static topics": (
        Row("updateStaticTopic -t Static_{side} -b broker-a -qn 4", (".after",)),
        Row("topicRoute -t Static_{side}", ("broker-a",), patient=True),
        Row("remappingStaticTopic -t Static_{side} -b broker-b", (".after",)),
        Row("topicStatus -t Static_{side}", ("__syslo__global__", "broker-b")),
        Row("deleteTopic -c DefaultCluster -t Static_{side}", ("success",)),
    ),
    "messages": (
        Row("topicStatus -t Tools_{side}", ("broker-a", "broker-b")),
        Row(
            "queryMsgById -i {offset-id} -t Tools_{side}",
            ("Tools_{side}", "TagA"),
            masks=LOG_OFFSET,
            differs=(*STORED[1:], ("NOT_CONSUME_YET", "CONSUMED")),
        ),
        Row(
            "queryMsgById -i {offset-id} -t Tools_{side} -g cg_Tools_{side} -d {client}", ("CR_SUCCESS",), masks=(r"Mills=\d+",)
        ),
        Row("queryMsgByUniqueKey -i {unique-id} -t Tools_{side}", ("Tools_{side}", "{broker-b}", "CONSUMED"), masks=LOG_OFFSET),
        Row(
            "queryMsgByUniqueKey -i {unique-id} -t Tools_{side} -g cg_Tools_{side} -d {client}",
            ("CR_SUCCESS",),
            masks=(r"Mills=\d+",),
        ),
        Row("queryMsgByKey -t Tools_{side} -k key7", ("#Message ID",), masks=(r"@\d+",)),
        Row(
            "queryMsgByOffset -t Tools_{side} -b broker-a -i 0 -o 0",
            ("Tools_{side}", "{broker-a}", "=CONSUMED"),
            masks=LOG_OFFSET,
        ),
        Row("queryMsgTraceById -i {unique-id}", refused=True),
        Row("queryCq -t Tools_{side} -q 0 -i 0 -c 3 -b {broker-a}", ("max: 2, min: 0",), masks=LOG_OFFSET),
        Row("printMsg -t Tools_{side} -d true", ("m7",), masks=LOG_OFFSET, differs=STORED),
        Row(
            "printMsgByQueue -t Tools_{side} -a broker-b -i 1 -p true -d true",
            ("m5", "m13"),
            masks=LOG_OFFSET,
            differs=STORED[1:],
        ),
        Row("consumeMessage -t Tools_{side} -c 100 -g cg_looker_{side}", ("queueId=3",), masks=LOG_OFFSET, differs=STORED),
        Row(
            "consumeMessage -t Tools_{side} -b broker-b -i 1 -o 0 -c 2 -g cg_looker_{side}",
            ("MSGID",),
            masks=LOG_OFFSET,
            differs=STORED[1:],
        ),
        Row("sendMessage -t Tools_{side} -p hello -b broker-b -i 3", ("SEND_OK", "broker-b")),
        Row("updateTopic -c DefaultCluster -t Sent_{side} -r 1 -w 1", ("success",)),
        Row("sendMessage -t Sent_{side} -p hello", ("SEND_OK",), masks=(r"broker-[ab]",)),
        Row("checkMsgSendRT -t Tools_{side} -a 3 -s 8", ("broker-a", "true", "Avg RT"), masks=ALL_NUMBERS),
        Row("sendMsgStatus -b broker-a -s 10 -c 2", ("rt=", "SEND_OK"), masks=ALL_NUMBERS),
        Row(
            "clusterRT -a 3 -s 8 -c DefaultCluster -i 1",
            ("DefaultCluster", "broker-a", "broker-b"),
            refused=True,
            masks=(r"(?m)^DefaultCluster .*\n?", r"(?s)Caused by.*"),
        ),
        Row("dumpCompactionLog -f {folder}/none", ("not exist",), refused=True),
    ),
    "clients": (
        Row("consumerConnection -g cg_Tools_{side}", ("{client}", "CONSUME_PASSIVELY", "CLUSTERING", "Tools_{side}")),
        Row("consumerConnection -g cg_Tools_{side} -b {broker-b}", ("{client}",)),
        Row("producerConnection -g pg_Tools_{side} -t Tools_{side}", ("0001  ", "JAVA     V5_5_0")),
        Row("producer -b {broker-a}", ("pg_Tools_{side}", "language=JAVA")),
        Row("consumerStatus -g cg_Tools_{side}", ("{client}", "Rebalance OK")),
        Row("consumerStatus -g cg_Tools_{side} -i {client}", ("#Consumer MQ Detail#", "Tools_{side}", "#Consumer RT&TPS#")),
        Row("consumerStatus -g cg_Tools_{side} -i {client} -s", ("ConsumeMessageThread",), masks=STACKS),
        Row("consumerProgress -g cg_Tools_{side}", ("Tools_{side}", "Consume TPS", "Consume Diff Total:")),
        Row("consumerProgress -g cg_Tools_{side} -s true", ("broker-a",)),
        Row("consumerProgress", ("cg_Tools_{side}", "PUSH", "CLUSTERING"), masks=(r"(?m)^(TOOLS_CONSUMER|cg_looker).*$",)),
        Row("statsAll -t Tools_{side}", ("Tools_{side}", "cg_Tools_{side}"), masks=ALL_NUMBERS),
        Row("statsAll -a", ("#Topic",), masks=ALL_NUMBERS),
        Row("brokerConsumeStats -b {broker-a}", ("cg_Tools_{side}", "Diff Total:")),
    ),
    "storage": (
        Row("cleanExpiredCQ -b {broker-a}", ("success",)),
        Row("cleanExpiredCQ -c DefaultCluster", ("success",)),
        Row("deleteExpiredCommitLog -b {broker-a}", ("success",)),
        Row("deleteExpiredCommitLog -c DefaultCluster", ("success",)),
        Row("setCommitLogReadAheadMode -b {broker-a} -m 0"),
        Row("setCommitLogReadAheadMode -c DefaultCluster -m 0"),
        Row("resetMasterFlushOffset -b {broker-a} -o 1"),
        Row("switchTimerEngine -b {broker-a} -e F"),
        Row("switchTimerEngine -c DefaultCluster -e F"),
        Row("addBroker -c {broker-a} -b x", ("CODE: 3",), refused=True),
        Row("removeBroker -c {broker-a} -b DefaultCluster:broker-a:0", ("CODE: 3",), refused=True),
        Row("exportPopRecord -b {broker-a} -d true"),
        Row("exportPopRecord -c DefaultCluster -d true"),
        Row("exportConfigs -c DefaultCluster -f {folder}/configs", ("configs.json success",)),
        Row("exportMetadata -c DefaultCluster -f {folder}/metadata", ("metadata.json success",)),
        Row("exportMetrics -c DefaultCluster -f {folder}/metrics", ("metrics.json success",), masks=ALL_NUMBERS),
        Row("rocksDBConfigToJson -t topics -n {nameserver} -c DefaultCluster", ("broker export done",)),
        Row("exportMetadataInRocksDB -p {folder}/none -t topics", ("RocksDB path is invalid",)),
        Row("checkRocksdbCqWriteProgress -c DefaultCluster -n {nameserver} -t Tools_{side}", ("check doing",)),
    ),
    "groups": (
        Row("updateSubGroup -c DefaultCluster -g cg_clone_{side}", ("success",)),
        Row("updateSubGroup -b {broker-a} -g cg_one_{side} -r 3", ("success",)),
        Row("updateSubGroupList -b {broker-a} -f {folder}/groups.json", ("success",)),
        Row("updateSubGroupList -c DefaultCluster -f {folder}/groups.json", ("success",)),
        Row("getConsumerConfig -g cg_clone_{side}", ("cg_clone_{side}", "retryMaxTimes")),
        Row("getConsumerConfig -g cg_listed_{side}", ("broker-a", "broker-b")),
        Row("cloneGroupOffset -s cg_Tools_{side} -d cg_clone_{side} -t Tools_{side}", ("clone group offset success",)),
        Row("resetOffsetByTime -g cg_clone_{side} -t Tools_{side} -s 0 -f true", ("topic[Tools_{side}]",)),
        Row(
            "resetOffsetByTime -g cg_clone_{side} -t Tools_{side} -s -1 -q 0 -o 1 -b {broker-a}",
            ("reset consumer offset to 1",),
        ),
        Row("resetOffsetByTime -g cg_Tools_{side} -t Tools_{side} -s 0 -f true", ("topic[Tools_{side}]",)),
        Row("skipAccumulatedMessage -g cg_clone_{side} -t Tools_{side} -f true", ("broker-b",)),
        Row("setConsumeMode -b {broker-a} -t Tools_{side} -g cg_clone_{side} -m POP -q 0", ("success",)),
        Row("setConsumeMode -c DefaultCluster -t Tools_{side} -g cg_clone_{side} -m PULL -q 0", ("success",)),
        Row("updateColdDataFlowCtrGroupConfig -b {broker-a} -g cg_clone_{side} -v 1", ("success",)),
        Row("removeColdDataFlowCtrGroupConfig -c DefaultCluster -g cg_clone_{side}", ("success",)),
        Row("deleteSubGroup -c DefaultCluster -g cg_clone_{side} -r true", ("success",)),
        Row("deleteSubGroup -b {broker-a} -g cg_one_{side}", ("success",)),
    ),
    "permissions": (
        Row("updateBrokerConfig -b {broker-a} -k defaultTopicQueueNums -v 6", ("update broker config success",)),
        Row("getBrokerConfig -b {broker-a}", ("=  6",), differs=(OWN_NAMESERVER,)),
        Row("updateBrokerConfig -c DefaultCluster -k defaultTopicQueueNums -v 8", ("update broker config success",)),
        Row("updateBrokerConfig -b {broker-a} -k brokerPermission -v 4", ("update broker config success",)),
        Row("topicRoute -t Tools_{side}", ('"perm":4',), patient=True),
        Row("updateBrokerConfig -b {broker-a} -k brokerPermission -v 6", ("update broker config success",)),
        Row("topicRoute -t Tools_{side}", ('"perm":6',), patient=True),
        Row("wipeWritePerm -b broker-a", ("wipe write perm of broker[broker-a]",)),
        Row("topicRoute -t Tools_{side}", ('"perm":4',)),
        Row("addWritePerm -b broker-a", ("add write perm of broker[broker-a]",)),
        Row("topicRoute -t Tools_{side}", ('"perm":6',)),
        Row("updateKvConfig -s names -k one_{side} -v 1", ("create or update kv config to namespace success",)),
        Row("deleteKvConfig -s names -k one_{side}", ("delete kv config from namespace success",)),
        Row("updateNamesrvConfig -k orderMessageEnable -v true", ("update name server config success",)),
        Row("getNamesrvConfig", ("orderMessageEnable", "=  true")),
        Row("updateNamesrvConfig -k orderMessageEnable -v false", ("update name server config success",)),
        Row("getNamesrvConfig", ("orderMessageEnable", "=  false")),
    ),
    "users": (
        Row("createUser -b {broker-a} -u u_{side} -p wonderland -t Normal", ("create user to {broker-a} success",)),
        Row("createUser -c DefaultCluster -u v_{side} -p wonderland -t Super", ("success",)),
        Row("updateUser -b {broker-a} -u u_{side} -s disable", ("update user to {broker-a} success",)),
        Row("updateUser -c DefaultCluster -u v_{side} -p other", ("success",)),
        Row("getUser -b {broker-a} -u u_{side}", ("u_{side}", "Normal", "disable")),
        Row("getUser -c DefaultCluster -u v_{side}", ("v_{side}", "Super", "enable")),
        Row("listUser -b {broker-a} -f u_{side}", ("u_{side}", "Normal", "disable")),
        Row("listUser -c DefaultCluster -f v_{side}", ("v_{side}", "Super", "enable"), masks=(r"broker-[ab]",)),
        Row(
            "copyUser -f {broker-a} -t {broker-b} -u u_{side}", ("copy user of u_{side} from {broker-a} to {broker-b} success",)
        ),
        Row("getUser -b {broker-b} -u u_{side}", ("u_{side}", "Normal")),
        Row(
            "createAcl -b {broker-a} -s User:u_{side} -r Topic:a,Group:b -a Pub,Sub -d Allow",
            ("create acl to {broker-a} success",),
        ),
        Row("createAcl -c DefaultCluster -s User:v_{side} -r Topic:a -a Pub -d Allow", ("success",)),
        Row(
            "updateAcl -b {broker-a} -s User:u_{side} -r Topic:a -a Sub -d Deny -i 10.0.0.1",
            ("update acl to {broker-a} success",),
        ),
        Row("getAcl -b {broker-a} -s User:u_{side}", ("User:u_{side}", "Topic:a", "Deny", "10.0.0.1", "Group:b", "Allow")),
        Row("getAcl -c DefaultCluster -s User:v_{side}", ("User:v_{side}", "Topic:a")),
        Row("listAcl -b {broker-a} -s u_{side} -r Group:b", ("User:u_{side}", "Group:b", "Allow")),
        Row("listAcl -c DefaultCluster -s v_{side}", ("User:v_{side}",)),
        Row(
            "copyAcl -f {broker-a} -t {broker-b} -s User:u_{side}",
            ("copy acl of User:u_{side} from {broker-a} to {broker-b} success",),
        ),
        Row("deleteAcl -b {broker-a} -s User:u_{side} -r Topic:a", ("delete acl to {broker-a} success",)),
        Row("deleteAcl -c DefaultCluster -s User:v_{side}", ("success",)),
        Row("deleteUser -b {broker-a} -u u_{side}", ("delete user to {broker-a} success",)),
        Row("deleteUser -c DefaultCluster -u u_{side}", ("success",)),
        Row("deleteUser -c DefaultCluster -u v_{side}", ("success",)),
    ),
    "lite": (
        Row("updateTopic -c DefaultCluster -t Lite_{side} -r 1 -w 1 -a +message.type=LITE", ("success",)),
        Row("getParentTopicInfo -p Lite_{side}", ("Parent Topic Info: [Lite_{side}]",)),
        Row("getLiteTopicInfo -p Lite_{side} -l x", ("Lite Topic Info: [Lite_{side}]",)),
        Row("getLiteGroupInfo -p Lite_{side} -g cg_Tools_{side} -l x", ("Lite Group Info: [cg_Tools_{side}]",)),
        Row("getLiteClientInfo -p Lite_{side} -g cg_Tools_{side} -c {client}", ("Lite Client Info: [Lite_{side}]",)),
        Row("triggerLiteDispatch -p Lite_{side} -g cg_Tools_{side}", ("Group And Topic Info: [cg_Tools_{side}]",)),
    ),
    "last": (Row("startMonitoring"),),
}
ELSEWHERE: Final = (
    "cleanBrokerMetadata", "electMaster", "getControllerConfig", "getControllerMetaData",
    "getSyncStateSet", "updateControllerConfig",
)  # fmt: skip
"""Commands that ask a controller, by its own address."""
