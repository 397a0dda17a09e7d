"""Connections, progress and rates for tools (ConsumerConnection, ConsumeStats, BrokerStatsData)."""

from __future__ import annotations

import json

import pytest

from domain.address import TEMPLATE_TOPIC
from domain.admin.broker import ChangeNodePolicy, FlowRate, QueryRates, Rates
from domain.admin.client import ClientSeen, Connections, Producers, QueryConnections, QueryProducers
from domain.admin.group import ConsumedTopics, QueryConsumedTopics
from domain.admin.message import Peek, Peeked
from domain.admin.position import Backlog, QueryBacklog, QueryTimeSpans, QueueTimeSpan, TimeSpans
from domain.admin.topic import ListTopics, TopicList
from domain.client.membership import Subscription
from domain.command import Pull
from domain.event import Pulled
from domain.message.message import Message
from domain.message.record import encode as encode_record
from domain.nameserver.route import BrokerAddresses, ClusterFound, QueryCluster
from domain.topic.topic import Topic
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.dispatch import READERS, REASONS
from tests.protocols.remoting.frames import BORN_HOST, exchanged, fields, one, refused_reply, request

SEEN = ClientSeen("c", "10.0.0.9:1", "JAVA", 479, 17)
CONNECTION = {"clientAddr": "10.0.0.9:1", "clientId": "c", "language": "JAVA", "version": 479}
MQ = '{"brokerName":"b-a","queueId":0,"topic":"T"}'


def test_consumer_connections() -> None:
    event = Connections(None, [SEEN], "CONSUME_POP", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", [Subscription("T", "A || B")])
    found = json.loads(exchanged(203, {"consumerGroup": "g"}, QueryConnections, event).body)
    assert found["connectionSet"] == [CONNECTION]
    assert (found["consumeType"], found["messageModel"]) == ("CONSUME_POP", "CLUSTERING")
    assert found["subscriptionTable"]["T"]["tagsSet"] == ["A", "B"]
    assert found["subscriptionTable"]["T"]["codeSet"] == [65, 66]
    found = json.loads(exchanged(345, {"group": "g", "topic": "T"}, QueryConnections, event).body)
    assert (found["group"], found["subscriptionData"]["subString"]) == ("g", "A || B")


def test_producer_connections() -> None:
    event = Producers(None, {"pg": [SEEN]})
    assert json.loads(exchanged(204, {"producerGroup": "pg"}, QueryProducers, event).body) == {"connectionSet": [CONNECTION]}
    found = json.loads(exchanged(328, {}, QueryProducers, event).body)
    wanted = {"clientId": "c", "language": "JAVA", "lastUpdateTimestamp": 17, "remoteIP": "10.0.0.9:1", "version": 479}
    assert found == {"data": {"pg": [wanted]}}


def test_topics_of_a_group_and_its_times() -> None:
    assert exchanged(343, {"group": "g"}, QueryConsumedTopics, ConsumedTopics(None, ["T"])).body == b'{"topicList":["T"]}'
    now = 1_700_000_000_000
    event = TimeSpans(None, [QueueTimeSpan(0, 1, 9, 5, now - 250), QueueTimeSpan(1)])
    first, empty = json.loads(exchanged(303, {"group": "g", "topic": "T"}, QueryTimeSpans, event).body)["consumeTimeSpanSet"]
    assert (first["minTimeStamp"], first["maxTimeStamp"], first["consumeTimeStamp"], first["delayTime"]) == (1, 9, 5, 250)
    assert (empty["minTimeStamp"], empty["consumeTimeStamp"], empty["delayTime"]) == (-1, -1, 0)


def test_rates_and_backlogs() -> None:
    event = Rates(None, FlowRate(6, 0.1, 2.0), FlowRate(), FlowRate(9))
    found = json.loads(exchanged(315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}, QueryRates, event).body)
    assert found["statsMinute"] == {"avgpt": 2.0, "sum": 6, "tps": 0.1}
    assert found["statsDay"]["sum"] == 9
    body = exchanged(317, {"isOrder": "false"}, QueryBacklog, Backlog(None, {"g": [("T", 0, 9, 5)]}, {"g": {("T", 0): 7}})).body
    row = b'{"brokerOffset":9,"consumerOffset":5,"lastTimestamp":7,"pullOffset":5}'
    stats = b'{"consumeTps":0.0,"offsetTable":{' + MQ.encode() + b":" + row + b"}}"
    wanted = b'{"brokerAddr":"10.0.0.1:10911","consumeStatsList":[{"g":[' + stats + b']}],"totalDiff":4,"totalInflightDiff":0}'
    assert body == wanted
    known = Backlog(None, {"g": [("T", 0, 9, 5)]}, given={"g": {("T", 0): 8}})
    found = json.loads(exchanged(317, {"isOrder": "false"}, QueryBacklog, known).body.replace(MQ.encode(), b'"queue"'))
    assert found["totalInflightDiff"] == 3
    assert found["consumeStatsList"][0]["g"][0]["offsetTable"]["queue"]["pullOffset"] == 8


