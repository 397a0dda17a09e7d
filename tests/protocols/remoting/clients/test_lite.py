"""Lite topics: PopLiteMessageRequestHeader, LiteSubscriptionCtlRequestBody, acknowledgements by name, requests of tools."""

from __future__ import annotations

import json

import pytest

from domain.admin.lite import (
    DispatchLite,
    LiteClient,
    LiteGroup,
    LiteLag,
    LiteNode,
    LiteParent,
    LiteTopic,
    QueryLiteClient,
    QueryLiteGroup,
    QueryLiteNode,
    QueryLiteParent,
    QueryLiteTopic,
)
from domain.command import Acknowledge, Extend
from domain.errors import ErrorCode, Failure
from domain.event import Done, Leased, Received, Refused
from domain.message.message import Message
from domain.message.receipt import Receipt
from domain.message.record import encode
from domain.topic.lite import (
    LiteAction,
    LiteTaken,
    OffsetOption,
    OffsetOptionType,
    ReceiveLite,
    SuspendLite,
    SyncSubscription,
)
from protocols.remoting import codes
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.wire.header import BINARY, JSON
from tests.protocols.remoting.frames import BORN_HOST, connection, exchanged, fields, one, refused_reply, reply, request

POP = {"clientId": "c", "consumerGroup": "g", "topic": "T", "maxMsgNum": "8", "invisibleTime": "60000", "pollTime": "15000"}
EXTRA = "0 1000 60000 999 0 b-a 0 7"


def leased(offset: int, attempt: int, body: bytes = b"x") -> Leased:
    stored = f"__LITE_TOPIC\x01a\x02INNER_MULTI_DISPATCH\x01%LMQ%$T$a\x02INNER_MULTI_QUEUE_OFFSET\x01{offset}\x02".encode()
    record = encode(Message("T", body, stored, queue_id=3), 90 + offset, 4_096, 1, BORN_HOST)
    return Leased(record, Receipt(0, 1000, 60_000, 999, 0, "b-a", 0, offset, 4_096), attempt)


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_pop_of_all_that_a_client_has(conn: RemotingConnection, serialize: int) -> None:
    command = one(conn, request(200070, {**POP, "attemptId": "x"}, serialize=serialize), ReceiveLite)
    assert (command.client_id, command.group, command.topic, command.limit) == ("c", "g", "T", 8)
    assert (command.invisible_ms, command.wait_ms, command.attempt_id) == (60_000, 15_000, "x")
    messages = [leased(7, 1), leased(8, 3)]
    conn.answer(Received(command.ticket, messages, 1000, 60_000), 1)
    frame = reply(conn)
    told = fields(frame)
    assert frame.code == 0
    assert (told["popTime"], told["reviveQid"], told["orderCountInfo"]) == ("1000", "999", "0;2")
    assert frame.body == messages[0].record + messages[1].record


def test_leases_of_a_lite_pop_are_returned_when_the_client_does_not_read(conn: RemotingConnection) -> None:
    body = bytes(4 << 20)
    for at in range(18):
        command = one(conn, request(200070, POP, opaque=at), ReceiveLite)
        conn.answer(Received(command.ticket, [leased(at, 1, body)], 1000, 60_000), 1)
    (first, *_) = conn.expire(1)
    assert isinstance(first, Extend)
    assert (first.group, first.topic, first.invisible_ms) == ("g", "%LMQ%$T$a", 0)
    assert [receipt.queue_offset for receipt in first.receipts] == [7], "the first one above 32 MiB, the half of the bound"


def test_a_pop_without_messages_and_one_for_too_many() -> None:
    assert exchanged(200070, POP, ReceiveLite, Received(None, [], 1000, 60_000)).code == codes.POLLING_TIMEOUT
    assert refused_reply(200070, {**POP, "maxMsgNum": "33"}).code == codes.INVALID_PARAMETER


@pytest.mark.parametrize(
    ("option", "start"),
    [
        (None, None),
        ({"type": "POLICY", "value": 0}, OffsetOption(OffsetOptionType.LAST)),
        ({"type": "POLICY", "value": 1}, OffsetOption(OffsetOptionType.MIN)),
        ({"type": "POLICY", "value": 2}, OffsetOption(OffsetOptionType.MAX)),
        ({"type": "OFFSET", "value": 9}, OffsetOption(OffsetOptionType.OFFSET, 9)),
        ({"type": "TAIL_N", "value": 3}, OffsetOption(OffsetOptionType.TAIL, 3)),
        ({"type": "TIMESTAMP", "value": 99}, OffsetOption(OffsetOptionType.TIME, 99)),
    ],
)
def test_subscriptions(conn: RemotingConnection, option: object, start: OffsetOption | None) -> None:
    entry = {"action": "PARTIAL_ADD", "clientId": "c", "group": "g", "topic": "T", "liteTopicSet": ["a", "b"], "version": 1}
    body = json.dumps({"subscriptionSet": [{**entry, "offsetOption": option}]}).encode()
    command = one(conn, request(200071, body=body), SyncSubscription)
    assert (command.action, command.client_id, command.names) == (LiteAction.PARTIAL_ADD, "c", ["a", "b"])
    assert command.start == start
    conn.answer(Done(command.ticket), 1)
    assert reply(conn).code == 0


