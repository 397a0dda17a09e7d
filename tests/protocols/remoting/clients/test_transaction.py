"""Ends of transactions, transaction checks, and recall: codes 37, 39, 323 and 370."""

from __future__ import annotations

import pytest

from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused, Sent
from domain.message import record
from domain.message.message import Message, Placed
from domain.transaction import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    CheckTransaction,
    EndTransaction,
    Recalled,
    RecallMessage,
    ResumeTransaction,
)
from protocols.remoting import codes
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.wire.header import BINARY, JSON
from tests.protocols.remoting.frames import fields, one, refused_reply, replies, reply, request

END = {
    "producerGroup": "pg", "tranStateTableOffset": "7", "commitLogOffset": "4660", "commitOrRollback": "8",
    "fromTransactionCheck": "false", "msgId": "U1", "transactionId": "U1", "bname": "b-a",
}  # fmt: skip


@pytest.mark.parametrize(("bits", "outcome"), [("8", COMMIT), ("12", ROLLBACK), ("0", UNKNOWN)])
def test_an_end_of_transaction_has_the_offsets_of_the_half_message(conn: RemotingConnection, bits: str, outcome: str) -> None:
    command = one(conn, request(37, {**END, "commitOrRollback": bits}, flag=2), EndTransaction)
    assert not command.wait
    assert (command.group, command.message_id, command.outcome) == ("pg", "U1", outcome)
    assert (command.offset, command.position) == (7, 0x1234)
    conn.answer(Done(command.ticket), 2)
    assert replies(conn) == []


def test_an_end_of_transaction_that_is_not_oneway_is_answered(conn: RemotingConnection) -> None:
    command = one(conn, request(37, END), EndTransaction)
    assert command.wait
    conn.answer(Done(command.ticket), 2)
    assert reply(conn).code == codes.SUCCESS
    command = one(conn, request(37, END), EndTransaction)
    conn.answer(Refused(command.ticket, Failure(ErrorCode.NOT_ALLOWED, "another group")), 2)
    assert reply(conn).code == codes.NO_PERMISSION
    assert refused_reply(37, {**END, "commitOrRollback": "4"}).code == codes.INVALID_PARAMETER


def test_a_transaction_check_has_the_half_message_and_its_offsets(conn: RemotingConnection) -> None:
    message = Message("T", b"body", b"UNIQ_KEY\x01U1\x02PGROUP\x01pg\x02", queue_id=3, message_id="U1")
    data = record.encode(message, 7, 0x1234, 1, bytes(8))
    conn.answer(CheckTransaction(None, "client", "pg", "U1", data), 1)
    frame = reply(conn)
    assert (frame.code, frame.flag, frame.body) == (39, 2, data)
    assert fields(frame) == {
        "topic": "T", "tranStateTableOffset": "7", "commitLogOffset": "4660", "msgId": "U1", "transactionId": "U1",
        "offsetMsgId": "0A00000100002A9F0000000000001234", "bname": "b-a",
    }  # fmt: skip


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_timers_reply_has_the_handle_that_recalls_it(conn: RemotingConnection, serialize: int) -> None:
    header = {
        "a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1700000000000", "h": "0",
        "i": "TIMER_DELIVER_MS\x011800000000000\x02UNIQ_KEY\x01U1\x02",
    }  # fmt: skip
    send = one(conn, request(310, header, b"x", serialize=serialize))
    conn.answer(Sent(send.ticket, [Placed(9, 1, 2, 3, "U1", "aGFuZGxl")]), 2)
    assert fields(reply(conn))["recallHandle"] == "aGFuZGxl"
    command = one(conn, request(370, {"producerGroup": "pg", "topic": "T", "recallHandle": "aGFuZGxl"}), RecallMessage)
    assert (command.topic, command.handle) == ("T", "aGFuZGxl")
    conn.answer(Recalled(command.ticket, "U1"), 3)
    assert fields(reply(conn))["msgId"] == "U1"
    for code in (ErrorCode.MESSAGE_NOT_FOUND, ErrorCode.ARGUMENT_ILLEGAL):
        command = one(conn, request(370, {"topic": "T", "recallHandle": "aGFuZGxl"}), RecallMessage)
        conn.answer(Refused(command.ticket, Failure(code, "no")), 4)
        assert reply(conn).code == 604


def test_an_undecided_half_message_is_named_by_its_offset_id(conn: RemotingConnection) -> None:
    command = one(
        conn,
        request(323, {"topic": "TRANS_CHECK_MAX_TIME_TOPIC", "msgId": "7F00000100002A9F000000000000ABCD"}),
        ResumeTransaction,
    )
    assert command.position == 0xABCD
    conn.answer(Done(command.ticket), 1)
    assert reply(conn).code == codes.SUCCESS
    assert refused_reply(323, {"topic": "T", "msgId": "none"}).code == codes.INVALID_PARAMETER