def test_rows_of_a_queue() -> None:
    record = encode_record(Message("T", b"b", b"TAGS\x01A\x02", queue_id=0), 3, 77, 5, BORN_HOST)
    ext = {"topic": "T", "queueId": "0", "index": "3", "count": "1", "consumerGroup": ""}
    found = json.loads(exchanged(321, ext, Pull, Pulled(None, "FOUND", [record], 4, 0, 4)).body)
    assert found["queueData"] == [{"eval": True, "physicOffset": 77, "physicSize": len(record), "tagsCode": 65}]
    assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 4)
    assert refused_reply(321, {**ext, "count": "257"}).code == 29


def test_peeking() -> None:
    record = encode_record(Message("T", b"b", b"HG_CLIENT\x01x\x02", queue_id=0), 3, 77, 5, BORN_HOST)
    ext = {"topic": "T", "queueId": "-1", "maxMsgNums": "2", "consumerGroup": "g"}
    frame = exchanged(200052, ext, Peek, Peeked(None, [record], 4))
    assert b"HG_" not in frame.body
    assert fields(frame)["restNum"] == "4"
    assert exchanged(200052, ext, Peek, Peeked(None, [], 0)).code == 19
    assert refused_reply(200052, {**ext, "maxMsgNums": "33"}).code == 29


def test_changing_what_may_be_changed(conn: RemotingConnection) -> None:
    command = one(
        conn, request(25, body=b"# comment\ndefaultTopicQueueNums = 4\nautoCreateTopicEnable:false\n"), ChangeNodePolicy
    )
    assert command.changes == {"queues": "4", "create_topics": "false"}
    for body, code in ((b"flushDiskType=SYNC_FLUSH", 16), (b"", 29), (b"#" * 70_000, 29)):
        assert refused_reply(25, body=body).code == code


@pytest.mark.parametrize(("code", "wanted"), [(311, ["U", "B"]), (312, ["S", "B"]), (313, ["S"])])
def test_unit_topics_by_their_flags(code: int, wanted: list[str]) -> None:
    topics = [Topic(TEMPLATE_TOPIC), Topic("U", sys_flag=1), Topic("S", sys_flag=2), Topic("B", sys_flag=3)]
    assert json.loads(exchanged(code, {}, ListTopics, TopicList(None, topics)).body) == {"topicList": wanted}


def test_members_of_a_broker_group() -> None:
    event = ClusterFound(None, [BrokerAddresses("c1", "b-a", {0: ""}), BrokerAddresses("c1", "b-x", {0: "h:1", 1: "h:2"})])
    found = json.loads(exchanged(901, {"clusterName": "c1", "brokerName": "b-x"}, QueryCluster, event).body)
    assert found["brokerMemberGroup"]["brokerAddrs"] == {"0": "h:1", "1": "h:2"}
    assert exchanged(901, {"clusterName": "c1", "brokerName": "none"}, QueryCluster, event).body == b"{}"


@pytest.mark.parametrize("code", [306, 316, 329])
def test_cleaning_succeeds_at_once(code: int) -> None:
    frame = refused_reply(code)
    assert frame.code == 0
    assert "nothing to do" in frame.remark


@pytest.mark.parametrize("code", sorted(REASONS))
def test_codes_that_are_not_served_are_answered_with_a_reason(code: int) -> None:
    assert code not in READERS
    frame = refused_reply(code)
    assert frame.code == 3
    assert REASONS[code] in frame.remark
