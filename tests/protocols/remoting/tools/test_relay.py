"""Requests of the node to a client, their replies, and tools that cause them (Broker2Client, ClientRemotingProcessor)."""

from __future__ import annotations

import pytest

from domain.admin.client import ClientPositions, ConsumeDirectly, QueryClientPositions, QueryRunningInfo, RunningInfo
from domain.admin.position import ClonePositions, PositionsReset, ResetPositions
from domain.client.client_inquiry import (
    ClientAnswered,
    ConsumptionRequest,
    Inquiry,
    PositionsRequest,
    ReplyDelivery,
    RunningInfoRequest,
    SendReply,
)
from domain.errors import ErrorCode, Failure
from domain.event import Refused, Sent
from domain.message.message import Message, Placed
from domain.message.record import encode as encode_record
from protocols.remoting.clients.node_requests import INQUIRIES_MAX
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.wire.frame import Frame, encode
from tests.protocols.remoting.frames import BORN_HOST, fields, one, refused_reply, reply, request

MQ = '{"brokerName":"b-a","queueId":0,"topic":"T"}'


def ask(conn: RemotingConnection, about: RunningInfoRequest | ConsumptionRequest | PositionsRequest | ReplyDelivery) -> Frame:
    """The request frame of one inquiry."""
    conn.answer(Inquiry(None, 41, "c", about), 1)
    frame = reply(conn)
    assert frame.flag == 0
    return frame


def answer(conn: RemotingConnection, frame: Frame, body: bytes = b"", code: int = 0, remark: str = "") -> ClientAnswered:
    command = one(conn, encode(code, frame.opaque, body=body, flag=1, remark=remark), ClientAnswered)
    assert command.serial == 41
    return command


def test_running_info(conn: RemotingConnection) -> None:
    frame = ask(conn, RunningInfoRequest("g", True))
    assert (frame.code, fields(frame)) == (307, {"consumerGroup": "g", "clientId": "c", "jstackEnable": "true"})
    assert answer(conn, frame, b'{"x":1}').answer == b'{"x":1}'
    assert conn.receive(encode(0, frame.opaque, flag=1), 1) == []


def test_a_client_that_refuses_an_inquiry(conn: RemotingConnection) -> None:
    frame = ask(conn, RunningInfoRequest("g", False))
    found = answer(conn, frame, code=1, remark="no such group")
    assert found.answer == Failure(ErrorCode.GROUP_OFFLINE, "the client <c> says: no such group")


def test_direct_consumption_brings_the_message(conn: RemotingConnection) -> None:
    record = encode_record(Message("T", b"body", b"HG_CLIENT\x01x\x02", queue_id=0), 3, 77, 5, BORN_HOST)
    frame = ask(conn, ConsumptionRequest("g", record, ""))
    assert frame.code == 309
    assert fields(frame) == {
        "consumerGroup": "g", "clientId": "c", "msgId": BORN_HOST.hex().upper() + "000000000000004D", "brokerName": "b-a",
        "topic": "T", "topicSysFlag": "0", "groupSysFlag": "0",
    }  # fmt: skip
    assert b"body" in frame.body
    assert b"HG_" not in frame.body
    assert fields(ask(conn, ConsumptionRequest("g", record, "MINE")))["msgId"] == "MINE"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b'{"messageQueueTable":{' + MQ.encode() + b":5}}", [("b-a", "T", 0, 5)]),
        (b'{"messageQueueTable":{}}', []),
        (b"none", None),
        (b'{"messageQueueTable":{"x":5}}', None),
    ],
)
def test_positions_of_a_client(conn: RemotingConnection, body: bytes, wanted: object) -> None:
    frame = ask(conn, PositionsRequest("g", "T"))
    assert (frame.code, fields(frame)) == (221, {"topic": "T", "group": "g"})
    found = answer(conn, frame, body).answer
    assert found == wanted if wanted is not None else isinstance(found, Failure)


def test_a_reply_is_pushed_with_its_header(conn: RemotingConnection) -> None:
    frame = ask(conn, ReplyDelivery(Message("R", b"b", b"CORRELATION_ID\x011\x02", born_ms=9, born_host=BORN_HOST), 12))
    assert (frame.code, frame.body) == (326, b"b")
    found = fields(frame)
    assert (found["bornHost"], found["storeHost"], found["storeTimestamp"]) == ("10.0.0.9:50000", "10.0.0.1:10911", "12")
    assert found["properties"] == "CORRELATION_ID\x011\x02"
    failed = answer(conn, frame, code=1, remark="late").answer
    assert failed == Failure(ErrorCode.CLIENT_UNKNOWN, "the client <c> says: late")


