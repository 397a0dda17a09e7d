"""Lite topics of clients whose namespace the server adds: codes 200070 to 200079, requests and replies."""

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
from domain.command import Acknowledge, Send
from domain.event import Done, Received
from domain.message import record
from domain.message.property import decode
from domain.topic.lite import LiteAction, LiteTaken, ReceiveLite, SyncSubscription
from protocols.remoting import codes
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.wire.header import BINARY, JSON
from tests.protocols.remoting.clients.test_lite import EXTRA, POP, leased
from tests.protocols.remoting.frames import fields, one, reply, request

SPACE = {"nsd": "true", "ns": "shop"}


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_pop_and_its_messages(conn: RemotingConnection, serialize: int) -> None:
    command = one(conn, request(codes.POP_LITE, {**POP, **SPACE}, serialize=serialize), ReceiveLite)
    assert (command.group, command.topic, command.client_id) == ("shop%g", "shop%T", "c")
    message = leased(7, 1)
    stored = b"__LITE_TOPIC\x01a\x02INNER_MULTI_DISPATCH\x01%LMQ%$shop%T$a\x02INNER_MULTI_QUEUE_OFFSET\x017\x02"
    message.record = record.renamed(message.record, "shop%T", stored)
    conn.answer(Received(command.ticket, [message], 1000, 60_000), 1)
    frame = reply(conn)
    found = record.Record(frame.body)
    assert (frame.code, found.topic) == (codes.SUCCESS, "T")
    properties = decode(found.properties)
    assert properties["INNER_MULTI_DISPATCH"] == "%LMQ%$T$a"
    assert (properties["__LITE_TOPIC"], properties["INNER_MULTI_QUEUE_OFFSET"]) == ("a", "7")


def test_every_lite_queue_that_a_message_names_is_of_the_namespace(conn: RemotingConnection) -> None:
    stored = "k\x01,%LMQ%$T$a\x02INNER_MULTI_DISPATCH\x01%LMQ%$T$a,%LMQ%$T$b\x02"
    fields = {"a": "p", "b": "T", "e": "0", "f": "0", "g": "1", "h": "0", "i": stored}
    command = one(conn, request(codes.SEND_V2, {**fields, **SPACE}), Send)
    kept = decode(command.messages[0].properties)
    assert (kept["INNER_MULTI_DISPATCH"], kept["k"]) == ("%LMQ%$shop%T$a,%LMQ%$shop%T$b", ",%LMQ%$T$a")


def test_subscriptions_are_those_of_the_namespace(conn: RemotingConnection) -> None:
    each = {"action": "PARTIAL_ADD", "clientId": "c", "group": "g", "topic": "T", "liteTopicSet": ["a", "topic"]}
    body = json.dumps({"subscriptionSet": [each]}).encode()
    command = one(conn, request(codes.LITE_SUBSCRIPTION, SPACE, body), SyncSubscription)
    assert (command.group, command.topic, command.action) == ("shop%g", "shop%T", LiteAction.PARTIAL_ADD)
    assert command.names == ["a", "topic"]
    conn.answer(Done(command.ticket), 1)
    assert reply(conn).code == codes.SUCCESS


def test_an_acknowledgement_by_the_name_of_a_lite_topic(conn: RemotingConnection) -> None:
    ack = {"consumerGroup": "g", "topic": "T", "queueId": "0", "extraInfo": EXTRA, "offset": "7", "liteTopic": "a"}
    command = one(conn, request(codes.ACK, {**ack, **SPACE}), Acknowledge)
    assert (command.group, command.topic) == ("shop%g", "%LMQ%$shop%T$a")


def test_a_client_that_loses_a_lite_topic_knows_its_group_by_its_own_name(conn: RemotingConnection) -> None:
    conn.receive(request(codes.POP_LITE, {**POP, **SPACE}), 1)
    conn.answer(LiteTaken(None, "c", "shop%g", "a"), 1)
    frame = reply(conn)
    assert (frame.code, fields(frame)["consumerGroup"], fields(frame)["liteTopic"]) == (200073, "g", "a")


def test_the_questions_of_tools(conn: RemotingConnection) -> None:
    asked_node = one(conn, request(codes.GET_LITE_NODE, SPACE), QueryLiteNode)
    conn.answer(LiteNode(asked_node.ticket, 1, 2, 3, 0, {"shop%T": 60, "yard%T": 5}, {"shop%T": ["shop%g", "shop%h"]}), 1)
    node = json.loads(reply(conn).body)
    assert (node["topicMeta"], node["groupMeta"]) == ({"T": 60, "yard%T": 5}, {"T": ["g", "h"]})

    of_parent = one(conn, request(codes.GET_LITE_PARENT, {"topic": "T", **SPACE}), QueryLiteParent)
    assert of_parent.topic == "shop%T"
    conn.answer(LiteParent(of_parent.ticket, "shop%T", 60, ["shop%g"], 1, 1), 1)
    parent = json.loads(reply(conn).body)
    assert (parent["topic"], parent["groups"]) == ("T", ["g"])

    of_topic = one(conn, request(codes.GET_LITE_TOPIC, {"parentTopic": "T", "liteTopic": "a", **SPACE}), QueryLiteTopic)
    assert (of_topic.topic, of_topic.lite) == ("shop%T", "a")
    conn.answer(LiteTopic(of_topic.ticket, "shop%T", "a", 0, 3, 9, [("c", "shop%g")]), 1)
    topic = json.loads(reply(conn).body)
    assert (topic["parentTopic"], topic["subscriber"]) == ("T", [{"clientId": "c", "group": "g"}])

    asked = {"parentTopic": "T", "group": "g", "clientId": "c", "maxCount": "10", **SPACE}
    of_client = one(conn, request(codes.GET_LITE_CLIENT, asked), QueryLiteClient)
    assert (of_client.topic, of_client.group) == ("shop%T", "shop%g")
    conn.answer(LiteClient(of_client.ticket, "shop%T", "shop%g", "c", 2, ["a", "b"], 1, 2), 1)
    client = json.loads(reply(conn).body)
    assert (client["parentTopic"], client["group"], client["clientId"]) == ("T", "g", "c")
    assert client["liteTopicSet"] == ["%LMQ%$T$a", "%LMQ%$T$b"]

    of_group = one(conn, request(codes.GET_LITE_GROUP, {"group": "g", "liteTopic": "", **SPACE}), QueryLiteGroup)
    assert of_group.group == "shop%g"
    conn.answer(LiteGroup(of_group.ticket, "shop%g", "shop%T", "", 4, 9, [LiteLag("a", 4, 9)], [], None), 1)
    group = json.loads(reply(conn).body)
    assert (group["group"], group["parentTopic"], group["lagCountTopK"][0]["liteTopic"]) == ("g", "T", "a")

    dispatch = one(conn, request(codes.DISPATCH_LITE, {"group": "g", "clientId": "c", **SPACE}), DispatchLite)
    assert (dispatch.group, dispatch.client_id) == ("shop%g", "c")