def test_the_first_refusal_of_several_subscriptions_is_the_answer(conn: RemotingConnection) -> None:
    actions = ("COMPLETE_ADD", "COMPLETE_REMOVE")
    entries = [{"action": action, "clientId": "c", "group": "g", "topic": "T"} for action in actions]
    first, second = conn.receive(request(200071, body=json.dumps({"subscriptionSet": entries}).encode()), 1)
    assert isinstance(first, SyncSubscription)
    assert isinstance(second, SyncSubscription)
    conn.answer(Refused(second.ticket, Failure(ErrorCode.QUOTA, "full")), 1)
    conn.answer(Done(first.ticket), 1)
    assert reply(conn).code == 2018


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"subscriptionSet":[]}', b'{"subscriptionSet":[{"action":"ADD"}]}', b"[",
             b'{"subscriptionSet":[{"action":"PARTIAL_ADD","offsetOption":{"type":"X"}}]}'],
)  # fmt: skip
def test_malformed_bodies_are_refused(body: bytes) -> None:
    assert refused_reply(200071, body=body).code in (codes.ILLEGAL_OPERATION, codes.INVALID_PARAMETER)


@pytest.mark.parametrize("code", [200051, 200072])
def test_an_acknowledgement_by_lite_topic(code: int) -> None:
    ext = {"consumerGroup": "g", "topic": "T", "queueId": "0", "extraInfo": EXTRA, "offset": "7", "liteTopic": "a"}
    command = one(connection(), request(code, ext), Acknowledge)
    assert (command.topic, command.receipts[0].queue_offset, command.receipts[0].pop_ms) == ("%LMQ%$T$a", 7, 1000)


def test_a_change_of_the_invisible_time_by_lite_topic() -> None:
    ext = {"consumerGroup": "g", "topic": "T", "queueId": "0", "extraInfo": EXTRA, "offset": "7", "invisibleTime": "500"}
    command = one(connection(), request(200053, {**ext, "liteTopic": "a"}), Extend)
    assert (command.topic, command.invisible_ms) == ("%LMQ%$T$a", 500)
    suspended = one(connection(), request(200053, {**ext, "liteTopic": "a", "suspend": "true"}), SuspendLite)
    assert (suspended.topic, suspended.lite, suspended.invisible_ms) == ("T", "a", 500)


def test_a_client_is_told_that_another_has_its_lite_topic(conn: RemotingConnection) -> None:
    conn.answer(LiteTaken(None, "c", "g", "a"), 1)
    frame = reply(conn)
    assert (frame.code, frame.flag & 3) == (200073, 2)
    assert fields(frame) == {"liteTopic": "a", "consumerGroup": "g", "clientId": "c"}


def test_what_tools_ask(conn: RemotingConnection) -> None:

    def asked(code: int, **ext: str) -> object:
        return one(conn, request(code, ext))

    node = asked(200074)
    assert isinstance(node, QueryLiteNode)
    conn.answer(LiteNode(node.ticket, 5, 3, 2, 1, {"T": 20}, {"T": ["g"]}), 1)
    told = json.loads(reply(conn).body)
    assert (told["currentLmqNum"], told["liteSubscriptionCount"], told["topicMeta"], told["groupMeta"]) == (
        5, 3, {"T": 20}, {"T": ["g"]},
    )  # fmt: skip
    parent = asked(200075, topic="T")
    assert isinstance(parent, QueryLiteParent)
    conn.answer(LiteParent(parent.ticket, "T", 20, ["g"], 4, 5), 1)
    assert json.loads(reply(conn).body) == {"topic": "T", "ttl": 20, "groups": ["g"], "lmqNum": 5, "liteTopicCount": 4}
    topic = asked(200076, parentTopic="T", liteTopic="a")
    assert isinstance(topic, QueryLiteTopic)
    conn.answer(LiteTopic(topic.ticket, "T", "a", 1, 4, 99, [("c", "g")]), 1)
    told = json.loads(reply(conn).body)
    assert told["topicOffset"] == {"minOffset": 1, "maxOffset": 4, "lastUpdateTimestamp": 99}
    assert told["subscriber"] == [{"clientId": "c", "group": "g"}]
    client = asked(200077, parentTopic="T", group="g", clientId="c", maxCount="2")
    assert isinstance(client, QueryLiteClient)
    assert client.limit == 2
    conn.answer(LiteClient(client.ticket, "T", "g", "c", 3, ["a", "b"], 1, 2), 1)
    told = json.loads(reply(conn).body)
    assert (told["liteTopicCount"], told["liteTopicSet"]) == (3, ["%LMQ%$T$a", "%LMQ%$T$b"])
    group = asked(200078, group="g", topK="1")
    assert isinstance(group, QueryLiteGroup)
    conn.answer(LiteGroup(group.ticket, "g", "T", "", 5, 9, [LiteLag("a", 5, 9)], [], (7, 2, 8)), 1)
    told = json.loads(reply(conn).body)
    assert told["lagCountTopK"] == [{"liteTopic": "a", "lagCount": 5, "earliestUnconsumedTimestamp": 9}]
    assert told["liteTopicOffsetWrapper"]["consumerOffset"] == 2
    dispatch = asked(200079, group="g")
    assert isinstance(dispatch, DispatchLite)
    conn.answer(Done(dispatch.ticket), 1)
    assert reply(conn).code == 0