def test_unanswered_inquiries_are_bounded(conn: RemotingConnection) -> None:
    first = ask(conn, RunningInfoRequest("g", False))
    for _ in range(INQUIRIES_MAX):
        second = ask(conn, RunningInfoRequest("g", False))
    assert conn.receive(encode(0, first.opaque, flag=1), 1) == []
    answer(conn, second)


def test_resetting_by_tool(conn: RemotingConnection) -> None:
    asked = {"topic": "T", "group": "g", "timestamp": "-1", "isForce": "false"}
    command = one(conn, request(222, asked))
    assert command == ResetPositions(command.ticket, "T", "g", -1, False)
    conn.answer(PositionsReset(command.ticket, [(0, 5)]), 1)
    assert reply(conn).body == b'{"offsetTable":{' + MQ.encode() + b":5}}"
    command = one(conn, request(222, {**asked, "queueId": "3", "offset": "8"}), ResetPositions)
    assert (command.queue_id, command.offset) == (3, 8)
    command = one(conn, request(314, {"srcGroup": "a", "destGroup": "b", "topic": "T", "offline": "true"}))
    assert command == ClonePositions(command.ticket, "a", "b", "T")


def test_asking_clients_by_tool(conn: RemotingConnection) -> None:
    command = one(conn, request(307, {"consumerGroup": "g", "clientId": "c", "jstackEnable": "true"}), QueryRunningInfo)
    assert (command.group, command.client_id, command.stacks) == ("g", "c", True)
    conn.answer(RunningInfo(command.ticket, b"{}"), 1)
    assert reply(conn).body == b"{}"
    directly = one(conn, request(309, {"consumerGroup": "g", "msgId": "0A000001000029AA000000000000004D"}), ConsumeDirectly)
    assert (directly.client_id, directly.physical_offset) == ("", 77)
    assert refused_reply(309, {"consumerGroup": "g", "msgId": "short"}).code == 29
    positions = one(conn, request(223, {"topic": "T", "group": "g"}), QueryClientPositions)
    conn.answer(ClientPositions(positions.ticket, {"c": [("b-a", "T", 0, 5)]}), 1)
    assert reply(conn).body == b'{"consumerTable":{"c":{' + MQ.encode() + b':5}},"messageQueueTable":{}}'


@pytest.mark.parametrize(
    ("code", "failure", "wanted"),
    [
        (307, ErrorCode.GROUP_OFFLINE, 1),
        (307, ErrorCode.CLIENT_UNKNOWN, 207),
        (222, ErrorCode.GROUP_NOT_FOUND, 26),
        (223, ErrorCode.GROUP_OFFLINE, 206),
    ],
)
def test_codes_that_tools_expect(conn: RemotingConnection, code: int, failure: ErrorCode, wanted: int) -> None:
    every = {"consumerGroup": "g", "clientId": "c", "topic": "T", "group": "g", "timestamp": "0", "isForce": "true"}
    command = one(conn, request(code, every))
    conn.answer(Refused(command.ticket, Failure(failure, "why")), 1)
    found = reply(conn)
    assert (found.code, found.remark) == (wanted, "why")


@pytest.mark.parametrize("code", [324, 325])
def test_a_reply_of_a_consumer(conn: RemotingConnection, code: int) -> None:
    names = ("topic", "queueId", "sysFlag", "bornTimestamp", "flag", "properties")
    letters = ("b", "e", "f", "g", "h", "i")
    stored = "REPLY_TO_CLIENT\x01c\x02CORRELATION_ID\x011\x02UNIQ_KEY\x01K\x02"
    values = ("c1_REPLY_TOPIC", "0", "0", "1700000000000", "0", stored)
    command = one(conn, request(code, dict(zip(names if code == 324 else letters, values, strict=True)), b"answer"), SendReply)
    assert (command.message.topic, command.message.body, command.message.message_id) == ("c1_REPLY_TOPIC", b"answer", "K")
    conn.answer(Sent(command.ticket, [Placed(0, 1, 2, 3, "K")]), 1)
    assert reply(conn).code == 0


def test_a_request_message_gets_the_cluster_property(conn: RemotingConnection) -> None:
    command = one(conn, request(310, {"b": "T", "e": "0", "i": "REPLY_TO_CLIENT\x01c\x02UNIQ_KEY\x01K\x02"}, b"q"))
    assert b"CLUSTER\x01c1\x02" in command.messages[0].properties
