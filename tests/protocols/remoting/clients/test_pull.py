"""Pulls and positions (PullMessageRequestHeader, PullSysFlag; response fields that clients require)."""

from __future__ import annotations

import json

import pytest

from domain.admin.message import Viewed, ViewMessage
from domain.admin.topic import SearchOffset
from domain.command import CommitOffsets, Pull, QueryOffset
from domain.errors import ErrorCode, Failure
from domain.event import Offset, Pulled, Refused
from domain.filter.tag import TagFilter
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record, check, encode
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.wire.header import BINARY, JSON
from tests.protocols.remoting.frames import (
    BORN_HOST,
    connection,
    fields,
    one,
    refused_reply,
    replies,
    reply,
    request,
)

PULL = {
    "consumerGroup": "g", "topic": "T", "queueId": "1", "queueOffset": "5", "maxMsgNums": "32", "sysFlag": "6",
    "commitOffset": "5", "suspendTimeoutMillis": "15000", "subscription": "A || B", "subVersion": "1", "expressionType": "TAG",
}  # fmt: skip
HEARTBEAT = json.dumps(
    {
        "clientID": "10.0.0.9@1",
        "consumerDataSet": [
            {
                "groupName": "g",
                "messageModel": "CLUSTERING",
                "subscriptionDataSet": [{"topic": "T", "subString": "A", "expressionType": "TAG", "subVersion": 1}],
            }
        ],
        "producerDataSet": [],
    }
).encode()


def pull(conn: RemotingConnection, **change: str) -> Pull:
    return one(conn, request(11, {**PULL, **change}), Pull)


def record(stored: bytes, *, host: bytes = BORN_HOST, body: bytes = b"body") -> bytes:
    return encode(Message("T", body, stored, queue_id=1, born_host=host), 5, 0x1000, 1_700_000_000_000, BORN_HOST)


@pytest.mark.parametrize("code", [11, 361])
def test_a_pull_with_its_flags(code: int) -> None:
    command = one(connection(), request(code, PULL), Pull)
    assert (command.group, command.topic, command.queue_id, command.offset, command.limit) == ("g", "T", 1, 5, 32)
    assert (command.wait_ms, command.commit, command.member) == (15_000, -1, "")
    assert isinstance(command.filter, TagFilter)
    assert command.filter.tags == {b"A", b"B"}


def test_commit_only_with_its_bit_and_no_wait_without_suspend() -> None:
    command = pull(connection(), sysFlag="5")
    assert (command.wait_ms, command.commit) == (0, 5)


def test_a_pull_without_subscription_uses_what_the_heartbeat_said(conn: RemotingConnection) -> None:
    first = pull(conn, sysFlag="2")
    assert (first.subscribed, first.filter) == (True, None)
    conn.answer(Refused(first.ticket, Failure(ErrorCode.GROUP_OFFLINE, "no subscription")), 1)
    assert reply(conn).code == 24
    one(conn, request(34, body=HEARTBEAT))
    command = pull(conn, sysFlag="2")
    assert isinstance(command.filter, TagFilter)
    assert command.filter.tags == {b"A"}
    assert (command.member, command.subscribed) == ("10.0.0.9@1", False)


def test_a_pull_says_when_its_filter_is_that_of_a_member_that_reads_everything(conn: RemotingConnection) -> None:
    one(conn, request(34, body=HEARTBEAT))
    assert not pull(conn, sysFlag="2").broadcast
    one(conn, request(34, body=HEARTBEAT.replace(b"CLUSTERING", b"BROADCASTING")))
    command = pull(conn, sysFlag="2")
    assert (command.broadcast, command.member) == (True, "")
    assert not pull(conn, sysFlag="6").broadcast


def test_sql_comes_with_the_pull_or_with_the_heartbeat(conn: RemotingConnection) -> None:
    red, blue = (properties.encode([("color", color)]) for color in ("red", "blue"))
    asked = pull(conn, expressionType="SQL92", subscription="color = 'red'")
    assert asked.filter is not None
    assert (asked.filter.matches(red), asked.filter.matches(blue)) == (True, False)
    assert pull(conn, expressionType="SQL92", subscription="color = 'red'").filter is asked.filter
    told = HEARTBEAT.replace(b'"A", "expressionType": "TAG"', b'"color <> \'red\'", "expressionType": "SQL92"')
    one(conn, request(34, body=told))
    known = pull(conn, sysFlag="2")
    assert known.filter is not None
    assert (known.filter.matches(red), known.filter.matches(blue)) == (False, True)


@pytest.mark.parametrize("change", [{"subscription": "color ="}, {"expressionType": "XPATH"}])
def test_a_filter_that_does_not_compile_is_refused_at_once(change: dict[str, str]) -> None:
    answer = refused_reply(11, {**PULL, "expressionType": "SQL92", **change})
    assert answer.code == 23
    assert "column" in answer.remark or "XPATH" in answer.remark


@pytest.mark.parametrize(
    ("status", "code"), [("FOUND", 0), ("NO_MATCH", 20), ("EMPTY", 19), ("TOO_SMALL", 21), ("TOO_LARGE", 21)]
)
@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_every_status_carries_the_four_numbers(conn: RemotingConnection, status: str, code: int, serialize: int) -> None:
    command = one(conn, request(11, PULL, serialize=serialize), Pull)
    first, second = record(b"TAGS\x01A\x02"), record(b"")
    conn.answer(Pulled(command.ticket, status, [first, second] if code == 0 else [], 7, 0, 9), 2)
    frame = reply(conn)
    assert (frame.code, frame.serialize) == (code, serialize)
    assert fields(frame) == {"suggestWhichBrokerId": "0", "nextBeginOffset": "7", "minOffset": "0", "maxOffset": "9"}
    assert frame.body == (first + second if code == 0 else b"")


