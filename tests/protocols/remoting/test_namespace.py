"""Namespaces that the server adds: names in requests and replies, and connections without a namespace."""

from __future__ import annotations

import orjson
import pytest

from domain.address import is_topic
from domain.admin.message import Viewed, ViewMessage
from domain.admin.topic import QueryTopic
from domain.client.client_inquiry import ClientAnswered, Inquiry, PositionsRequest
from domain.client.membership import Heartbeat, Locked, LockQueues, MembersChanged
from domain.command import Pull, Send
from domain.event import Done, Pulled, Sent
from domain.message import record
from domain.message.message import Message, Placed
from domain.message.property import decode
from domain.transaction import CheckTransaction
from protocols.remoting import codes
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.wire.frame import Frame, encode
from protocols.remoting.wire.header import BINARY, FLAG_RESPONSE, JSON
from tests.protocols.remoting.clients.test_send import V2
from tests.protocols.remoting.frames import connection, exchanged, fields, one, reply, request

SPACE = {"nsd": "true", "ns": "shop"}
PULL = {
    "consumerGroup": "g", "topic": "t", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
    "subscription": "*", "commitOffset": "0", "subVersion": "1",
}  # fmt: skip


def stored(topic: str, properties: bytes = b"UNIQ_KEY\x01ID\x02") -> bytes:
    return record.encode(Message(topic, b"body", properties), 3, 900, 5, bytes(8))


def pulled(conn: RemotingConnection, serialize: int, *records: bytes) -> Frame:
    command = one(conn, request(codes.PULL, {**PULL, **SPACE}, serialize=serialize), Pull)
    assert (command.group, command.topic) == ("shop%g", "shop%t")
    conn.answer(Pulled(command.ticket, "FOUND", list(records), 1, 0, 1), 1)
    return reply(conn)


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_send_goes_into_the_namespace(conn: RemotingConnection, serialize: int) -> None:
    send = {**V2, "a": "pg", "b": "t", "i": "TRAN_MSG\x01true\x02PGROUP\x01pg\x02", **SPACE}
    command = one(conn, request(codes.SEND_V2, send, b'{"topic":"stays"}', serialize=serialize), Send)
    (message,) = command.messages
    assert (message.topic, message.body) == ("shop%t", b'{"topic":"stays"}')
    assert decode(message.properties)["PGROUP"] == "shop%pg"
    conn.answer(Sent(command.ticket, [Placed(0, 1, 2, 3, "ID")]), 1)
    assert reply(conn).code == codes.SUCCESS


def test_properties_that_are_not_utf8_are_refused_in_a_namespace(conn: RemotingConnection) -> None:
    """The store takes UTF-8 alone: such a send is refused, and not changed, whatever was sent before it."""
    send = {**V2, "a": "pg", "b": "t", "i": "KEYS\x01\udcff\udcfe\x02PGROUP\x01pg\x02", **SPACE}
    assert conn.receive(request(codes.SEND_V2, send, b"body", serialize=BINARY), 1) == []
    assert reply(conn).code == codes.MESSAGE_ILLEGAL


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_records_are_sent_without_the_namespace(conn: RemotingConnection, serialize: int) -> None:
    again = stored("%RETRY%shop%g", b"RETRY_TOPIC\x01shop%t\x02")
    answer = pulled(conn, serialize, stored("shop%t"), again)
    size = int.from_bytes(answer.body[:4], "big")
    first, second = record.Record(answer.body[:size]), record.Record(answer.body[size:])
    assert record.check(first.data)
    assert record.check(second.data)
    assert (first.topic, first.body, first.queue_offset, first.physical_offset) == ("t", b"body", 3, 900)
    assert (second.topic, decode(second.properties)) == ("%RETRY%g", {"RETRY_TOPIC": "t"})
    assert fields(answer)["nextBeginOffset"] == "1"


def test_names_in_replies_lose_the_namespace() -> None:
    short = "x" * 100
    answer = pulled(connection(), JSON, stored("shop%" + short), stored("shop%" + "y" * 130))
    size = int.from_bytes(answer.body[:4], "big")
    assert record.check(answer.body[:size])
    assert record.Record(answer.body[:size]).topic == short
    assert record.check(answer.body[size:])


