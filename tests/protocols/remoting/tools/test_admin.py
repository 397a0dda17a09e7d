"""Requests of tools: CreateTopicRequestHeader, TopicConfig, SubscriptionGroupConfig, TopicStatsTable, KVTable."""

from __future__ import annotations

import json

import pytest

from domain.admin.broker import NodeCounters, NodePolicyFound, QueryNodeCounters, QueryNodePolicy
from domain.admin.group import DeleteGroup, GroupFound, GroupList, ListGroups, PutGroup, QueryGroup, Readable, SetReadable
from domain.admin.position import Progress, QueryProgress
from domain.admin.topic import (
    ChangeTopic,
    DeleteTopic,
    ListTopics,
    QueryTopic,
    QueryTopicState,
    TopicChange,
    TopicFound,
    TopicList,
    TopicState,
)
from domain.delivery.retry import RetryPolicy
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.topic.topic import Durability, Group, Topic
from gateway.apache.topics.broker_capabilities import ALWAYS, IN_SYNC, NEVER, BrokerCapabilities
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.tools.node import properties
from tests.protocols.remoting.frames import connection, exchanged, fields, one, refused_reply, reply, request

CREATE = {
    "topic": "T", "defaultTopic": "TBW102", "readQueueNums": "8", "writeQueueNums": "4", "perm": "6",
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": "+message.type=FIFO,-old",
}  # fmt: skip
TOPIC = Topic("T", 8, 4, type="FIFO", durability=Durability.PAGE, attributes={"k": "v"})
TOPIC_CONFIG = {
    "attributes": {"k": "v", "message.type": "FIFO", "durability": "page"}, "order": False, "perm": 6, "readQueueNums": 8,
    "topicFilterType": "SINGLE_TAG", "topicName": "T", "topicSysFlag": 0, "writeQueueNums": 4,
}  # fmt: skip


def test_creating_a_topic_with_attributes(conn: RemotingConnection) -> None:
    command = one(conn, request(17, CREATE), ChangeTopic)
    assert command.change == TopicChange("T", 8, 4, 6, False, 0, {"message.type": "FIFO"}, ["old"])
    conn.answer(Done(command.ticket), 1)
    assert reply(conn).code == 0


@pytest.mark.parametrize("text", ["message.type=FIFO", "+x", "-x=y", "+=y", "*"])
def test_attributes_that_are_neither_set_nor_dropped_are_refused(text: str) -> None:
    assert refused_reply(17, {**CREATE, "attributes": text}).code == 29


def test_a_list_of_topics_answers_the_first_refusal(conn: RemotingConnection) -> None:
    body = json.dumps({"topicConfigList": [{"topicName": "A", "attributes": {"+k": "v"}}, {"topicName": "../B"}]}).encode()
    first, second = conn.receive(request(18, body=body), 1)
    assert isinstance(first, ChangeTopic)
    assert isinstance(second, ChangeTopic)
    assert first.change.attributes == {"k": "v"}
    conn.answer(Refused(second.ticket, Failure(ErrorCode.TOPIC_ILLEGAL, "../B is no name")), 1)
    conn.answer(Done(first.ticket), 1)
    frame = reply(conn)
    assert (frame.code, frame.remark) == (29, "../B is no name")


def test_an_empty_list_is_refused() -> None:
    assert refused_reply(18, body=b"{}").code == 29


def test_topics_one_and_all(conn: RemotingConnection) -> None:
    assert json.loads(exchanged(351, {"topic": "T"}, QueryTopic, TopicFound(None, TOPIC)).body) == TOPIC_CONFIG
    listed = one(conn, request(21), ListTopics)
    conn.answer(TopicList(listed.ticket, [TOPIC]), 1)
    frame = reply(conn)
    assert fields(frame) == {"totalTopicNum": "1"}
    assert json.loads(frame.body)["topicConfigTable"] == {"T": TOPIC_CONFIG}


