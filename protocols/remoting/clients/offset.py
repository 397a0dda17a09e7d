"""Positions of groups and bounds of queues: request codes 14, 15, 29 to 33.

A queue that does not exist is reported as an empty one: bounds 0, earliest store time -1 (AdminBrokerProcessor).
"""

from __future__ import annotations

from collections.abc import Sequence

from domain.admin.message import Viewed
from domain.admin.topic import Bounds, EarliestStoreTime, QueryBounds, QueryEarliestStoreTime, SearchOffset
from domain.command import CommitOffsets, QueryOffset
from domain.errors import ErrorCode
from domain.event import Offset, Refused
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.clients.pull import queue_of, without_origin
from protocols.remoting.ticket import Arguments, MultiTicket, Outcome, Ticket, success
from protocols.remoting.wire.frame import Frame

_NO_SUCH_QUEUE = (ErrorCode.TOPIC_NOT_FOUND, ErrorCode.QUEUE_ILLEGAL)


def query(_client: Client, frame: Frame) -> Outcome:
    """Request code 14 -> QueryOffset: the position of a group in one queue. Response code 22 when it has none."""
    args = Arguments(frame)
    zero = args.text("setZeroIfNotFound", "true").lower() != "false"
    command = QueryOffset(Ticket(frame, offset), args.text("consumerGroup"), args.text("topic"), args.number("queueId"), zero)
    return (command,)


def update(_client: Client, frame: Frame) -> Outcome:
    """Request code 15 -> CommitOffsets: stores the position of a group in one queue; usually oneway."""
    args = Arguments(frame)
    place = (args.text("topic"), args.number("queueId"), args.number("commitOffset"))
    return (CommitOffsets(Ticket(frame, success), args.text("consumerGroup"), [place], wait=not frame.oneway),)


def bound(_client: Client, frame: Frame) -> Outcome:
    """Request codes 30, 31 -> QueryBounds: the offset that the next message gets; that of the first message still stored."""
    args = Arguments(frame)
    multi = MultiTicket(Ticket(frame, success, 2 if frame.code == codes.GET_MAX_OFFSET else 1), 1, _bound)
    return (QueryBounds(multi.part(0), args.text("topic"), max(0, args.number("queueId"))),)


def search(_client: Client, frame: Frame) -> Outcome:
    """Request code 29 -> SearchOffset: the offset at a store time."""
    args = Arguments(frame)
    upper = args.text("boundaryType", "LOWER").upper() == "UPPER"
    multi = MultiTicket(Ticket(frame, success), 1, _found)
    command = SearchOffset(multi.part(0), queue_of(args), args.number("queueId"), args.number("timestamp"), upper)
    return (command,)


def earliest(_client: Client, frame: Frame) -> Outcome:
    """Request code 32 -> QueryEarliestStoreTime: epoch milliseconds, -1 when the queue is empty."""
    args = Arguments(frame)
    multi = MultiTicket(Ticket(frame, success), 1, _earliest)
    return (QueryEarliestStoreTime(multi.part(0), args.text("topic"), args.number("queueId")),)


def offset(_client: Client, ticket: Ticket, event: Offset) -> bytes:
    """Offset -> a reply."""
    return ticket.reply(codes.SUCCESS, {"offset": str(event.offset)})


def _bound(_client: Client, ticket: Ticket, events: Sequence[Bounds | Refused]) -> bytes:
    (event,) = events
    if isinstance(event, Refused):
        return _refusal_reply(ticket, event, "offset", 0)
    found = event.queues[0][ticket.request_data] if event.queues else 0
    return ticket.reply(codes.SUCCESS, {"offset": str(found)})


def _found(client: Client, ticket: Ticket, events: Sequence[Offset | Refused]) -> bytes:
    (event,) = events
    return _refusal_reply(ticket, event, "offset", 0) if isinstance(event, Refused) else offset(client, ticket, event)


def _earliest(_client: Client, ticket: Ticket, events: Sequence[EarliestStoreTime | Refused]) -> bytes:
    (event,) = events
    if isinstance(event, Refused):
        return _refusal_reply(ticket, event, "timestamp", -1)
    return ticket.reply(codes.SUCCESS, {"timestamp": str(event.store_ms)})


def _refusal_reply(ticket: Ticket, event: Refused, name: str, nothing: int) -> bytes:
    """The reply to a refusal: SUCCESS with `nothing` in field `name` when the queue does not exist, else the refusal."""
    if event.failure.code in _NO_SUCH_QUEUE:
        return ticket.reply(codes.SUCCESS, {name: str(nothing)}, remark=event.failure.text)
    return ticket.refused(event.failure)


def view(_client: Client, ticket: Ticket, event: Viewed) -> bytes:
    """Reply of 33: one record, by its physical offset."""
    return ticket.reply(codes.SUCCESS, body=without_origin(event.record))