@pytest.mark.parametrize("host", [BORN_HOST, bytes(20)])
@pytest.mark.parametrize("body", [b"body", b"HG_ is only text here"])
def test_origin_properties_are_sent_only_on_request(conn: RemotingConnection, host: bytes, body: bytes) -> None:
    stored = b"TAGS\x01A\x02HG_PROTOCOL\x01mqtt\x02HG_CLIENT\x01c\x02KEYS\x01k\x02"
    whole = record(stored, host=host, body=body)
    conn.answer(Pulled(pull(conn).ticket, "FOUND", [whole], 6, 0, 6), 2)
    shown = Record(reply(conn).body)
    assert shown.properties == b"TAGS\x01A\x02KEYS\x01k\x02"
    assert check(shown.data)
    assert (shown.body, shown.topic, shown.queue_offset) == (body, "T", 5)
    conn.answer(Pulled(pull(conn, hgOrigin="true").ticket, "FOUND", [whole], 6, 0, 6), 2)
    assert properties.text(Record(reply(conn).body).properties, "HG_PROTOCOL") == "mqtt"
    conn.answer(Pulled(pull(conn).ticket, "FOUND", [whole], 6, 0, 6, unmarked=True), 2)
    assert reply(conn).body == whole, "it was looked through already"


def test_content_type_and_expiry_have_the_names_that_sdks_know(conn: RemotingConnection) -> None:
    stored = b"HG_PROTOCOL\x01mqtt\x02HG_CONTENT_TYPE\x01a/b\x02HG_EXPIRE_MS\x011795000000123\x02KEYS\x01k\x02"
    conn.answer(Pulled(pull(conn).ticket, "FOUND", [record(stored)], 6, 0, 6), 2)
    shown = Record(reply(conn).body)
    assert shown.properties == b"KEYS\x01k\x02mq-content-type\x01a/b\x02mq-expires-at\x012026-11-18T11:06:40.123Z\x02"
    assert check(shown.data)


def test_no_more_properties_are_sent_than_clients_can_read(conn: RemotingConnection) -> None:
    long = b"A\x01" + b"b" * 32_735 + b"\x02"
    conn.answer(Pulled(pull(conn).ticket, "FOUND", [record(long + b"HG_EXPIRE_MS\x011795000000123\x02")], 6, 0, 6), 2)
    assert Record(reply(conn).body).properties == long


def test_the_position_of_a_group_and_its_absence(conn: RemotingConnection) -> None:
    asked = {"consumerGroup": "g", "topic": "T", "queueId": "2"}
    command = one(conn, request(14, {**asked, "setZeroIfNotFound": "false"}))
    assert command == QueryOffset(command.ticket, "g", "T", 2, False)
    assert isinstance(command, QueryOffset)
    conn.answer(Refused(command.ticket, Failure(ErrorCode.OFFSET_NOT_FOUND)), 1)
    assert reply(conn).code == 22
    command = one(conn, request(14, asked), QueryOffset)
    assert command.zero_if_absent
    conn.answer(Offset(command.ticket, 9), 1)
    assert fields(reply(conn)) == {"offset": "9"}


def test_committing_oneway(conn: RemotingConnection) -> None:
    command = one(
        conn, request(15, {"consumerGroup": "g", "topic": "T", "queueId": "2", "commitOffset": "8"}, flag=2), CommitOffsets
    )
    assert (command.offsets, command.wait) == ([("T", 2, 8)], False)


def test_searching_by_time_with_both_boundaries() -> None:
    asked = {"topic": "T", "queueId": "2", "timestamp": "1700000000000"}
    lower = one(connection(), request(29, asked), SearchOffset)
    upper = one(connection(), request(29, {**asked, "boundaryType": "upper"}), SearchOffset)
    assert (lower.upper, upper.upper, upper.timestamp_ms) == (False, True, 1_700_000_000_000)


def test_one_record_by_its_place(conn: RemotingConnection) -> None:
    view = one(conn, request(33, {"offset": "4660"}), ViewMessage)
    assert view.physical_offset == 0x1234
    conn.answer(Viewed(view.ticket, record(b"HG_X\x01y\x02A\x01b\x02")), 1)
    assert Record(reply(conn).body).properties == b"A\x01b\x02"


def test_a_missing_field_is_answered(conn: RemotingConnection) -> None:
    assert conn.receive(request(11, {"topic": "T"}), 1) == []
    (frame,) = replies(conn)
    assert frame.code == 29
    assert "consumerGroup" in frame.remark


def test_a_pull_of_an_illegal_group_is_refused() -> None:
    asked = {"consumerGroup": "bad name", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "4"}
    assert refused_reply(11, asked).code == 26


def test_an_offset_below_zero_is_one_that_is_too_small() -> None:
    asked = {"consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": "-1", "maxMsgNums": "1", "sysFlag": "4"}
    command = one(connection(), request(11, asked), Pull)
    assert command.offset == -1


def test_a_lite_queue_by_its_name_or_by_the_field_of_its_lite_topic(conn: RemotingConnection) -> None:
    for change in ({"topic": "%LMQ%$T$a"}, {"liteTopic": "a"}):
        assert pull(conn, **change).topic == "%LMQ%$T$a"
        found = one(conn, request(29, {**PULL, **change, "timestamp": "5"}), SearchOffset)
        assert found.topic == "%LMQ%$T$a"
    assert pull(conn, liteTopic=" ").topic == "T"
    one(conn, request(34, body=HEARTBEAT))
    command = pull(conn, sysFlag="2", liteTopic="a")
    assert (command.subscribed, isinstance(command.filter, TagFilter)) == (False, True), "subscribed to the topic"
