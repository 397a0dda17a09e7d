"""Requests of tools that the node relays to clients: codes 222, 223, 307, 309 and 314. Replies of clients: 324 and 325.

RocketMQ's ResetOffsetRequestHeader, GetConsumerStatusRequestHeader, CloneGroupOffsetRequestHeader, ReplyMessageProcessor.
"""

from __future__ import annotations

from domain.address import physical_offset_of
from domain.admin.client import (
    ClientPositions,
    ConsumeDirectly,
    ConsumptionResult,
    RunningInfo,
)
from domain.admin.position import PositionsReset, ResetPositions
from domain.client.client_inquiry import SendReply
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.clients import callback, send
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame


def reset(_client: Client, frame: Frame) -> Outcome:
    """Request code 222 -> ResetPositions."""
    args = Arguments(frame)
    topic = args.text("topic")
    command = ResetPositions(
        Ticket(frame, _reset, (topic, frame.language == callback.CPP)),
        topic,
        args.text("group"),
        max(-1, args.number("timestamp")),
        args.flag("isForce"),
        max(-1, args.number("queueId", -1)),
        max(-1, args.number("offset", -1)),
    )
    return (command,)


def _reset(client: Client, ticket: Ticket, event: PositionsReset) -> bytes:
    topic, listed = ticket.request_data
    return ticket.reply(codes.SUCCESS, body=callback.reset_body(client.node, topic, event.offsets, listed=listed))


def status(_client: Client, ticket: Ticket, event: ClientPositions) -> bytes:
    """Reply of 223: `consumerTable` has the offset of each queue at each member of the group."""
    members = b",".join(
        fastjson.dumps(name)
        + b":"
        + fastjson.keyed((fastjson.queue(broker, topic, queue), offset) for broker, topic, queue, offset in places)
        for name, places in event.members.items()
    )
    return ticket.reply(codes.SUCCESS, body=b'{"consumerTable":{' + members + b'},"messageQueueTable":{}}')


def consume(_client: Client, frame: Frame) -> Outcome:
    """Request code 309 -> ConsumeDirectly: a client consumes the message that an offset message id names."""
    args = Arguments(frame)
    message_id = args.text("msgId")
    offset = physical_offset_of(message_id)
    if offset < 0:
        raise RequestError(codes.INVALID_PARAMETER, f"msgId {message_id[:80]} is no offset message id")
    command = ConsumeDirectly(
        Ticket(frame, client_text), args.text("consumerGroup"), args.text("clientId", ""), offset, message_id
    )
    return (command,)


def client_text(_client: Client, ticket: Ticket, event: RunningInfo | ConsumptionResult) -> bytes:
    """Reply of 307 and 309: what the client has answered."""
    return ticket.reply(codes.SUCCESS, body=event.text)


def reply(client: Client, frame: Frame) -> Outcome:
    """Request codes 324, 325 -> SendReply."""
    return (SendReply(Ticket(frame, send.sent), send.read_message(client, frame), wait=not frame.oneway),)
