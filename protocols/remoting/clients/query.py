"""Messages by key: code 12 (RocketMQ's QueryMessageRequestHeader). Groups that consume a topic: code 300 (GroupList)."""

from __future__ import annotations

from typing import Final

from domain.admin.message import MessagesFound, QueryMessages
from domain.admin.topic import ConsumersFound
from domain.message.record import Record
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.clients.pull import without_origin
from protocols.remoting.ticket import Arguments, Outcome, Rendering, Ticket
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame

UNIQUE: Final = "_UNIQUE_KEY_QUERY"
UNIQUE_LIMIT: Final = 32
"""Messages of one query by unique id; `maxNum` of the request is ignored (MessageStoreConfig.defaultQueryMaxNum)."""


def by_key(_client: Client, frame: Frame) -> Outcome:
    """Request code 12 -> QueryMessages."""
    args = Arguments(frame)
    unique = args.flag(UNIQUE) or args.text("indexType", "") == "U"
    command = QueryMessages(
        Ticket(frame, _found),
        args.text("topic"),
        args.text("key"),
        args.number("beginTimestamp"),
        args.number("endTimestamp"),
        UNIQUE_LIMIT if unique else args.number("maxNum"),
        unique,
    )
    return (command,)


def _found(_client: Client, ticket: Ticket, event: MessagesFound) -> bytes:
    if not event.records:
        return ticket.reply(codes.QUERY_NOT_FOUND, remark="can not find message, maybe time range not correct")
    newest = Record(event.records[0])
    fields = {
        "indexLastUpdateTimestamp": str(newest.store_ms),
        "indexLastUpdatePhyoffset": str(newest.physical_offset),
    }
    return ticket.reply(codes.SUCCESS, fields, b"".join(without_origin(record) for record in event.records))


def consumers(_client: Client, ticket: Ticket, event: ConsumersFound) -> Rendering:
    """Reply of 300: a GroupList."""
    body = yield from fastjson.listing(b"groupList", event.groups)
    return ticket.reply(codes.SUCCESS, body=body)
