"""Transactions and recall: codes 37 and 370 from clients, 39 to them (RocketMQ's EndTransactionRequestHeader and others)."""

from __future__ import annotations

from typing import Final

from domain.address import offset_message_id, physical_offset_of
from domain.event import Event
from domain.record import Record
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
from protocols.remoting.client import Client
from protocols.remoting.frame import Frame, encode
from protocols.remoting.header import FLAG_ONEWAY
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket, success

_OUTCOMES: Final[dict[int, str]] = {8: COMMIT, 12: ROLLBACK, 0: UNKNOWN}
"""MessageSysFlag's transaction bits."""


def end(_client: Client, frame: Frame) -> Outcome:
    """37: what became of a local transaction. Clients send it oneway; who asks for an answer gets one."""
    args = Arguments(frame)
    bits = args.number("commitOrRollback")
    outcome = _OUTCOMES.get(bits)
    if outcome is None:
        raise RequestError(codes.INVALID_PARAMETER, f"commitOrRollback is {bits}: 8 commits, 12 rolls back, 0 leaves it open")
    command = EndTransaction(
        Ticket(frame, success),
        args.text("producerGroup"),
        args.text("transactionId", "") or args.text("msgId", ""),
        outcome,
        args.number("tranStateTableOffset"),
        args.number("commitLogOffset"),
        wait=not frame.oneway,
    )
    return (command,)


def resume(_client: Client, frame: Frame) -> Outcome:
    """323: ask again about a message that nobody decided over. `msgId` is the offset id that it was found by."""
    text = Arguments(frame).text("msgId")
    position = physical_offset_of(text)
    if position < 0:
        raise RequestError(codes.INVALID_PARAMETER, f"{text[:80]!r} is not an offset id")
    return (ResumeTransaction(Ticket(frame, success), position),)


def check_request(client: Client, opaque: int, event: CheckTransaction) -> bytes:
    """39, oneway and ours to begin: the client answers with a 37 that has the same offsets."""
    record = Record(event.record)
    fields = {
        "topic": record.topic,
        "tranStateTableOffset": str(record.queue_offset),
        "commitLogOffset": str(record.physical_offset),
        "msgId": event.message_id,
        "transactionId": event.message_id,
        "offsetMsgId": offset_message_id(client.node.store_host, record.physical_offset),
        "bname": client.node.broker,
    }
    return encode(codes.CHECK_TRANSACTION, opaque, fields=fields, body=event.record, flag=FLAG_ONEWAY)


def recall(_client: Client, frame: Frame) -> Outcome:
    """370: take a timer back."""
    args = Arguments(frame)
    return (RecallMessage(Ticket(frame, _recalled), args.text("topic"), args.text("recallHandle")),)


def _recalled(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, Recalled)
    return ticket.reply(codes.SUCCESS, {"msgId": event.message_id})
