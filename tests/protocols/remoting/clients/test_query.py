"""Code 12 (QueryMessageRequestHeader) and code 300 (GroupList)."""

from __future__ import annotations

import json

import pytest

from domain.admin.message import MessagesFound, QueryMessages
from domain.admin.topic import ConsumersFound, QueryConsumers
from domain.message.message import Message
from domain.message.record import Record, encode
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.wire.header import BINARY, JSON
from tests.protocols.remoting.frames import connection, fields, one, replies, reply, request

ASKED = {"topic": "T", "key": "k", "maxNum": "64", "beginTimestamp": "5", "endTimestamp": "9223372036854775807"}


def record(number: int) -> bytes:
    """A stored message."""
    stored = b"UNIQ_KEY\x01A%d\x02KEYS\x01k\x02HG_PROTOCOL\x01http\x02" % number
    return encode(Message("T", b"x", stored, queue_id=0), number, number * 100, 1_000 + number, bytes(8))


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_messages_by_key(conn: RemotingConnection, serialize: int) -> None:
    command = one(conn, request(12, {**ASKED, "_UNIQUE_KEY_QUERY": "false"}, serialize=serialize))
    assert command == QueryMessages(command.ticket, "T", "k", 5, (1 << 63) - 1, 64, False)
    conn.answer(MessagesFound(command.ticket, [record(2), record(1)]), 1)
    frame = reply(conn)
    assert (frame.code, fields(frame)["indexLastUpdateTimestamp"]) == (0, "1002")
    assert fields(frame)["indexLastUpdatePhyoffset"] == "200"
    first = frame.body[: int.from_bytes(frame.body[:4], "big")]
    second = frame.body[len(first) :]
    assert [Record(each).queue_offset for each in (first, second)] == [2, 1]
    assert Record(first).properties == b"UNIQ_KEY\x01A2\x02KEYS\x01k\x02", "where it came from is no matter of an SDK"


@pytest.mark.parametrize("how", [{"_UNIQUE_KEY_QUERY": "true"}, {"indexType": "U"}])
def test_a_query_by_unique_id_has_a_limit_of_its_own(how: dict[str, str]) -> None:
    command = one(connection(), request(12, {**ASKED, "maxNum": "1", **how}), QueryMessages)
    assert (command.unique, command.limit) == (True, 32)


def test_nothing_found_is_22(conn: RemotingConnection) -> None:
    command = one(conn, request(12, ASKED))
    conn.answer(MessagesFound(command.ticket, []), 1)
    assert reply(conn).code == 22


@pytest.mark.parametrize("name", sorted(ASKED))
def test_every_field_is_needed(conn: RemotingConnection, name: str) -> None:
    assert conn.receive(request(12, {key: value for key, value in ASKED.items() if key != name}), 1) == []
    assert [frame.code for frame in replies(conn)] == [29]


def test_consumers_of_a_topic(conn: RemotingConnection) -> None:
    command = one(conn, request(300, {"topic": "T"}), QueryConsumers)
    conn.answer(ConsumersFound(command.ticket, ["a", "b"]), 1)
    assert json.loads(reply(conn).body) == {"groupList": ["a", "b"]}