def test_deleting_topics_and_groups() -> None:
    topic = one(connection(), request(215, {"topic": "T"}))
    assert topic == DeleteTopic(topic.ticket, "T")
    group = one(connection(), request(207, {"groupName": "g", "cleanOffset": "true"}))
    assert group == DeleteGroup(group.ticket, "g")


def test_statistics_are_keyed_by_raw_queues(conn: RemotingConnection) -> None:
    command = one(conn, request(202, {"topic": "T"}), QueryTopicState)
    assert command.topic == "T"
    conn.answer(TopicState(command.ticket, [(0, 1, 5, 17), (1, 0, 0, -1)], 0.5), 1)
    assert reply(conn).body == (
        b'{"offsetTable":{{"brokerName":"b-a","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":17,"maxOffset":5,"minOffset":1},'
        b'{"brokerName":"b-a","queueId":1,"topic":"T"}:{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}},"topicPutTps":0.5}'
    )


def test_the_progress_of_a_group(conn: RemotingConnection) -> None:
    command = one(conn, request(208, {"consumerGroup": "g"}), QueryProgress)
    assert (command.group, command.topic) == ("g", "")
    conn.answer(Progress(command.ticket, [("T", 1, 9, 5), ("T", 2, 9, 5)], given={("T", 2): 8}), 1)
    assert reply(conn).body == (
        b'{"consumeTps":0.0,"offsetTable":{{"brokerName":"b-a","queueId":1,"topic":"T"}:'
        b'{"brokerOffset":9,"consumerOffset":5,"lastTimestamp":0,"pullOffset":5},'
        b'{"brokerName":"b-a","queueId":2,"topic":"T"}:'
        b'{"brokerOffset":9,"consumerOffset":5,"lastTimestamp":0,"pullOffset":8}}}'
    )


def test_a_groups_retry_policy_is_stored_and_told_as_it_was_given() -> None:
    told = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 100, "max": 9000, "multiplier": 3}}
    command = one(connection(), request(200, body=json.dumps({"groupName": "g", "groupRetryPolicy": told}).encode()), PutGroup)
    assert command.group.retry == RetryPolicy("EXPONENTIAL", initial_ms=100, max_ms=9000, multiplier=3)
    found = exchanged(352, {"group": "g"}, QueryGroup, GroupFound(None, command.group))
    assert json.loads(found.body)["groupRetryPolicy"] == told
    assert refused_reply(200, body=b'{"groupName":"g","groupRetryPolicy":{"type":"LINEAR"}}').code == 29


@pytest.mark.parametrize(
    ("member", "value", "words"),
    [
        ("retryMaxTimes", -1, "a whole number from 0 to 1000000"),
        ("retryMaxTimes", "-1", "a whole number from 0 to 1000000"),
        ("retryMaxTimes", 1_000_001, "a whole number from 0 to 1000000"),
        ("retryMaxTimes", 2**31 - 1, "a whole number from 0 to 1000000"),
        ("retryMaxTimes", 2**70, "a whole number from 0 to 1000000"),
        ("retryMaxTimes", 1.5, "a whole number from 0 to 1000000"),
        ("retryMaxTimes", True, "a whole number from 0 to 1000000"),
        ("retryMaxTimes", "many", "a whole number from 0 to 1000000"),
        ("retryQueueNums", -1, "a whole number from 0 to 65536"),
        ("retryQueueNums", 65_537, "a whole number from 0 to 65536"),
        ("consumeEnable", "no", "true or false"),
        ("consumeMessageOrderly", 1, "true or false"),
        ("consumeBroadcastEnable", "false", "true or false"),
        ("consumeFromMinEnable", 0, "true or false"),
        ("notifyConsumerIdsChangedEnable", "", "true or false"),
    ],
)
def test_a_value_that_a_group_cannot_have_is_refused_and_not_changed(member: str, value: object, words: str) -> None:
    for code, body in (
        (200, {"groupName": "g", member: value}),
        (225, {"groupConfigList": [{"groupName": "f"}, {"groupName": "g", member: value}]}),
    ):
        reply = refused_reply(code, body=json.dumps(body).encode())
        assert reply.code == 29
        assert reply.remark.startswith(f"{member} is ")
        assert reply.remark.endswith(f": {words} is wanted")


