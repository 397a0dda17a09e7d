"""Transactions and recall: codes 37, 323 and 370 of clients, 39 to clients (RocketMQ's EndTransactionRequestHeader)."""

from __future__ import annotations

from typing import Final

from domain.address import offset_message_id, physical_offset_of
from domain.message.record import Record
from domain.transaction import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    CheckTransaction,
    EndTransaction,
    Recalled,
    ResumeTransaction,
)
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket, success
from protocols.remoting.wire.frame import Frame, encode
from protocols.remoting.wire.header import FLAG_ONEWAY

_OUTCOMES: Final[dict[int, str]] = {8: COMMIT, 12: ROLLBACK, 0: UNKNOWN}
"""Transaction bits of MessageSysFlag -> outcome."""


def end(_client: Client, frame: Frame) -> Outcome:
    """Request code 37 -> EndTransaction. SDKs send it oneway; a request that is not oneway gets a reply."""
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
    """Request code 323 -> ResumeTransaction: check an undecided half message again. `msgId` is its offset message id."""
    text = Arguments(frame).text("msgId")
    position = physical_offset_of(text)
    if position < 0:
        raise RequestError(codes.INVALID_PARAMETER, f"{text[:80]!r} is not an offset id")
    return (ResumeTransaction(Ticket(frame, success), position),)


def check_request(client: Client, opaque: int, event: CheckTransaction) -> bytes:
    """Request code 39, oneway, sent by the node: the producer answers with code 37 and the same offsets."""
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


def recall(_client: Client, ticket: Ticket, event: Recalled) -> bytes:
    """Reply of 370: the delayed message is deleted before its delivery time."""
    return ticket.reply(codes.SUCCESS, {"msgId": event.message_id})
