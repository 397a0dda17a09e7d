"""Request codes of Headgate, which RocketMQ's brokers answer with response code 3: docs/protocols/remoting-extensions.md."""

from __future__ import annotations

import json

from domain.admin.topic import Bounds
from domain.client.node import GreetNode, NodeFrameOut, NodeGreeted
from domain.command import HoldQueues
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.clients.pull import EPOCH_FIELD
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket, success
from protocols.remoting.wire.frame import Frame, encode
from protocols.remoting.wire.header import BINARY, FLAG_ONEWAY


def hold(_client: Client, frame: Frame) -> Outcome:
    """Request code 30001 -> HoldQueues. Raises RequestError."""
    args = Arguments(frame)
    try:
        offsets = {int(queue_id): int(offset) for queue_id, offset in json.loads(frame.body or b"[]")}
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(codes.INVALID_PARAMETER, "the body is a list of [queue id, offset]") from error
    name, topic, hold_ms = args.text("hold"), args.text("topic"), max(0, args.number("holdMs"))
    return (HoldQueues(Ticket(frame, success), name, topic, offsets, hold_ms, args.number(EPOCH_FIELD, -1)),)


def greet(_client: Client, frame: Frame) -> Outcome:
    """Request code 30010 -> GreetNode: a gateway opens a stream of commands (code 30011), as decision 38 describes."""
    return (GreetNode(Ticket(frame, _greeted), frame.body),)


def _greeted(_client: Client, ticket: Ticket, event: NodeGreeted) -> bytes:
    return ticket.reply(codes.SUCCESS, body=event.greeting)


def node_frame(opaque: int, event: NodeFrameOut) -> bytes:
    """Request code 30011, oneway: a frame for the gateway on this connection."""
    return encode(codes.NODE_FRAME, opaque, body=event.body, flag=FLAG_ONEWAY, serialize=BINARY)


def bounds(_client: Client, ticket: Ticket, event: Bounds) -> bytes:
    """Reply of 30000: the epoch of a topic, and the bounds of its queues, at one moment."""
    body = {"epoch": event.epoch, "queues": event.queues}
    return ticket.reply(codes.SUCCESS, body=json.dumps(body, separators=(",", ":")).encode())