@pytest.mark.parametrize(
    ("member", "value"), [("readQueueNums", "x"), ("writeQueueNums", 2**40), ("perm", 6.5), ("order", "yes")]
)
def test_a_value_that_a_topic_cannot_have_is_refused_and_not_changed(member: str, value: object) -> None:
    body = {"topicConfigList": [{"topicName": "t", member: value}]}
    reply = refused_reply(18, body=json.dumps(body).encode())
    assert reply.code == 29
    assert reply.remark.startswith(f"{member} is {value}: ")


def test_the_bounds_of_a_group_are_taken_as_they_are_and_null_is_the_default(conn: RemotingConnection) -> None:
    for sent, stored in ((0, 0), ("7", 7), (1_000_000, 1_000_000), (None, 16)):
        body = json.dumps({"groupName": "g", "retryMaxTimes": sent, "consumeEnable": None}).encode()
        command = one(conn, request(200, body=body), PutGroup)
        assert (command.group.retry_max, command.group.consume_enable) == (stored, True)


def test_groups(conn: RemotingConnection) -> None:
    body = json.dumps(
        {
            "groupName": "g",
            "retryMaxTimes": 3,
            "consumeMessageOrderly": True,
            "attributes": {"+a": "b"},
            "notifyConsumerIdsChangedEnable": False,
        }
    ).encode()
    command = one(conn, request(200, body=body), PutGroup)
    assert command.group == Group("g", orderly=True, retry_max=3, attributes={"a": "b"}, notify=False)
    both = conn.receive(request(225, body=b'{"groupConfigList":[{"groupName":"g"},{"groupName":"h"}]}'), 1)
    assert [each.group.name for each in both if isinstance(each, PutGroup)] == ["g", "h"]
    told = json.loads(exchanged(352, {"group": "g"}, QueryGroup, GroupFound(None, Group("g", retry_max=3, notify=False))).body)
    assert (told["retryMaxTimes"], told["notifyConsumerIdsChangedEnable"]) == (3, False)
    frame = exchanged(201, {}, ListGroups, GroupList(None, [Group("g")], {"g": ["T"]}))
    assert fields(frame) == {"totalGroupNum": "1"}
    assert list(json.loads(frame.body)["subscriptionGroupTable"]) == ["g"]
    assert json.loads(frame.body)["forbiddenTable"] == {"g": {"T": 4}}


@pytest.mark.parametrize(("text", "wanted"), [({}, None), ({"readable": "true"}, True), ({"readable": "false"}, False)])
def test_the_right_of_a_group_to_read_a_topic(conn: RemotingConnection, text: dict[str, str], wanted: bool | None) -> None:
    command = one(conn, request(353, {"group": "g", "topic": "T", **text}), SetReadable)
    assert (command.group, command.topic, command.readable) == ("g", "T", wanted)
    conn.answer(Readable(command.ticket, False), 1)
    frame = reply(conn)
    assert (frame.code, json.loads(frame.body)) == (0, {"group": "g", "readable": False, "topic": "T"})