def test_messages_of_other_namespaces_are_not_sent() -> None:
    cases = (("yard%t", codes.QUERY_NOT_FOUND), ("t", codes.QUERY_NOT_FOUND), ("RMQ_SYS_TRACE_TOPIC", codes.SUCCESS))
    for topic, code in cases:
        assert exchanged(codes.VIEW_MESSAGE, {"offset": "900", **SPACE}, ViewMessage, Viewed(None, stored(topic))).code == code


def test_groups_and_topics_of_a_heartbeat_and_of_locks(conn: RemotingConnection) -> None:
    beat = {
        "clientID": "c",
        "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [{"topic": "t", "subString": 'a = \'"topic":"x"\''}]}],
        "producerDataSet": [{"groupName": "pg"}],
    }
    command = one(conn, request(codes.HEARTBEAT, SPACE, orjson.dumps(beat)), Heartbeat)
    assert (command.producers, command.consumers[0].group) == (["shop%pg"], "shop%g")
    (subscription,) = command.consumers[0].subscriptions
    assert (subscription.topic, subscription.expression) == ("shop%t", 'a = \'"topic":"x"\'')
    conn.answer(Done(command.ticket), 1)
    reply(conn)
    queue = {"brokerName": "b-a", "queueId": 1, "topic": "t"}
    body = orjson.dumps({"clientId": "c", "consumerGroup": "g", "mqSet": [queue]})
    locking = one(conn, request(codes.LOCK_QUEUES, SPACE, body), LockQueues)
    assert (locking.group, list(locking.queues)) == ("shop%g", [("b-a", "shop%t", 1)])
    conn.answer(Locked(locking.ticket, [("b-a", "shop%t", 1)]), 1)
    assert orjson.loads(reply(conn).body)["lockOKMQSet"] == [queue]


def test_requests_of_the_node_lose_the_namespace(conn: RemotingConnection) -> None:
    command = one(conn, request(codes.GET_ROUTE, {"topic": "t", **SPACE}))
    assert not isinstance(command, QueryTopic)
    conn.answer(MembersChanged(None, "shop%g"), 1)
    assert fields(reply(conn)) == {"consumerGroup": "g"}
    half = stored("shop%t", b"PGROUP\x01shop%pg\x02UNIQ_KEY\x01ID\x02")
    conn.answer(CheckTransaction(None, "c", "shop%pg", "ID", half), 1)
    asked = record.Record(reply(conn).body)
    assert (asked.topic, decode(asked.properties)["PGROUP"]) == ("t", "pg")
    conn.answer(Inquiry(None, 5, "c", PositionsRequest("shop%g", "shop%t")), 1)
    question = reply(conn)
    assert fields(question) == {"topic": "t", "group": "g"}
    body = b'{"messageQueueTable":{{"brokerName":"b-a","queueId":0,"topic":"t"}:5}}'
    (said,) = conn.receive(encode(0, question.opaque, fields={}, body=body, flag=FLAG_RESPONSE), 1)
    assert isinstance(said, ClientAnswered)
    assert said.answer == [("b-a", "shop%t", 0, 5)]


@pytest.mark.parametrize("separator", ["_", "+"])
def test_the_retry_topic_of_a_pop_names_two(conn: RemotingConnection, separator: str) -> None:
    ask = {"consumerGroup": "g", "topic": f"%RETRY%g{separator}t", "queueId": "0", **SPACE}
    command = one(conn, request(codes.QUERY_OFFSET, ask))
    assert command.topic == f"%RETRY%shop%g{separator}shop%t"


def test_a_connection_without_namespaces_rewrites_nothing(conn: RemotingConnection) -> None:
    one(conn, request(codes.SEND_V2, {**V2, "b": "t"}, b"x"))
    command = one(conn, request(codes.SEND_V2, {**V2, "b": "shop%t"}, b"x"), Send)
    assert command.messages[0].topic == "shop%t"
    assert conn._namespaces is None


def test_an_illegal_namespace_makes_illegal_names(conn: RemotingConnection) -> None:
    for space in ("a%b", "ä", " "):
        command = one(conn, request(codes.SEND_V2, {**V2, "b": "t", "nsd": "true", "ns": space}, b"x"), Send)
        assert command.messages[0].topic == "."
        assert not is_topic(".")