def test_the_configuration_and_counters_of_the_broker(conn: RemotingConnection) -> None:
    asked = one(conn, request(26), QueryNodePolicy)
    policy = {
        "create_topics": "true",
        "create_groups": "false",
        "queues": "8",
        "permission": "6",
        "share_strategy": "sticky",
        "priority_order_ascending": "true",
        "priority_again_first_percent": "0",
        "transaction_timeout_ms": "6000",
        "transaction_check_ms": "30000",
        "transaction_checks_max": "15",
        "durability": "flushed",
    }
    conn.answer(NodePolicyFound(asked.ticket, policy), 1)
    frame = reply(conn)
    assert b"brokerName=b-a\n" in frame.body
    assert b"autoCreateSubscriptionGroup=false\ndefaultTopicQueueNums=8\nbrokerPermission=6\n" in frame.body
    assert b"priorityOrderAsc=true\npopFromRetryProbabilityForPriority=0\n" in frame.body
    assert b"transactionTimeOut=6000\ntransactionCheckInterval=30000\ntransactionCheckMax=15\n" in frame.body
    told = properties(frame.body)
    assert (told["flushDiskType"], told["maxMessageSize"], told["authorizationEnabled"]) == ("SYNC_FLUSH", "4194304", "false")
    assert told["messageDelayLevel"].split()[-1] == "2h"
    assert json.loads(fields(frame)["version"])["counter"] == 0
    command = one(conn, request(28), QueryNodeCounters)
    rates = {"parked_per_second_10s": 2.5, "due_per_second_10s": 0.5}
    totals = {"put_total": 7.0, "put_per_second_60s": 1.5, "disk_used_ratio": 0.25, "log_end": 900.0, "log_bytes": 300.0}
    conn.answer(NodeCounters(command.ticket, 1_699_999_999_000, {**rates, **totals}), 1)
    table = json.loads(reply(conn).body)["table"]
    assert (table["brokerActive"], table["msgPutTotalTodayNow"], table["runtime"]) == ("true", "7", "1000 ms")
    assert table["putTps"] == "0.00 1.50 0.00"
    assert (table["timerEnqueueTps"], table["timerDequeueTps"]) == ("2.50", "0.50")
    assert (table["commitLogDiskRatio"], table["consumeQueueDiskRatio"]) == ("0.2500", "0.2500")
    assert (table["commitLogMinOffset"], table["commitLogMaxOffset"]) == ("600", "900")
    assert all(isinstance(value, str) for value in table.values())


LEADER = {"replica": "3", "leads": "True", "confirming": "2", "min_in_sync": "2", "acks": "0"}


@pytest.mark.parametrize(
    ("durability", "values", "role", "copies"),
    [
        ("flushed", {}, ("ASYNC_MASTER", "0", "1", "1", "false", "false"), NEVER),
        ("replicated+flushed", LEADER, ("SYNC_MASTER", "0", "2", "2", "true", "true"), ALWAYS),
        ("replicated", {**LEADER, "acks": "2"}, ("SYNC_MASTER", "0", "2", "2", "false", "true"), ALWAYS),
        ("flushed", LEADER, ("ASYNC_MASTER", "0", "1", "2", "false", "true"), NEVER),
        (
            "replicated+flushed", {**LEADER, "confirming": "1", "min_in_sync": "1"},
            ("SYNC_MASTER", "0", "1", "1", "true", "true"), IN_SYNC,
        ),
        ("replicated+flushed", {"replica": "3", "leads": "False"}, ("SLAVE", "3", "1", "1", "false", "true"), NEVER),
    ],
    ids=["alone", "all members", "acks", "no replica by default", "two replicas, one of them away", "a follower"],
)  # fmt: skip
def test_the_role_and_the_copies_are_those_of_the_replica_and_a_gateway_before_it_believes_them(
    conn: RemotingConnection, durability: str, values: dict[str, str], role: tuple[str, ...], copies: int
) -> None:
    asked = one(conn, request(26), QueryNodePolicy)
    conn.answer(NodePolicyFound(asked.ticket, {"durability": durability, **values}), 1)
    told = properties(reply(conn).body)
    names = "brokerRole", "brokerId", "inSyncReplicas", "minInSyncReplicas", "allAckInSyncStateSet", "enableControllerMode"
    assert tuple(told[name] for name in names) == role
    assert BrokerCapabilities("broker-a", "V5_3_3", told).copies == copies


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\nb:2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("#a=1\n!b=2\n\n  c = 3  \r\n", {"c": "3"}),
        ("long=one,\\\n    two\n", {"long": "one,two"}),
        ("k\\=x=y\\:z\nu=\\u0041\n", {"k=x": "y:z", "u": "A"}),
        ("empty=\nalone\n=nothing\n", {"empty": "", "alone": ""}),
        ("list=a=b:c", {"list": "a=b:c"}),
    ],
)
def test_properties_are_those_of_java(text: str, found: dict[str, str]) -> None:
    assert properties(text.encode()) == found
